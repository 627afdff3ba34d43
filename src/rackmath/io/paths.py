"""Paths that users name: whether a file is there, can be read to its end, and is not too large."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from rackmath.errors import InputError


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


def bounded_file(path: Path, field: str, largest: int, what: str) -> Path:
    """A regular file of at most ``largest`` bytes; devices and pipes, which may have no end, are none.

    Errors: :class:`InputError` for anything else, with ``what`` a reader may do about its size.
    """
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(field, str(path), f"cannot be read: {reason}") from error
    if not S_ISREG(facts.st_mode):
        raise InputError(field, str(path), "is no regular file: write it to one first")
    if facts.st_size > largest:
        raise InputError(field, str(path), f"{what} is smaller than {largest >> 20} MiB")
    return path
