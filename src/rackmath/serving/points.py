"""Operating points of deployments as columns, and which of them nothing beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Operating points, one per entry of every column. (points,)"""

    variant: Ints
    """Place of the number formats among the variants."""
    layout: Ints
    """Place of the layout that writes answers among all layouts."""
    prefill: Ints
    """The same of the layout that reads prompts; -1 where the same accelerators do."""
    workers: Array
    """Workers that write answers, in one unit. [workers]"""
    prefill_workers: Array
    """Workers that read prompts only, in one unit. [workers]"""
    units: Array
    """Times that the unit is repeated. [units]"""
    encoders: Array
    """Accelerators that encode images only, for all units. [accelerators]"""
    batch: Array
    """Sequences in a step of one worker. [sequences]"""
    chunk: Array
    """Tokens of prompts in one pass at most. [tokens]"""
    decode_chunk: Array
    """Tokens of one pass at most of workers that write answers; ``chunk`` where they read prompts as well. [tokens]"""
    draft_tokens: Array
    """Tokens speculated with each step. [tokens]"""
    concurrency: Array
    """Requests in one unit: waiting, being read, being answered. [requests]"""
    gpus: Array
    """Accelerators in use. [accelerators]"""
    billed: Array
    """Accelerators that are paid for: those in use, and those that stand idle beside them. [accelerators]"""
    reading: Array
    """Part of their time in which workers that read prompts only do so; 0 where there are none. [1]"""
    rate: Array
    """Requests served by the whole deployment. [requests/s]"""
    time_to_first_token: Array
    """Mean. [s]"""
    time_per_output_token: Array
    """Of one user. [s]"""

    def __len__(self) -> int:
        """Count points."""
        return len(self.rate)

    def taken(self, places: Ints | Mask) -> Points:
        """Return some of the points."""
        return Points(**{f.name: getattr(self, f.name)[places] for f in fields(self)})

    @property
    def per_gpu(self) -> Array:
        """Requests per second and accelerator that is paid for. [requests/s]"""
        return self.rate / self.billed

    @property
    def sequences(self) -> Array:
        """In the engine of one worker that writes: in its steps, and of prompts that it reads as well. [sequences]"""
        return np.where(self.prefill < 0, np.maximum(self.batch, self.concurrency / self.workers), self.batch)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Corrections:
    """What measurements near points say of them. (points,)"""

    decode: Array
    """Measured over computed time of steps. [1]"""
    prefill: Array
    """The same of prompts. [1]"""
    distance: NDArray[np.str_]
    """near, middling or far: how near measurements of its steps are."""
    ranges: Mapping[str, Array]
    """90 % range of measured over corrected values, by class of measurement. (points, 2)"""

    def taken(self, places: Ints | Mask) -> Corrections:
        """Return those of some of the points."""
        return Corrections(
            decode=self.decode[places],
            prefill=self.prefill[places],
            distance=self.distance[places],
            ranges={name: values[places] for name, values in self.ranges.items()},
        )


def joined(parts: Sequence[Points]) -> Points:
    """Put points of several blocks together."""
    columns: dict[str, Any] = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        if parts
        else np.zeros(0, dtype=np.int64 if f.name in ("variant", "layout", "prefill") else float)
        for f in fields(Points)
    }
    return Points(**columns)


_ROUNDING = 1e-9
"""Part of a gain below which another is the same. [1]"""


def undominated(gain: Array, cost: Array, group: Ints | None = None) -> Ints:
    """Places of the points that no other of their group beats in both: more gain at no more cost.

    Sorted by group, then by cost. A gain that is more by rounding alone is none: where readers of prompts are the
    limit, a larger batch of the writers gains nothing, and processors and their libraries would differ in what stands.
    """
    order = np.argsort(cost, kind="stable")
    if group is not None and len(order):
        # NumPy sorts integers of 16 bits by their digits, others by comparing them.
        narrow = np.uint16 if group.max() <= np.iinfo(np.uint16).max else group.dtype
        order = order[np.argsort(group[order].astype(narrow), kind="stable")]
    sorted_gain, sorted_cost = gain[order], cost[order]
    ends = np.zeros(0, dtype=np.int64) if group is None else np.flatnonzero(np.diff(group[order])) + 1
    best = np.concatenate([np.maximum.accumulate(part) for part in np.split(sorted_gain, ends)])
    begins = np.zeros(len(order) + 1, dtype=bool)
    begins[0] = begins[-1] = True
    begins[ends] = True
    improves = sorted_gain > np.concatenate([[-np.inf], (best + _ROUNDING * np.abs(best))[:-1]])
    places = np.flatnonzero(improves | begins[:-1])
    # Of points at one cost only the last that improves stands.
    last = np.ones(len(places), dtype=bool)
    last[:-1] = (sorted_cost[places[1:]] > sorted_cost[places[:-1]]) | begins[places[1:]]
    return order[places[last]]


def undominated_in_groups(points: Points, gain: Array, latest: float, group: Ints) -> Ints:
    """Places of points that none of their group beats in gain and time per output token.

    With and without a limit on the time to the first token. ``latest`` is that limit. [s]
    """
    inside = np.flatnonzero(points.time_to_first_token <= latest)
    survivors = [
        places[undominated(gain[places], points.time_per_output_token[places], group[places])]
        for places in (inside, np.arange(len(points)))
    ]
    return np.unique(np.concatenate(survivors))
