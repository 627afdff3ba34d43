"""Two pools: every pairing of workers that read prompts with workers that write answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.layout import stack_layouts
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.load import Scheduling
from rackmath.serving.points import Array, Ints, Mask, Points, joined, undominated, undominated_in_groups
from rackmath.serving.renting import requests_per_billed
from rackmath.serving.waits import read_in_passes, until_begun
from rackmath.serving.workload import Limits, PlanWorkload, Space

FEW_SIZES = 8
"""Sizes of workers up to which all pairings are evaluated."""

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
    """Sequences that fit; none where the engine has no such workers. (layouts, chunks)"""
    drafted: Mask
    """Whether the engine verifies so many drafts in the layout. (layouts, drafts)"""
    kind: Ints
    """Of the other pool's workers it takes caches from those of one kind. (layouts,)"""
    scheduling: Scheduling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefillOptions:
    """Times of workers that only read prompts."""

    layouts: list[Layout]
    gpus: Array
    groups: Array
    prompt: Array
    """Time per prompt of one group when passes are filled, or of its server's process. (layouts, chunks) [s]"""
    alone: Array
    """Time of a prompt alone. (layouts, chunks) [s]"""
    together: Array
    """Prompts in a full pass. (layouts, chunks)"""
    stages: Array
    """Micro-batches that read at a time. (layouts, chunks)"""
    capacity: Array
    """Sequences that fit; none where the engine has no such workers. (layouts, chunks)"""
    drafted: Mask
    """Whether workers of the layout can be the first of those that verify drafts. (layouts,)"""
    kind: Ints
    """As of :class:`DecodeOptions`. (layouts,)"""


def two_pools(
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    architecture: Architecture,
    decode: DecodeOptions,
    prefill: PrefillOptions,
    s: Scheduling,
) -> tuple[Points, int, int]:
    """Evaluate all pairings of layouts and worker counts within the budget.

    Of the layouts that read prompts only those are paired that no other of their size
    beats in both latency and rate; where there are many sizes, only those that no other
    size beats in latency and in rate per accelerator. A pairing holds where the readers
    keep up with the writers at their batch, and their engine sends caches from one to the other.

    Returns
    -------
    tuple
        Undominated points of each pairing of layouts, points evaluated, points that hold.
    """
    frontiers: list[Points] = []
    count = fit_count = 0
    sizes = np.unique(prefill.gpus[(prefill.capacity >= prefill.groups[:, None]).any(axis=1)])
    readers = {g: _best_readers(prefill, g) for g in sizes}
    if len(sizes) > FEW_SIZES:
        readers = {g: readers[g] for g in _worthwhile(readers)}
    for writer_gpus in np.unique(decode.gpus[(decode.capacity > 0).any(axis=1)]) if readers else ():
        blocks: list[Points] = []
        writers = np.flatnonzero(decode.gpus == writer_gpus)
        columns = _DecodePools.of(decode, writers, work, np.array(space.draft_tokens), np.array(space.chunks))
        for read, options in readers.items():
            for prefill_workers, workers in _worker_counts(int(read), int(writer_gpus), space):
                block = _Block(system, work, architecture, prefill, s, columns, options, prefill_workers, workers)
                points, pairs, good = block.points(space, limits.time_to_first_token)
                count, fit_count = count + pairs, fit_count + good
                blocks.append(points)
        frontiers.append(_best_of_pairings(joined(blocks), work, limits, space, len(prefill.layouts)))
    return joined(frontiers), count, fit_count


def _best_of_pairings(points: Points, work: PlanWorkload, limits: Limits, space: Space, layouts: int) -> Points:
    """Points that no other of the same two layouts beats, whatever the numbers of their workers."""
    rates = requests_per_billed(points, work, space)
    pairing = points.layout * layouts + points.prefill
    return points.taken(undominated_in_groups(points, rates, limits.time_to_first_token, pairing))


def _worthwhile(readers: Mapping[float, _PrefillPools]) -> list[float]:
    """Sizes of workers that read prompts and hold an undominated one, per accelerator."""
    sizes = np.concatenate([np.full(len(r.layout), g) for g, r in readers.items()])
    per_gpu = np.concatenate([r.groups / r.prompt / g for g, r in readers.items()])
    alone = np.concatenate([r.alone for r in readers.values()])
    kinds = np.concatenate([2 * r.kind + r.drafted for r in readers.values()])
    return sorted(set(sizes[undominated(per_gpu, alone, kinds)].tolist()))


def _worker_counts(read: int, writer_gpus: int, space: Space) -> Iterator[tuple[int, int]]:
    """Workers of both pools of a unit that is no repetition of a smaller one."""
    most = min(space.gpus, space.largest_unit)
    for prefill_workers in range(1, MOST_WORKERS + 1):
        for workers in range(1, MOST_WORKERS + 1):
            if gcd(prefill_workers, workers) == 1 and prefill_workers * read + workers * writer_gpus <= most:
                yield prefill_workers, workers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PrefillPools:
    """Layouts and chunks that read prompts, of one size. (readers,)"""

    layout: Ints
    chunk: Ints
    prompt: Array
    alone: Array
    together: Array
    stages: Array
    groups: Array
    drafted: Mask
    kind: Ints


def _best_readers(prefill: PrefillOptions, gpus: float) -> _PrefillPools:
    layout, chunk = (x.ravel() for x in np.indices(prefill.prompt.shape))
    inside = (prefill.gpus[layout] == gpus) & (prefill.capacity[layout, chunk] >= prefill.groups[layout])
    layout, chunk = layout[inside], chunk[inside]
    prompt, alone, groups = prefill.prompt[layout, chunk], prefill.alone[layout, chunk], prefill.groups[layout]
    may_draft, kind = prefill.drafted[layout], prefill.kind[layout]
    best = undominated(groups / prompt, alone, 2 * kind + may_draft)
    return _PrefillPools(
        layout=layout[best],
        chunk=chunk[best],
        prompt=prompt[best],
        alone=alone[best],
        together=prefill.together[layout, chunk][best],
        stages=prefill.stages[layout, chunk][best],
        groups=groups[best],
        drafted=may_draft[best],
        kind=kind[best],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DecodePools:
    """Layouts, batches and drafts that write answers, of one size. (writers,)"""

    layout: Ints
    batch: Array
    draft_tokens: Array
    step: Array
    tpot: Array
    chunk: Array
    """Tokens of one pass at most: the fewest that a step of one group has room in. (writers,) [tokens]"""
    lanes: Array
    """Ranks of one group, which receive a cache. (writers,)"""
    kind: Ints
    rank: Array
    """Rank of the rate among all, lifted by layout, so that it rises from layout to layout. (writers,)"""
    gpus: float

    @staticmethod
    def of(
        decode: DecodeOptions, layouts_of_size: Ints, work: PlanWorkload, draft_tokens: Array, chunks: Array
    ) -> _DecodePools:
        """Flatten the options of some layouts, sorted by layout and time; batches that do not fit are left out."""
        s = decode.scheduling
        place, b, d = (x.ravel() for x in np.indices((len(layouts_of_size), len(decode.batches), len(draft_tokens))))
        groups = np.array([float(x.data) for x in decode.layouts])
        tokens = decode.batches[b] / groups[layouts_of_size[place]] * (1 + draft_tokens[d])
        chunk = np.minimum(np.searchsorted(chunks, tokens), len(chunks) - 1)
        fits = decode.batches[b] <= decode.capacity[layouts_of_size[place], chunk]
        fits &= decode.drafted[layouts_of_size[place], d]
        place, b, d, chunk = place[fits], b[fits], d[fits], chunk[fits]
        tpot = decode.step[layouts_of_size[place], b, d] / np.asarray(s.accepted(draft_tokens))[d]
        rate = decode.batches[b] / tpot
        order = np.lexsort((-rate, tpot, place))
        place, b, d, chunk = place[order], b[order], d[order], chunk[order]
        layout = layouts_of_size[place]
        ranks = np.array([float(x.tensor * x.pipeline) for x in decode.layouts])
        rank = np.unique(rate[order], return_inverse=True)[1] + place * (len(rate) + 1.0)
        return _DecodePools(
            layout=layout,
            batch=decode.batches[b],
            draft_tokens=draft_tokens[d],
            step=decode.step[layout, b, d],
            tpot=tpot[order],
            chunk=chunks[chunk],
            lanes=ranks[layout],
            kind=decode.kind[layout],
            rank=rank,
            gpus=float(decode.gpus[layouts_of_size[0]]),
        )

    def undominated(self, candidates: Mask) -> Mask:
        """Which of the meant writers no other of their layout beats in both time and rate."""
        best = np.maximum.accumulate(np.where(candidates, self.rank, -1.0))
        return candidates & (self.rank > np.concatenate([[-1.0], best[:-1]]))


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """One size of readers, one of writers, and how many of each."""

    system: System
    work: PlanWorkload
    architecture: Architecture
    prefill: PrefillOptions
    s: Scheduling
    writers: _DecodePools
    readers: _PrefillPools
    prefill_workers: int
    workers: int

    def points(self, space: Space, latest: float) -> tuple[Points, int, int]:
        """Undominated points, with and without a limit on the first token; pairs; pairs that hold.

        Throughput and speed are the writers' alone, so each of them takes the reader with
        the earliest first token among those that keep up.
        """
        w, r, work, s = self.writers, self.readers, self.work, self.s
        read_gpus = self.prefill_workers * float(self.prefill.gpus[r.layout[0]])
        unit = read_gpus + self.workers * w.gpus
        units = float(space.gpus // unit)
        rate = (self.workers * w.batch / (work.output * w.tpot))[None, :]
        lanes = (self.prefill_workers * r.groups)[:, None]
        prompt, alone = r.prompt[:, None], r.alone[:, None]
        busy = rate * prompt / lanes
        good = (busy < 1) & (r.kind[:, None] == w.kind) & (r.drafted[:, None] | (w.draft_tokens == 0))
        # Of several equal readers the next free one takes a prompt: its wait is about one part of a single reader's.
        own_rate = np.where(good, rate / lanes, 0.0)
        reading, wait = read_in_passes(prompt, alone, r.together[:, None], r.stages[:, None], own_rate)
        starts = np.asarray(until_begun(w.step, 1.0, 1.0, s))
        first = np.where(good, s.arrival + reading + wait / lanes + starts[None, :] + self._transfer(unit), np.inf)
        reader = first.argmin(axis=0)
        earliest = first[reader, np.arange(len(reader))]
        fits = np.isfinite(earliest)
        on_frontier = w.undominated(fits) | w.undominated(fits & (earliest <= latest))
        at = np.flatnonzero(on_frontier)
        size = len(at)
        result = Points(
            variant=np.zeros(size, dtype=np.int64),
            layout=w.layout[at],
            prefill=r.layout[reader[at]],
            workers=np.full(size, float(self.workers)),
            prefill_workers=np.full(size, float(self.prefill_workers)),
            units=np.full(size, units),
            encoders=np.zeros(size),
            batch=w.batch[at],
            chunk=np.array(space.chunks)[r.chunk[reader[at]]],
            decode_chunk=w.chunk[at],
            draft_tokens=w.draft_tokens[at],
            concurrency=rate[0, at] * (earliest[at] + work.output * w.tpot[at]),
            gpus=np.full(size, units * unit),
            billed=np.full(size, units * unit),
            reading=np.broadcast_to(busy, good.shape)[reader[at], at],
            rate=units * rate[0, at],
            time_to_first_token=earliest[at],
            time_per_output_token=w.tpot[at],
        )
        return result, good.size, int(good.sum())

    def _transfer(self, gpus: float) -> Array:
        """Time that a cache takes from readers to writers. (readers, writers) [s]"""
        layouts = [self.prefill.layouts[int(i)] for i in self.readers.layout.tolist()]
        source = stack_layouts(layouts, 2)
        target = Layout(tensor=self.writers.lanes[None, :])
        return np.asarray(
            transfer_time(self.architecture, self.system, source, target, self.work.input, np.asarray(gpus))
        )
