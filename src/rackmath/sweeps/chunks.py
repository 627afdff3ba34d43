"""Chunks of a sweep, and the folder where their results land.

A chunk is text that says what to compute; its name is the hash of that text and of the
package's version. Results are Parquet files by that name, each written whole or not at
all, so that a sweep that was stopped goes on where it ended, and computing a chunk twice
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rackmath.api.simulation.report import at_end, facts_of, stretches_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of
from rackmath.errors import InputError, RackmathError
from rackmath.io import tables
from rackmath.sweeps import grids, plans, windows
from rackmath.version import __version__

CASES = 4
"""Plans of one chunk: about a second of work."""
_MANIFEST = "sweep.json"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a sweep, as text: the same text is the same result."""

    text: str

    @property
    def name(self) -> str:
        """Name of the result: a hash of the text and of the version that computes it."""
        return hashlib.sha256(f"{__version__} {self.text}".encode()).hexdigest()[:20]


def chunk_of(kind: str, **request: Any) -> Chunk:
    """Write down a chunk."""
    return Chunk(json.dumps({"kind": kind, **request}, sort_keys=True))


def plan_chunks(cases: Sequence[Mapping[str, Any]]) -> list[Chunk]:
    """Chunks of plans, ``CASES`` in each."""
    return [chunk_of("plans", cases=list(cases[i : i + CASES])) for i in range(0, len(cases), CASES)]


def grid_chunks(case: Mapping[str, Any], axes: Mapping[str, Sequence[float]]) -> Iterator[Chunk]:
    """Chunks of a dense grid, ``SLICE`` points in each."""
    total = grids.size(axes)
    for start in range(0, total, grids.SLICE):
        yield chunk_of("grid", case=case, axes=axes, start=start, stop=min(start + grids.SLICE, total))


def computed(chunk: Chunk) -> pl.DataFrame:
    """Compute a chunk. Pure: no files, no state.

    Errors: :class:`InputError` for what is unknown or out of range.
    """
    request = json.loads(chunk.text)
    if request["kind"] == "grid":
        return grids.evaluated(request["case"], request["axes"], request["start"], request["stop"])
    if request["kind"] == "replay":
        return pl.DataFrame([replay(request["request"], request["end"])])
    if request["kind"] == "window":
        return pl.DataFrame([windows.window(request["request"], request["lead"], request["length"])])
    return pl.DataFrame([plans.row(case) for case in request["cases"]], infer_schema_length=None)


def replay(fields: Mapping[str, Any], end: int | None) -> dict[str, str]:
    """A run of the simulator as one cell of JSON, without its range; what cannot be run says why.

    ``end`` takes every step at the low (0) or high (1) end of the engine's range.
    """
    try:
        setup = setup_of(SimulateRequest(**fields))
        if end is not None:
            setup = at_end(setup, end)
        outcomes = run(setup)
        facts = facts_of(setup, outcomes) | {"stretches": stretches_of(setup, outcomes)}
    except RackmathError as error:
        facts = {"error": str(error)}
    return {"facts": json.dumps(facts)}


class Folder:
    """Results of one sweep on disk."""

    def __init__(self, path: Path, sweep: Mapping[str, Any]) -> None:
        """Open or make the folder of a sweep.

        Errors: :class:`InputError` where it holds another sweep, or other files.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("--out", str(path), f"cannot be made: {error.strerror}") from error
        text = json.dumps({"version": __version__, **sweep}, sort_keys=True, indent=1)
        manifest = path / _MANIFEST
        if manifest.exists():
            if manifest.read_text(encoding="utf-8") != text:
                raise InputError("--out", str(path), "holds another sweep; name another folder")
        elif any(path.iterdir()):
            raise InputError("--out", str(path), "holds other files; name an empty folder")
        else:
            tables.write_text(manifest, text, "--out")
        for half in path.glob(".part-*"):
            half.unlink()

    def done(self) -> set[str]:
        """Names of the chunks that are here."""
        return {p.stem.removeprefix("part-") for p in self.path.glob("part-*.parquet")}

    def keep(self, chunk: Chunk, table: pl.DataFrame) -> None:
        """Write a result: it appears whole or not at all."""
        half = self.path / f".part-{chunk.name}.{os.getpid()}"
        table.write_parquet(half, compression="zstd")
        half.replace(self.path / f"part-{chunk.name}.parquet")

    def read(self) -> pl.LazyFrame:
        """All results so far, lazily."""
        return pl.scan_parquet(self.path / "part-*.parquet")
