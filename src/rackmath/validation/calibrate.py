"""Measured rows -> constants with their uncertainty and ranges; the shipped file is made so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine.constants import Constants
from rackmath.errors import InputError, RackmathError
from rackmath.io import kernel_files
from rackmath.validation.baselines import ideal_values
from rackmath.validation.consistency import beyond_users, copies
from rackmath.validation.fit import FitResult, Prior, as_vector, at_centres, fit
from rackmath.validation.groups import Array
from rackmath.validation.kinds import TIMES
from rackmath.validation.left_out import GROUPINGS, left_out, weights
from rackmath.validation.priors import has_place, priors
from rackmath.validation.question_constants import engine_of
from rackmath.validation.questions import Question, question
from rackmath.validation.ranges import fitted_ranges, phase_of, row_groups
from rackmath.validation.rows import read_row

FLAWED = (
    "inconsistent",
    "outlier",
    "outlier_in_source",
    "author_flags_as_anomalous",
    "suspect",
    "contradicts",
    "beats_bound",
    "kernel_artefact",
    "awq_gemv_kernel",
    "pruned_model",
    "partial_success",
    "unstable",
    "output_length_uncertain",
    "layout_unknown",
    "layout_incomplete",
    "layout_uncertain",
)
"""Flags of rows that measure something else than they name, or that contradict themselves."""

FEWEST = 8
"""Rows below which constants are not fitted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Result of :func:`calibrate`."""

    constants: Constants
    fitted: FitResult
    questions: tuple[Question, ...]
    """Rows that were used."""
    left_out: Mapping[str, Array]
    """Their values predicted without their group, by grouping; empty for a quick calibration."""
    without: Mapping[str, Mapping[float, Constants]]
    """Constants that never saw a fold of the rows, by grouping and fold."""
    excluded: tuple[tuple[str, str], ...]
    """Rows that were not used, with the reason: id, reason."""


def usable(table: Sequence[Mapping[str, str]]) -> tuple[list[Question], list[tuple[str, str]]]:
    """Questions of the rows that can be fitted on, and the others with the reason.

    A row is left out where it cannot be asked, has no value, or is flagged as flawed.
    """
    questions: list[Question] = []
    refusals: list[tuple[str, str]] = []
    for i, cells in enumerate(table):
        name = cells.get("id", "") or f"line {i + 2}"
        try:
            answerable = question(read_row(cells, i + 2))
            answerable.system.require_network(int(float(answerable.deployment.layout.gpus)))
        except RackmathError as error:
            refusals.append((name, str(error)))
            continue
        flaw = next((flag for flag in FLAWED if answerable.row.flag(flag)), "")
        if flaw:
            refusals.append((name, f"flagged: {flaw}"))
        elif answerable.row.value:
            questions.append(answerable)
        else:
            refusals.append((name, "no measured value"))
    return questions, refusals


def calibrate(
    table: Sequence[Mapping[str, str]],
    shipped_constants: Constants | None = None,
    spread: Mapping[tuple[str, str, str], float] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Fit constants on rows.

    Parameters
    ----------
    table : sequence of mappings
        Rows with measured values.
    shipped_constants, spread : Constants, mapping, optional
        Constants to start from and how far each may still go, by name, kind and member:
        then a few rows of one's own move what they can tell about, and ranges keep the
        shipped ones. Without them everything is fitted from the priors and ranges
        come from groups left out, which takes minutes.

    Errors: :class:`InputError` for fewer than ``FEWEST`` usable rows.
    """
    questions, refusals = usable(table)
    questions, impossible = possible(questions)
    refusals += impossible
    if len(questions) < FEWEST:
        why = refusals[0][1] if refusals else "the table is empty"
        raise InputError(
            "rows", len(questions), f"calibration needs {FEWEST} usable rows; the first was refused: {why}"
        )
    if shipped_constants is None:
        return _from_scratch(questions, refusals, progress)
    own_priors = [_narrowed(p, shipped_constants, spread or {}) for p in _shipped_priors(shipped_constants, questions)]
    fit_result = fit(questions, weights(questions), own_priors, progress=progress, rounds=2, shrink=False)
    constants = replace(
        fit_result.constants,
        ranges=shipped_constants.ranges,
        chips=_chips(questions) | shipped_constants.chips,
        evidence=shipped_constants.evidence,
        basis=f"{shipped_constants.basis}; moved by {len(questions)} rows of the user's own",
    )
    return Calibration(
        constants=constants,
        fitted=fit_result,
        questions=tuple(questions),
        left_out={},
        without={},
        excluded=tuple(refusals),
    )


def _from_scratch(
    questions: list[Question], reasons: list[tuple[str, str]], progress: Callable[[str], None]
) -> Calibration:
    timed_kinds = kernel_files.timed_generations()
    own_priors, in_fit = priors(questions, timed_kinds), has_place(questions, timed_kinds)
    first = at_centres(questions, own_priors)
    fit_result = fit(questions, weights(questions) * in_fit, own_priors, progress=progress, first=first)
    values: dict[str, Array] = {}
    without: dict[str, dict[float, Constants]] = {}
    for grouping in GROUPINGS:
        progress(f"leaving out: {grouping}")
        values[grouping], without[grouping] = left_out(questions, in_fit, fit_result.priors, grouping, first)
    constants = replace(
        fit_result.constants,
        ranges=fitted_ranges(questions, values),
        chips=_chips(questions),
        evidence=row_groups([(engine_of(q), phase_of(q), q.row.when) for q in questions]),
        basis=f"kernel timings and {len(questions):,} published measurements on {len(_chips(questions))} chips",
    )
    return Calibration(
        constants=constants,
        fitted=fit_result,
        questions=tuple(questions),
        left_out=values,
        without=without,
        excluded=tuple(reasons),
    )


def possible(questions: list[Question]) -> tuple[list[Question], list[tuple[str, str]]]:
    """Drop rows that no batch can serve, that beat the ideal bound, or that share the labels of one that does.

    And times per token that the throughput of their own run contradicts, and runs that are copies of others.

    A service at its limits and a training run last too long for a clock above the rated one: no tolerance is
    theirs, and one that beats its bound states a wrong number format or split, as do the source's other
    runs of the same model, formats and accelerators.
    """
    measured = np.array([q.row.value for q in questions], dtype=float)
    bound = ideal_values(questions)
    slow = np.array([q.quantity in TIMES for q in questions])
    tolerance = np.array([1.0 if q.kind in _LASTING else _ROUNDING for q in questions])
    beats = np.where(slow, measured < bound * tolerance, measured > bound / tolerance)
    labels = [_labels(q) if q.kind in _LASTING else None for q in questions]
    wrong = {label for label, b in zip(labels, beats, strict=True) if b and label is not None}
    contradictions, copy_of = beyond_users(questions), copies(questions)
    answerable_questions: list[Question] = []
    reasons: list[tuple[str, str]] = []
    for q, b, limit, label in zip(questions, beats, bound, labels, strict=True):
        if not np.isfinite(limit):
            reasons.append((q.row.id, "does not fit: no batch can run"))
        elif b:
            reasons.append(
                (q.row.id, f"value {q.row.value:g} beats the ideal bound {limit:.4g}: impossible, so mislabelled")
            )
        elif q.row.id in contradictions:
            share = contradictions[q.row.id]
            reasons.append(
                (
                    q.row.id,
                    f"with the throughput of its run it needs {share:.1f} times as many sequences as there are users",
                )
            )
        elif q.row.id in copy_of:
            original = copy_of[q.row.id]
            reasons.append(
                (q.row.id, f"its run has the numbers of run {original} on other accelerators: one is a copy")
            )
        elif label in wrong:
            reasons.append(
                (q.row.id, "another run of the same source, model, formats and accelerators beats its bound")
            )
        else:
            answerable_questions.append(q)
    return answerable_questions, reasons


_ROUNDING = 0.9
"""Part of the bound that a short run may beat it by: clocks above the rated one, and rounded values."""

_LASTING = ("full", "server", "train")
"""Kinds of rows that hold the accelerators at their limits for minutes."""


def _labels(question: Question) -> tuple[object, ...]:
    """What the runs of one submission share: a wrong one is wrong in all of them."""
    return (
        question.row.publisher,
        question.row.family,
        question.architecture,
        question.system.chip.name,
        question.row.gpus,
    )


def _shipped_priors(shipped_constants: Constants, questions: Sequence[Question]) -> tuple[Prior, ...]:
    """Priors of the rows' own members, and of every move that is shipped, which stays as it is."""
    result = list(priors(questions, kernel_files.timed_generations()))
    names = {(p.name, p.member) for p in result}
    moves = ((name, member) for name, members in shipped_constants.moves.items() for member in members)
    result += [
        Prior(name=name, kind="move", member=member, axis="", centre=0.0, width=1.0)
        for name, member in moves
        if (name, member) not in names
    ]
    return tuple(result)


def _narrowed(prior: Prior, shipped_constants: Constants, spread: Mapping[tuple[str, str, str], float]) -> Prior:
    centre = float(as_vector(shipped_constants, [prior])[0])
    width = spread.get((prior.kind, prior.name, prior.member), prior.width)
    return replace(prior, centre=centre, width=max(width, _LEAST_WIDTH))


_LEAST_WIDTH = 0.05


def _chips(questions: Sequence[Question]) -> frozenset[str]:
    return frozenset(q.system.chip.name for q in questions)
