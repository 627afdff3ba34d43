"""Predictions of rows by constants that never saw their group, and ranges from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.constants import Constants
from rackmath.validation.answers import Array
from rackmath.validation.fit import evaluate, fit
from rackmath.validation.priors import priors
from rackmath.validation.questions import Question

FOLDS = 8
"""Parts that groups are dealt into; each is predicted from the other seven."""

_UNSURE = 0.2
"""Weight of a row that may mean something else than was read."""
_WORKERS = 2
_ROUNDS = 1
_ITERATIONS = 5

GROUPINGS: dict[str, Callable[[Question], str]] = {
    "model on chip": lambda q: f"{q.row.model} {q.system.chip.name}",
    "chip": lambda q: q.system.chip.name,
    "source": lambda q: q.row.source.split(":")[0],
}
"""What is left out as a whole: pairs of model and chip, whole chips, whole sources."""


def weights(questions: Sequence[Question]) -> Array:
    """Weight of each row in a fit: rows of a large group count less, and unsure ones little.

    Rows of one run are not independent; the inverse root of a group's size lies between counting rows and counting
    groups. Unsure are rows of low confidence, those whose layout was inferred, and servers at the edge of their limits.
    """
    names = [GROUPINGS["model on chip"](q) for q in questions]
    sizes = {name: names.count(name) for name in set(names)}
    found = np.array([sizes[n] ** -0.5 for n in names])
    unsure = [q.row.confidence == "low" or bool(q.deployment.inferred) or q.kind == "server" for q in questions]
    found = found * np.where(unsure, _UNSURE, 1.0)
    return found / found.mean()


def folds(questions: Sequence[Question], grouping: str) -> Array:
    """Fold of every row: all rows of a group fall into one, by a hash of its name. (questions,)"""
    name = GROUPINGS[grouping]
    return np.array([int(sha256(name(q).encode()).hexdigest(), 16) % FOLDS for q in questions], dtype=float)


def left_out(questions: Sequence[Question], constants: Constants, grouping: str) -> Array:
    """Values of all rows, each predicted by a fit without its fold, in the rows' units. (questions,)"""
    part = folds(questions, grouping)
    values = np.full(len(questions), np.nan)
    jobs = [_Job(list(questions), constants, part == fold) for fold in range(FOLDS) if np.any(part == fold)]
    with ProcessPoolExecutor(_WORKERS) as pool:
        for job, found in zip(jobs, pool.map(_predicted, jobs), strict=True):
            values[job.test] = found
    return values


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    questions: list[Question]
    constants: Constants
    test: NDArray[np.bool_]


def _predicted(job: _Job) -> Array:
    train = [q for q, out in zip(job.questions, job.test, strict=True) if not out]
    test = [q for q, out in zip(job.questions, job.test, strict=True) if out]
    found = fit(train, weights(train), priors(), job.constants, rounds=_ROUNDS, iterations=_ITERATIONS)
    return evaluate(test, found.constants)[0]
