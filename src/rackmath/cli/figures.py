"""What ``--plot`` writes: a file, or the figure itself for those who ask for values."""

from __future__ import annotations

from pathlib import Path

from rackmath.cli.captured import CURRENT
from rackmath.figures import Figure
from rackmath.figures.write import write_figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure; who asks for values gets the figure itself."""
    answer = CURRENT.get()
    if answer is not None:
        answer.figure = figure
        return
    write_figure(figure, path)
