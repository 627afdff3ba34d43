"""Graphs of the lecture's chapters, with the viewer's numbers beside the lecture's."""

from rackmath.web.shown import View
from rackmath.web.views.lecture import batch, cliff, lifetime, rack, rounds, stages


def views() -> list[View]:
    """One for each chapter."""
    return [chapter.view() for chapter in (batch, rack, stages, lifetime, cliff, rounds)]
