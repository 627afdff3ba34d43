"""Predictions of rows by constants that never saw their group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.constants import Constants
from rackmath.io.processes import ProcessPool
from rackmath.validation.fit import Prior, Start, fit
from rackmath.validation.groups import Array
from rackmath.validation.problem import evaluate
from rackmath.validation.questions import Question

FOLDS = 5
"""Parts that groups are dealt into; each is predicted from the others."""

LARGE = 1 / 20
"""Share of all rows from which a source is a fold of its own: two large ones out at once leave engines without rows."""

_UNSURE = 0.2
"""Weight of a row that may mean something else than was read."""
UNSURE = (
    "queued",
    "random_tokens_mtp_acceptance",
    "prefill_workers_not_stated",
    "batch_field_is_engine_setting",
    "dp_attention_switch_without_dp_size",
    "layout_inferred",
)
"""Flags of rows whose source leaves open what ran, or what an answer waited for."""
STEADY = 4
"""Requests of each user of a closed loop from which most of a run is neither its start nor its end."""
_WORKERS = 2
_ROUNDS = 2
_ITERATIONS = 5


GROUPINGS: dict[str, Callable[[Question], str]] = {
    "source": lambda q: q.row.publisher,
    "model on chip": lambda q: f"{q.architecture.name} {q.system.chip.name}",
    "chip": lambda q: q.system.chip.name,
    "engine on generation": lambda q: f"{q.row.family} {q.system.chip.generation}",
}
"""What is left out as a whole: sources, pairs of model and chip, whole chips, engines on generations."""


def reserved(question: Question) -> bool:
    """Whether a row's source takes part in no choice of structure: one source in three, by a hash of its name."""
    return int(sha256(("reserved " + question.row.publisher).encode()).hexdigest(), 16) % 3 == 0


def weights(questions: Sequence[Question]) -> Array:
    """Weight of each row in a fit: rows of a large group count less, and unsure ones little.

    Rows of one source on one model, chip and kind of load are not independent; the inverse root of a group's size
    lies between counting rows and counting groups. Unsure are rows of low confidence, those whose layout was inferred,
    those with a flag of :data:`UNSURE`, servers at the edge of their limits, and requests that all come at once, whose
    start depends on a host that no column states: so do closed loops that end before :data:`STEADY` requests of each
    user.
    """
    names = [(q.row.publisher, q.architecture.name, q.system.chip.name, q.kind) for q in questions]
    sizes = Counter(names)
    result = np.array([sizes[n] ** -0.5 for n in names])
    unsure = [
        q.row.confidence == "low"
        or bool(q.deployment.inferred)
        or q.kind == "server"
        or q.kind == "wave"
        or _unsteady(q)
        or any(q.row.flag(name) for name in UNSURE)
        for q in questions
    ]
    result = result * np.where(unsure, _UNSURE, 1.0)
    return result / result.mean()


def _unsteady(question: Question) -> bool:
    users, requests = question.row.concurrency, question.row.num_requests
    return question.kind == "closed" and users is not None and requests is not None and requests < STEADY * users


def folds(questions: Sequence[Question], grouping: str) -> Array:
    """Fold of every row: all rows of a group fall into one, by a hash of its name. (questions,)

    A source with more than :data:`LARGE` of all rows has a fold to itself, after the ``FOLDS`` shared ones.
    """
    name = GROUPINGS[grouping]
    sizes = Counter(name(q) for q in questions)
    large = [group for group, rows in sizes.items() if grouping == "source" and rows > LARGE * len(questions)]
    own_folds = {group: FOLDS + i for i, group in enumerate(sorted(large))}
    shared_folds = {
        group: int(sha256(group.encode()).hexdigest(), 16) % FOLDS for group in sizes if group not in own_folds
    }
    return np.array([(own_folds | shared_folds)[name(q)] for q in questions], dtype=float)


def left_out(
    questions: Sequence[Question], in_fit: NDArray[np.bool_], priors: Sequence[Prior], grouping: str, first: Start
) -> tuple[Array, dict[float, Constants]]:
    """Values of all rows, each predicted by a fit without its fold, in the rows' units (questions,); constants by fold.

    Parameters
    ----------
    in_fit : array of bool
        Rows that a fit may learn from. (questions,)
    priors
        Those of the whole fit, with the widths that it has.
    first
        :func:`~rackmath.validation.fit.at_centres` of the rows and priors.
    """
    part = folds(questions, grouping)
    values = np.full(len(questions), np.nan)
    without: dict[float, Constants] = {}
    names = np.unique(part).tolist()
    jobs = [_Job(list(questions), in_fit, tuple(priors), part == name, first) for name in names]
    with ProcessPool(_WORKERS) as pool:
        for name, job, (predictions, constants) in zip(names, jobs, pool.map(_predicted, jobs), strict=True):
            values[job.test], without[name] = predictions, constants
    return values, without


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    questions: list[Question]
    in_fit: NDArray[np.bool_]
    priors: tuple[Prior, ...]
    test: NDArray[np.bool_]
    first: Start


def _predicted(job: _Job) -> tuple[Array, Constants]:
    """Values of the rows that are out, by constants of a fit in which they have no weight.

    It starts at the centres of the priors, which saw none of them, with the passes that all such fits share.
    """
    test = [q for q, out in zip(job.questions, job.test, strict=True) if out]
    weight = np.zeros(len(job.questions))
    weight[~job.test] = weights([q for q, out in zip(job.questions, job.test, strict=True) if not out])
    result = fit(
        job.questions,
        weight * job.in_fit,
        job.priors,
        rounds=_ROUNDS,
        iterations=_ITERATIONS,
        shrink=False,
        first=job.first,
    )
    return evaluate(test, result.constants)[0], result.constants
