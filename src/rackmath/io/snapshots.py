"""Snapshots of long runs on disk: whole or not at all, and only taken up by the run that wrote them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.snapshots import Snapshot
from rackmath.version import __version__

_INTERVAL = 10.0
"""Between two snapshots. [s]"""


class Checkpoint:
    """A file that a run writes to now and then, and begins from where it is there."""

    def __init__(self, path: Path, question: Mapping[str, Any]) -> None:
        """Open a checkpoint of a run with these options.

        Errors: :class:`InputError` for a file that another run wrote, or that is none.
        """
        self.path = path
        text = json.dumps(dict(question), sort_keys=True, default=str)
        self.mark = hashlib.sha256(f"{__version__} {text}".encode()).hexdigest()
        self.written = monotonic()
        self.snapshot = self._read() if path.exists() else None

    def keep(self, snapshot: Callable[[], Snapshot]) -> None:
        """Write a snapshot if the last one is some seconds old."""
        if monotonic() - self.written >= _INTERVAL:
            self.write(snapshot())

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot: beside the file, which it then replaces."""
        half = self.path.with_name(f".{self.path.name}.half")
        try:
            with half.open("wb") as out:
                np.savez(out, allow_pickle=False, mark=np.array(self.mark), **snapshot)
            half.replace(self.path)
        except OSError as error:
            raise InputError("--checkpoint", str(self.path), f"cannot be written: {error.strerror}") from error
        finally:
            half.unlink(missing_ok=True)
        self.written = monotonic()

    def done(self) -> None:
        """The run is over: its checkpoint goes."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> Snapshot:
        try:
            with np.load(self.path, allow_pickle=False) as data:
                arrays = dict(data.items())
        except (OSError, ValueError, KeyError) as error:
            raise InputError("--checkpoint", str(self.path), "is no checkpoint: give another name") from error
        if str(arrays.pop("mark", "")) != self.mark:
            raise InputError("--checkpoint", str(self.path), "is of another run: give another name, or remove it")
        return arrays
