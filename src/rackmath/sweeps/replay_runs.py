"""Many runs of the simulator: on all cores or on Ray, kept in a folder so that a search that was stopped goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rackmath.api.fields import plain_fields
from rackmath.api.simulation.request import SimulateRequest
from rackmath.sweeps.chunks import Chunk, Folder, chunk_of
from rackmath.sweeps.windows import join_windows, windows_of
from rackmath.sweeps.workers import on_cluster, on_this_machine

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLocation:
    """Who computes, and where results are kept."""

    workers: int | None = None
    """Processes; by default one per core."""
    cluster: str | None = None
    """Address of a Ray cluster, instead."""
    folder: Path | None = None
    """Runs that are here are not computed again."""


def chunk_of_run(request: SimulateRequest, end: int | None = None) -> Chunk:
    """A run as text; equal text is an equal result. ``end`` as of :func:`replays`."""
    return chunk_of("replay", request=plain_fields(request), end=end)


def replays(
    requests: Sequence[SimulateRequest], where: RunLocation, progress: Callable[[str], None], end: int | None = None
) -> list[Facts]:
    """Facts of every run, in their order; a run that cannot be run has ``error`` instead.

    Parameters
    ----------
    end : int, optional
        Every step at the low (0) or high (1) end of the engine's range.

    Errors: :class:`InputError` for a folder that holds something else, a cluster that does not answer.
    """
    chunks = [chunk_of_run(request, end) for request in requests]
    return [_facts(table) for table in _tables(chunks, where, "runs", progress)]


def whole_of_windows(
    request: SimulateRequest, count: int, where: RunLocation, progress: Callable[[str], None]
) -> dict[str, Any]:
    """A long run from windows of its time that are simulated apart, as :mod:`rackmath.sweeps.windows` says.

    Errors: :class:`InputError` for traffic that has no such windows, and as of :func:`replays`.
    """
    parts = windows_of(request, count)
    chunks = [chunk_of("window", **part) for part in parts]
    return join_windows(pl.concat(_tables(chunks, where, "windows", progress)), parts[0]["length"])


def _tables(
    chunks: Sequence[Chunk], where: RunLocation, noun: str, progress: Callable[[str], None]
) -> list[pl.DataFrame]:
    """Results of chunks, in their order; those that the folder has are not computed again."""
    tables: dict[str, pl.DataFrame] = {}
    folder = None if where.folder is None else Folder(where.folder, {"holds": f"{noun} of the simulator"})
    if folder is not None:
        finished_chunks = folder.done()
        for chunk in chunks:
            if chunk.name in finished_chunks:
                tables[chunk.name] = pl.read_parquet(folder.path / f"part-{chunk.name}.parquet")
    pending_chunks = [chunk for chunk in chunks if chunk.name not in tables]
    # With one run to do, starting processes would take longer than the work.
    workers = 1 if len(pending_chunks) == 1 and where.workers is None else where.workers
    source = (
        on_this_machine(pending_chunks, workers) if where.cluster is None else on_cluster(pending_chunks, where.cluster)
    )
    for chunk, table in source:
        if folder is not None:
            folder.keep(chunk, table)
        tables[chunk.name] = table
        progress(f"{len(tables)} of {len(chunks)} {noun}")
    return [tables[chunk.name] for chunk in chunks]


def _facts(table: pl.DataFrame) -> Facts:
    return json.loads(table["facts"][0])
