"""Write a figure where a user names a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rackmath.errors import InputError
from rackmath.figures.plotly import plotly_figure
from rackmath.figures.record import Figure
from rackmath.figures.still import write_still

SUFFIXES = (".html", ".png", ".svg")


def check_picture(path: str | None) -> Path | None:
    """Read the path of a picture before any work is done for it.

    Errors: :class:`InputError` for a suffix that no renderer writes, and for a folder
    that does not exist.
    """
    if path is None:
        return None
    out = Path(path)
    if out.suffix.lower() not in SUFFIXES:
        raise InputError("--plot", path, f"end the name with one of {', '.join(SUFFIXES)}")
    if not out.parent.is_dir():
        raise InputError("--plot", path, "its folder does not exist")
    return out


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the file appears whole or not at all.

    Errors: :class:`InputError` where such a file cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix.lower())
    except OSError as error:
        raise InputError("--plot", str(path), f"cannot be written: {error.strerror}") from error
    os.close(handle)
    target = Path(name)
    try:
        if path.suffix.lower() == ".html":
            plotly_figure(figure).write_html(target, include_plotlyjs=True, full_html=True)
        else:
            write_still(figure, target)
        # mkstemp makes files that only their owner reads.
        target.chmod(0o644)
        target.replace(path)
    except OSError as error:
        raise InputError("--plot", str(path), f"cannot be written: {error.strerror}") from error
    finally:
        target.unlink(missing_ok=True)
