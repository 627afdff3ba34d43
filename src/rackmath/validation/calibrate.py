"""Measured rows -> constants with their uncertainty and ranges; the shipped file is made so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine.constants import SCALES, Constants, inward, outward
from rackmath.errors import InputError, RackmathError
from rackmath.validation.answers import Array
from rackmath.validation.baselines import ideal_values
from rackmath.validation.fit import Fitted, Prior, as_vector, fit
from rackmath.validation.left_out import left_out, weights
from rackmath.validation.priors import CENTRES, priors
from rackmath.validation.questions import TIMES, Question, question
from rackmath.validation.ranges import fitted_ranges
from rackmath.validation.rows import read_row

_FLAWED = re.compile(r"artefact|outlier|anomalous|impossible", re.IGNORECASE)
"""What a source's own notes say of a row that measures something else than it names."""

FEWEST = 8
"""Rows below which constants are not fitted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Result of :func:`calibrate`."""

    constants: Constants
    fitted: Fitted
    questions: tuple[Question, ...]
    """Rows that were used."""
    left_out: Mapping[str, Array]
    """Their values predicted without their group, by grouping; empty for a quick calibration."""
    excluded: tuple[tuple[str, str], ...]
    """Rows that were not used, with the reason: id, reason."""


def usable(table: Sequence[Mapping[str, str]]) -> tuple[list[Question], list[tuple[str, str]]]:
    """Questions of the rows that can be fitted on, and the others with the reason.

    A row is left out where it cannot be asked, has no value, is called an artefact, an
    outlier, anomalous or impossible by its own notes, or where its value and elapsed time make
    another number of requests than it states.
    """
    found: list[Question] = []
    others: list[tuple[str, str]] = []
    for i, cells in enumerate(table):
        name = cells.get("id", "") or f"line {i + 2}"
        try:
            one = question(read_row(cells, i + 2))
            one.system.require_network(int(float(one.deployment.layout.gpus)))
        except RackmathError as error:
            others.append((name, str(error)))
            continue
        flaw = _flaw(one)
        if flaw:
            others.append((name, flaw))
        elif one.row.value:
            found.append(one)
        else:
            others.append((name, "no measured value"))
    return found, others


def calibrate(
    table: Sequence[Mapping[str, str]],
    shipped: Constants | None = None,
    spread: Mapping[tuple[str, str, str], float] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Fit constants on rows.

    Parameters
    ----------
    table : sequence of mappings
        Rows with measured values.
    shipped, spread : Constants, mapping, optional
        Constants to start from and how far each may still go, by name, kind and member:
        then a few rows of one's own move what they can tell about, and ranges keep the
        shipped ones or shrink. Without them everything is fitted from the priors and ranges
        come from groups left out, which takes minutes.

    Errors: :class:`InputError` for fewer than ``FEWEST`` usable rows.
    """
    questions, others = usable(table)
    questions, impossible = _possible(questions)
    others += impossible
    if len(questions) < FEWEST:
        why = others[0][1] if others else "the table is empty"
        raise InputError(
            "rows", len(questions), f"calibration needs {FEWEST} usable rows; the first was refused: {why}"
        )
    if shipped is None:
        return _from_scratch(questions, others, progress)
    known = [_narrowed(p, shipped, spread or {}) for p in priors()]
    fitted = fit(questions, weights(questions), known, progress=progress, rounds=2)
    constants = replace(
        fitted.constants,
        ranges=shipped.ranges,
        chips=_chips(questions) | shipped.chips,
        latest=max(_latest(questions), shipped.latest),
    )
    constants = replace(constants, basis=f"{shipped.basis}; moved by {len(questions)} rows of the user's own")
    return Calibration(
        constants=constants, fitted=fitted, questions=tuple(questions), left_out={}, excluded=tuple(others)
    )


def _from_scratch(
    questions: list[Question], others: list[tuple[str, str]], progress: Callable[[str], None]
) -> Calibration:
    fitted = fit(questions, weights(questions), priors(), progress=progress)
    values: dict[str, Array] = {}
    for grouping in ("model on chip", "chip", "source"):
        progress(f"leaving out: {grouping}")
        values[grouping] = left_out(questions, fitted.constants, grouping)
    constants = replace(
        fitted.constants,
        ranges=fitted_ranges(questions, values["model on chip"], values["chip"]),
        chips=_chips(questions),
        latest=_latest(questions),
        basis=f"{len(questions)} published measurements on {len(_chips(questions))} chips",
    )
    return Calibration(
        constants=constants, fitted=fitted, questions=tuple(questions), left_out=values, excluded=tuple(others)
    )


def constants_text(c: Calibration, command: str) -> str:
    """Write constants as commented TOML, with what fixes each and its uncertainty."""
    return "\n".join(_lines(c, command)) + "\n"


def _lines(c: Calibration, command: str) -> Iterator[str]:
    yield "# Constants that separate engines from the ideal bound. Generated; do not edit. Command:"
    yield f"#   {command}"
    yield "# A base value is in its own unit, with one standard deviation either way. Moves and slopes are on"
    yield "# the inner scale (log-odds of parts, log of times and of excesses), with their standard deviation."
    yield f'basis = "{c.constants.basis}"'
    yield "chips = [" + ", ".join(f'"{name}"' for name in sorted(c.constants.chips)) + "]"
    yield f"latest = {c.constants.latest:.6g} # year of the latest rows: no trend is carried beyond it"
    deviation = dict(zip(((p.kind, p.name, p.member) for p in c.fitted.priors), c.fitted.deviation, strict=True))
    for name, value in c.constants.base.items():
        scale, sd = SCALES[name], float(deviation["base", name, ""])
        low, high = (outward(inward(value, scale) + way * sd, scale) for way in (-1, 1))
        yield ""
        yield f"[base.{name}] # {CENTRES[name][1]}"
        yield f"value = {value:.6g}"
        yield f"low = {low:.4g}"
        yield f"high = {high:.4g}"
        yield f"deviation = {sd:.4g}"
    for kind, table in (("move", c.constants.moves), ("slope", c.constants.slopes)):
        for name, members in table.items():
            yield ""
            yield f"[{kind}.{name}]"
            for member, value in members.items():
                sd = float(deviation[kind, name, member])
                yield f'"{member}" = {{ value = {value:.5g}, deviation = {sd:.3g} }}'
    for kind, pair in c.constants.ranges.items():
        yield ""
        yield f'[range."{kind}"]'
        for which, (low, high) in pair.items():
            yield f"{which} = [{low:.4g}, {high:.4g}]"


def _flaw(asked: Question) -> str:
    """Why a row contradicts itself, by its notes or by its figures; empty where it does not."""
    row = asked.row
    named = _FLAWED.search(row.notes)
    if named is not None:
        return f"the row calls itself flawed: {named.group(0)}"
    if not (row.at_once and row.elapsed and row.value and row.load and asked.quantity == "total"):
        return ""
    made = row.value / asked.scale * row.elapsed / (asked.input + asked.output)
    if abs(made / row.load - 1) <= 1 - _ROUNDING:
        return ""
    return f"value times elapsed_s make {made:.3g} requests, batch_or_concurrency says {row.load:g}: mislabelled"


def _possible(questions: list[Question]) -> tuple[list[Question], list[tuple[str, str]]]:
    """Drop rows that beat the ideal bound by more than rounding."""
    measured = np.array([q.row.value for q in questions], dtype=float)
    bound = ideal_values(questions)
    slow = np.array([q.quantity in TIMES for q in questions])
    beats = np.where(slow, measured < bound * _ROUNDING, measured > bound / _ROUNDING)
    kept = [q for q, out in zip(questions, beats, strict=True) if not out]
    reasons = [
        (q.row.id, f"value {q.row.value:g} beats the ideal bound {b:.4g}: impossible, so mislabelled")
        for q, out, b in zip(questions, beats, bound, strict=True)
        if out
    ]
    return kept, reasons


_ROUNDING = 0.9


def _narrowed(prior: Prior, shipped: Constants, spread: Mapping[tuple[str, str, str], float]) -> Prior:
    centre = float(as_vector(shipped, [prior])[0])
    width = spread.get((prior.kind, prior.name, prior.member), prior.width)
    return replace(prior, centre=centre, width=max(width, _LEAST_WIDTH))


_LEAST_WIDTH = 0.05


def _latest(questions: Sequence[Question]) -> float:
    return max(q.row.date for q in questions)


def _chips(questions: Sequence[Question]) -> frozenset[str]:
    return frozenset(q.system.chip.name for q in questions)
