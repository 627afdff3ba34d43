"""Paths that users name: whether a file is there, can be read to its end, is not too large; where they keep things."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISREG

import platformdirs

from rackmath.errors import InputError

FOLDER = "RACKMATH_DATA"
"""Variable of the environment that names the folder of what a user keeps."""


def own_folder() -> Path:
    """Folder of what a user keeps: measurements, and what the quiz remembers.

    The one that ``RACKMATH_DATA`` names, else the platform's folder for data of programs.
    """
    folder = os.environ.get(FOLDER)
    return Path(folder) if folder else Path(platformdirs.user_data_dir("rackmath", False))


def is_file(path: Path) -> bool:
    """Whether there is such a regular file; False of names that no file can have, of devices and pipes."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; False of names that none can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def bounded_file(path: Path, field: str, largest: int, noun: str) -> Path:
    """A regular file of at most ``largest`` bytes; devices and pipes, which may have no end, are none.

    Errors: :class:`InputError` for anything else, its size called that of ``noun``.
    """
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(field, str(path), f"cannot be read: {reason}") from error
    if not S_ISREG(facts.st_mode):
        raise InputError(field, str(path), "is no regular file: write it to one first")
    if facts.st_size > largest:
        raise InputError(field, str(path), f"{noun} is smaller than {largest >> 20} MiB")
    return path
