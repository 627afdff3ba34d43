"""Who computes chunks: all cores of this machine, or a Ray cluster. Both lose nothing."""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import polars as pl

from rackmath.errors import InputError, RackmathError
from rackmath.io.processes import ProcessPool
from rackmath.sweeps.chunks import Chunk, computed

_AHEAD = 2
"""Chunks in flight per worker: enough to keep it busy, few enough to hold in memory."""
_ATTEMPTS = 3
"""Times that a chunk is tried whose worker dies under it."""

_PATIENCE = 5.0
"""Time that an address has to answer. [s]"""

Result = tuple[Chunk, pl.DataFrame]


def on_this_machine(chunks: Iterable[Chunk], workers: int | None = None) -> Iterator[Result]:
    """Compute chunks on all cores, yielding each as it finishes.

    Where a worker process is killed, its chunks are computed again.

    Errors: those of :func:`~rackmath.sweeps.chunks.computed`;
    :class:`RackmathError` where workers keep dying under one chunk.
    """
    count = workers or os.cpu_count() or 1
    if count == 1:
        for chunk in chunks:
            yield chunk, computed(chunk)
        return
    waiting: deque[Chunk] = deque()
    source, attempts = iter(chunks), dict[str, int]()
    while True:
        flying: dict[Future[pl.DataFrame], Chunk] = {}
        try:
            with ProcessPool(count, mp_context=multiprocessing.get_context("spawn")) as pool:
                while True:
                    while len(flying) < _AHEAD * count:
                        chunk = waiting.popleft() if waiting else next(source, None)
                        if chunk is None:
                            break
                        flying[pool.submit(computed, chunk)] = chunk
                    if not flying:
                        return
                    for future in wait(flying, return_when=FIRST_COMPLETED).done:
                        result = future.result()
                        yield flying.pop(future), result
        except BrokenProcessPool as error:
            waiting.extend(flying.values())
            for chunk in flying.values():
                attempts[chunk.name] = attempts.get(chunk.name, 0) + 1
                if attempts[chunk.name] > _ATTEMPTS * count:
                    raise RackmathError(f"workers keep dying under chunk {chunk.name}: {chunk.text[:200]}") from error


def on_cluster(chunks: Iterable[Chunk], address: str | None = None) -> Iterator[Result]:
    """Compute chunks on Ray, yielding each as it finishes.

    Parameters
    ----------
    address : str, optional
        Of a running cluster, such as ``ray://host:10001`` or ``auto``; by default one is
        started on this machine.

    Chunks of workers that die are computed again by others.
    Errors: :class:`InputError` where Ray is not installed or the cluster does not answer.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError("--on-cluster", address, "needs Ray: pip install 'rackmath[scale]'") from error
    api: Any = ray
    _reach(address)
    is_own = not api.is_initialized()
    if is_own:
        try:
            api.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError("--on-cluster", address, f"no cluster answers: {error}") from error
    try:
        yield from _cluster_results(api, chunks)
    finally:
        if is_own:
            api.shutdown()


def _reach(address: str | None) -> None:
    """Refuse an address that nobody listens at: Ray itself would try for minutes."""
    if address in (None, "auto", "local"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError("--on-cluster", address, "write ray://host:port, host:port, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError("--on-cluster", address, f"no cluster answers: {error}") from error


def _cluster_results(api: Any, chunks: Iterable[Chunk]) -> Iterator[Result]:
    task = api.remote(max_retries=-1)(_as_bytes)
    most = _AHEAD * max(int(api.cluster_resources().get("CPU", 1)), 1)
    source = iter(chunks)
    flying: dict[Any, Chunk] = {}
    while True:
        while len(flying) < most:
            chunk = next(source, None)
            if chunk is None:
                break
            flying[task.remote(chunk.text)] = chunk
        if not flying:
            return
        ready_references, _ = api.wait(list(flying), num_returns=1)
        for reference in ready_references:
            results = api.get(reference)
            yield flying.pop(reference), pl.read_ipc(io.BytesIO(results))


def _as_bytes(text: str) -> bytes:
    """Result of a chunk as Arrow's file format, which any version of Polars reads."""
    out = io.BytesIO()
    computed(Chunk(text)).write_ipc(out)
    return out.getvalue()
