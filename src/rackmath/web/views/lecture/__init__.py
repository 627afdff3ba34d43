"""Graphs of the lecture's chapters, with the viewer's numbers beside the lecture's."""

from rackmath.web.shown import View
from rackmath.web.views.lecture import (
    batch,
    cliff,
    collective,
    conversation,
    departures,
    lifetime,
    rack,
    rounds,
    stages,
)


def views() -> list[View]:
    """Those of the lecture's chapters, and of the book's chapters between them."""
    chapters = (batch, departures, conversation, rack, collective, stages, lifetime, cliff, rounds)
    return [chapter.view() for chapter in chapters]
