"""Configs and traces that a viewer sends: kept in files of our own naming, a bounded number of them, never a path."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from rackmath.errors import InputError

LARGEST = {"config": 1_000_000, "trace": 20_000_000}
"""Bytes of one file. [B]"""
_MOST = 64
"""Files that are kept; the longest unused one goes first."""
_PREFIX = "upload-"
_SUFFIXES = {"config": (".json",), "trace": (".csv", ".jsonl", ".ndjson")}

_UPLOADS: OrderedDict[str, Path] = OrderedDict()
_lock = threading.Lock()
_folder: list[tempfile.TemporaryDirectory[str]] = []


def is_upload(name: str) -> bool:
    """Whether a name is that of a file that somebody sent."""
    return name.startswith(_PREFIX)


def keep(kind: str, filename: str, content: bytes) -> str:
    """Keep a file and return the name to ask for it by.

    Parameters
    ----------
    kind : str
        config or trace.

    Errors: :class:`InputError` for files that are too large, or that no reader takes.
    """
    suffix = Path(filename).suffix.lower()
    if suffix not in _SUFFIXES[kind]:
        raise InputError("file", filename, f"send a {' or '.join(_SUFFIXES[kind])} file")
    if not content or len(content) > LARGEST[kind]:
        raise InputError("file", f"{len(content):,} bytes", f"send 1 to {LARGEST[kind]:,} bytes")
    if kind == "config":
        try:
            json.loads(content)
        except ValueError as error:
            raise InputError("file", filename, f"is no JSON: {error}") from error
    name = f"{_PREFIX}{hashlib.sha256(content).hexdigest()[:16]}"
    with _lock:
        if not _folder:
            _folder.append(tempfile.TemporaryDirectory(prefix="rackmath-board-"))
        path = Path(_folder[0].name) / f"{name}{suffix}"
        if name not in _UPLOADS:
            path.write_bytes(content)
        _UPLOADS[name] = path
        _UPLOADS.move_to_end(name)
        while len(_UPLOADS) > _MOST:
            _UPLOADS.popitem(last=False)[1].unlink(missing_ok=True)
    return name


def path_of(name: str) -> Path:
    """Where a file is kept.

    Errors: :class:`InputError` for one that is not kept any more.
    """
    with _lock:
        if name not in _UPLOADS:
            raise InputError("upload", name, "is not kept any more: send the file again")
        _UPLOADS.move_to_end(name)
        return _UPLOADS[name]


def paths() -> list[str]:
    """Where all files are kept."""
    with _lock:
        return [str(path) for path in _UPLOADS.values()]


def shared(names: list[str]) -> dict[str, str]:
    """Paths of some files, for a process that is to read them."""
    return {name: str(path_of(name)) for name in names if is_upload(name)}


def adopt(paths: dict[str, str]) -> None:
    """Know the files of another process."""
    with _lock:
        _UPLOADS.update({name: Path(path) for name, path in paths.items()})
