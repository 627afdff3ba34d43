"""Two pools: every pairing of workers that read prompts with workers that write answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.layout import widths
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.points import Array, Ints, Points, joined, undominated
from rackmath.serving.steady import Scheduling
from rackmath.serving.workload import Limits, Space, Workload

MOST_WORKERS = 8
"""Workers of one pool in one unit: wider pools repeat the unit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodeOptions:
    """Times of workers that only write answers."""

    layouts: list[Layout]
    gpus: Array
    batches: Array
    step: Array
    """Time of a step. (layouts, batches, drafts) [s]"""
    capacity: Array
    """Sequences that fit. (layouts,)"""
    scheduling: Scheduling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefillOptions:
    """Times of workers that only read prompts."""

    layouts: list[Layout]
    gpus: Array
    groups: Array
    prompt: Array
    """Time per prompt of one group when passes are filled. (layouts, chunks) [s]"""
    alone: Array
    """Time of a prompt alone. (layouts, chunks) [s]"""


def two_pools(
    system: System,
    work: Workload,
    limits: Limits,
    space: Space,
    architecture: Architecture,
    decode: DecodeOptions,
    prefill: PrefillOptions,
    s: Scheduling,
) -> tuple[Points, int, int]:
    """Evaluate all pairings of layouts and worker counts within the budget.

    Of the layouts that read prompts only those are paired that no other of their size
    beats in both latency and rate. A pairing holds where the readers keep up with the
    writers at their batch.

    Returns
    -------
    tuple
        Undominated points of each pairing of sizes and of each layout that writes, points evaluated, points that hold.
    """
    kept: list[Points] = []
    evaluated = held = 0
    readers = {g: _best_readers(prefill, g) for g in np.unique(prefill.gpus)}
    for written in np.unique(decode.gpus):
        writers = np.flatnonzero(decode.gpus == written)
        columns = _Writers.of(decode, writers, work, np.array(space.drafted))
        for read, options in readers.items():
            for prefill_workers, workers in _worker_counts(int(read), int(written), space):
                block = _Block(system, work, architecture, prefill, s, columns, options, prefill_workers, workers)
                points, good = block.points(space)
                evaluated += good.size
                held += int(good.sum())
                inside = points.time_to_first_token <= limits.time_to_first_token
                kept += [
                    some.taken(undominated(some.per_gpu, some.time_per_output_token, some.layout))
                    for some in (points.taken(inside), points)
                ]
    return joined(kept), evaluated, held


def _worker_counts(read: int, written: int, space: Space) -> Iterator[tuple[int, int]]:
    """Workers of both pools of a unit that is no repetition of a smaller one."""
    most = min(space.gpus, space.largest_unit)
    for prefill_workers in range(1, MOST_WORKERS + 1):
        for workers in range(1, MOST_WORKERS + 1):
            if gcd(prefill_workers, workers) == 1 and prefill_workers * read + workers * written <= most:
                yield prefill_workers, workers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Readers:
    """Layouts and chunks that read prompts, of one size. (readers,)"""

    layout: Ints
    chunk: Ints
    prompt: Array
    alone: Array
    groups: Array


def _best_readers(prefill: PrefillOptions, gpus: float) -> _Readers:
    layout, chunk = (x.ravel() for x in np.indices(prefill.prompt.shape))
    inside = prefill.gpus[layout] == gpus
    layout, chunk = layout[inside], chunk[inside]
    prompt, alone, groups = prefill.prompt[layout, chunk], prefill.alone[layout, chunk], prefill.groups[layout]
    best = undominated(groups / prompt, alone)
    return _Readers(layout=layout[best], chunk=chunk[best], prompt=prompt[best], alone=alone[best], groups=groups[best])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Writers:
    """Layouts, batches and drafts that write answers, of one size. (writers,)"""

    layout: Ints
    batch: Array
    drafted: Array
    step: Array
    tpot: Array
    capacity: Array
    lanes: Array
    """Ranks of one group, which receive a cache. (writers,)"""
    gpus: float

    @staticmethod
    def of(decode: DecodeOptions, chosen: Ints, work: Workload, drafted: Array) -> _Writers:
        """Flatten the options of some layouts; those whose batch does not fit are left out."""
        s = decode.scheduling
        place, b, d = (x.ravel() for x in np.indices((len(chosen), len(decode.batches), len(drafted))))
        layout = chosen[place]
        fits = decode.batches[b] <= decode.capacity[layout]
        layout, b, d = layout[fits], b[fits], d[fits]
        step = decode.step[layout, b, d]
        ranks = np.array([float(x.tensor * x.pipeline) for x in decode.layouts])
        return _Writers(
            layout=layout,
            batch=decode.batches[b],
            drafted=drafted[d],
            step=step,
            tpot=step / np.asarray(s.accepted(drafted))[d],
            capacity=decode.capacity[layout],
            lanes=ranks[layout],
            gpus=float(decode.gpus[chosen[0]]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """One size of readers, one of writers, and how many of each."""

    system: System
    work: Workload
    architecture: Architecture
    prefill: PrefillOptions
    s: Scheduling
    writers: _Writers
    readers: _Readers
    prefill_workers: int
    workers: int

    def points(self, space: Space) -> tuple[Points, np.ndarray]:
        """Points that hold, and which of all (readers, writers) do."""
        w, r, work, s = self.writers, self.readers, self.work, self.s
        read_gpus = self.prefill_workers * float(self.prefill.gpus[r.layout[0]])
        unit = read_gpus + self.workers * w.gpus
        units = float(space.gpus // unit)
        rate = (self.workers * w.batch / (work.output * w.tpot))[None, :]
        lanes_busy = (self.prefill_workers * r.groups)[:, None]
        prompt, alone = r.prompt[:, None], r.alone[:, None]
        # Passes fill up only where prompts wait: below one per group and prompt they are read alone.
        load = rate * prompt / lanes_busy
        base = s.arrival + alone + w.step[None, :] + self._transfer(unit)
        answer = work.output * w.tpot[None, :]
        each = s.queueing * prompt / lanes_busy
        alone_users = rate * (base + answer)
        room = 1 - rate * each
        queued = rate * (base + answer - s.queueing * prompt) / np.where(room > 0, room, 1.0)
        users = np.where(alone_users <= lanes_busy, alone_users, queued)
        first = users / rate - answer
        good = (load <= 1) & ((alone_users <= lanes_busy) | (room > 0))
        at = np.nonzero(good)
        size = len(at[0])
        chunk = np.array(space.chunks)[r.chunk]
        found = Points(
            variant=np.zeros(size, dtype=np.int64),
            layout=w.layout[at[1]],
            prefill=r.layout[at[0]],
            workers=np.full(size, float(self.workers)),
            prefill_workers=np.full(size, float(self.prefill_workers)),
            units=np.full(size, units),
            batch=w.batch[at[1]],
            chunk=chunk[at[0]],
            drafted=w.drafted[at[1]],
            concurrency=users[at],
            gpus=np.full(size, units * unit),
            rate=units * rate[0, at[1]],
            time_to_first_token=first[at],
            time_per_output_token=w.tpot[at[1]],
        )
        return found, good

    def _transfer(self, gpus: float) -> Array:
        """Time that a cache takes from readers to writers. (readers, writers) [s]"""
        names = widths(Layout())
        chosen = [self.prefill.layouts[int(i)] for i in self.readers.layout.tolist()]
        source = Layout(**{n: np.array([float(getattr(x, n)) for x in chosen])[:, None] for n in names})
        target = Layout(tensor=self.writers.lanes[None, :])
        return np.asarray(
            transfer_time(self.architecture, self.system, source, target, self.work.input, np.asarray(gpus))
        )
