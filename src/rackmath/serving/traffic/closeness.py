"""How far two workloads are apart: two-sample tests on what a simulation depends on."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.traffic.fit import reuse_of

F = NDArray[np.float64]

_CRITICAL = 1.358
"""Of the Kolmogorov-Smirnov statistic at 5 %, times the root of the sample (Smirnov 1948)."""
_WINDOW = 10.0
"""In which arrivals are counted. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """One quantity of two workloads."""

    name: str
    mean: tuple[float, float]
    deviation: tuple[float, float]
    distance: float
    """Largest difference of the two distributions: the Kolmogorov-Smirnov statistic. [1]"""
    critical: float
    """Distance that independent values of one distribution exceed in 5 % of cases. [1]"""


def closeness(first: Arrivals, second: Arrivals) -> list[Closeness]:
    """Gaps, arrivals in ten seconds, lengths, and the part of prompts that is an earlier one's, of two workloads."""
    pairs = [
        ("gap between requests, s", *(np.diff(work.arrival) for work in (first, second))),
        ("requests in 10 s", *(_counts(work.arrival) for work in (first, second))),
        ("prompt, tokens", first.prompt, second.prompt),
        ("answer, tokens", first.output, second.output),
    ]
    if len(first.start) and len(second.start):
        pairs.append(("part of a prompt known", *(_known(work) for work in (first, second))))
    return [_compared(name, np.asarray(a, float), np.asarray(b, float)) for name, a, b in pairs]


def _counts(arrival: F) -> NDArray[np.int64]:
    edges = np.arange(0.0, float(arrival[-1]) + 2 * _WINDOW, _WINDOW)
    return np.histogram(arrival, edges)[0][:-1] if len(edges) > 2 else np.array([len(arrival)])


def _known(work: Arrivals) -> F:
    count, shared_blocks, _ = reuse_of(work)
    return shared_blocks / np.maximum(count, 1)


def _compared(name: str, first: F, second: F) -> Closeness:
    values = np.unique(np.concatenate([first, second]))
    below = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (first, second)]
    return Closeness(
        name=name,
        mean=(float(first.mean()), float(second.mean())),
        deviation=(float(first.std()), float(second.std())),
        distance=float(np.abs(below[0] - below[1]).max()),
        critical=_CRITICAL * sqrt((len(first) + len(second)) / (len(first) * len(second))),
    )
