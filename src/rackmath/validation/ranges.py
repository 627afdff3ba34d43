"""Ranges that mean what they say: split conformal prediction on groups that were left out.

Rows are predicted by constants that never saw their source, or their chip, or any row of their
engine on their generation. Measured over predicted values of such rows, by class of question, give
the range: their 5th and 95th percentile, with the correction for a finite sample. Where an engine has
no rows on a generation, a range is that of engines and generations left out as pairs, and wider still
where neither was ever measured. Runs of an early enablement have a range of their own: no answer is of one.

Rows of one source err alike, and whoever asks is a source of his own: percentiles over rows hold of the
sources that they saw, and too seldom of the next. So a source weighs as the root of its rows, a class of three
sources or fewer is no narrower than all rows, and all ranges are stretched until rows lie in the ranges that the
other sources alone would have had, nine times of ten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import exp

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.constants import IMMATURE, Constants, EngineVersion, RowGroup
from rackmath.validation.groups import Array
from rackmath.validation.kinds import PER_TOKEN
from rackmath.validation.question_constants import engine_of
from rackmath.validation.questions import Question

Mask = NDArray[np.bool_]

LEVEL = 0.9
FEWEST_SOURCES = 3
"""Sources from which leaving one out tells how a further one errs."""
_PARTS = 40
"""Parts that more sources than these are dealt into."""
_WIDER = 1.5
"""Factor on the logarithm of a range where the layout had to be inferred, or where no row is near."""

_CLASSES = {
    **dict.fromkeys(PER_TOKEN, "time per token"),
    "speed": "time per token",
    "ttft": "first token",
    "ttft_median": "first token",
    "latency": "latency",
    "output": "throughput",
    "total": "throughput",
    "requests": "throughput",
}
ALL = "all"


def class_of(question: Question) -> str:
    """Class of a question: what shares one range."""
    match question.kind:
        case "train":
            return "training"
        case "full":
            return "full load"
        case "server":
            return "server"
        case "decode":
            return "decode pass"
        case "prefill":
            return "prompt pass"
        case "static":
            return "throughput"
        case "wave":
            return "at once"
        case _:
            return _CLASSES[question.quantity]


def phase_of(question: Question) -> str:
    """Phase under which a question's row counts as evidence."""
    return {"train": "training", "decode": "decode", "prefill": "prefill"}.get(question.kind, "serving")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """What the ranges depend on, of every row. (rows,)"""

    classes: NDArray[np.str_]
    sources: NDArray[np.str_]
    engines: NDArray[np.object_]
    chips: NDArray[np.str_]
    phases: NDArray[np.str_]
    dates: Array
    """[years]"""
    is_early: Mask
    is_inferred: Mask
    errors: Mapping[str, Array]
    """Logarithms of measured over predicted values, by what the constants did not see."""

    @classmethod
    def of(cls, questions: Sequence[Question], left_out: Mapping[str, Array]) -> _Rows:
        """Of questions, and their values by what the constants did not see."""
        measured = np.array([q.row.value for q in questions], dtype=float)
        engines = np.empty(len(questions), dtype=object)
        engines[:] = [engine_of(q) for q in questions]
        return cls(
            classes=np.array([class_of(q) for q in questions]),
            sources=np.array([q.row.publisher for q in questions]),
            engines=engines,
            chips=np.array([q.system.chip.name for q in questions]),
            phases=np.array([phase_of(q) for q in questions]),
            dates=np.array([q.row.when for q in questions]),
            is_early=np.array([engine.stage == IMMATURE for engine in engines]),
            is_inferred=np.array([bool(q.deployment.inferred) for q in questions]),
            errors={name: np.log(measured / values) for name, values in left_out.items()},
        )

    def part(self, places: Mask) -> _Rows:
        """Some of the rows."""
        columns = {f.name: getattr(self, f.name)[places] for f in fields(self) if f.name != "errors"}
        return _Rows(**columns, errors={name: errors[places] for name, errors in self.errors.items()})


Table = Mapping[str, Mapping[str, tuple[float, float]]]


def fitted_ranges(questions: Sequence[Question], left_out: Mapping[str, Array]) -> Table:
    """Ranges by class, and by how near rows are.

    Parameters
    ----------
    left_out : mapping of array
        Values predicted without the row's source, its chip, and its engine on its generation, by
        the names of the groupings. (questions,)
    """
    return _fitted(_Rows.of(questions, left_out))


def coverage_by_others(
    questions: Sequence[Question], values: Array, left_out: Mapping[str, Array], groups: Array | NDArray[np.str_]
) -> Mask:
    """Whether each row lies in the range that the rows of all other groups would have let stand beside it. (questions,)

    Stricter than the ranges of the shipped constants, which have seen the rows.

    Parameters
    ----------
    values : array
        Values predicted without the row's group. (questions,)
    left_out
        As of :func:`fitted_ranges`.
    groups : array
        Group of every row. (questions,)
    """
    rows = _Rows.of(questions, {**left_out, "": values})
    inside = np.zeros(len(questions), dtype=bool)
    for group in np.unique(groups):
        out = groups == group
        own_rows, other_rows = rows.part(out), rows.part(~out)
        low, high = _bounds(own_rows, _fitted(other_rows), other_rows)
        inside[out] = (own_rows.errors[""] >= low) & (own_rows.errors[""] <= high)
    return inside


def _fitted(rows: _Rows) -> Table:
    """Ranges of some rows, as wide as rows of a further source need them."""
    factor = _stretch(rows)
    return {name: _factors(table, factor) for name, table in _tables(rows).items()}


def _tables(rows: _Rows) -> dict[str, dict[str, tuple[float, float]]]:
    """Logarithms of ranges by class and place."""
    entries: dict[str, dict[str, tuple[float, float]]] = {}
    for name in (ALL, *sorted(set(rows.classes.tolist()))):
        of_class = np.full(len(rows.classes), True) if name == ALL else rows.classes == name
        inside = rows.part(of_class & ~rows.is_early)
        source, chip, engine = (_range(inside, key) for key in ("source", "chip", "engine on generation"))
        table = {"chip": source, "pair": _wider(source, chip), "member": _wider(source, engine)}
        table["none"] = (_WIDER * table["member"][0], _WIDER * table["member"][1])
        if (of_class & rows.is_early).any():
            table[IMMATURE] = _range(rows.part(of_class & rows.is_early), "source")
        if name != ALL and len(np.unique(inside.sources)) <= FEWEST_SOURCES:
            # With one of them left out too few are left to tell how a further one errs.
            table = {place: _wider(ends, entries[ALL].get(place, ends)) for place, ends in table.items()}
        entries[name] = table
    return entries


def _stretch(rows: _Rows) -> float:
    def bounds(out: Mask) -> tuple[Array, Array]:
        other_rows = rows.part(~out)
        return _bounds(rows.part(out), {key: _factors(table) for key, table in _tables(other_rows).items()}, other_rows)

    return stretch(rows.errors["source"], rows.sources, bounds)


def stretch(errors: Array, sources: NDArray[np.str_], bounds: Callable[[Mask], tuple[Array, Array]]) -> float:
    """Factor on all ranges at which they hold of a source that they have not seen, as often as said.

    Each source is left out of the ranges as well, not of the constants alone: rows of one source err alike.

    Parameters
    ----------
    errors : array
        Logarithms, around which ranges lie. (rows,)
    sources : array
        Who published each row. (rows,)
    bounds : callable
        Lower and upper ends, in the unit of errors, of the rows that a mask chooses, by all other sources' rows.
    """
    names, of_row = np.unique(sources, return_inverse=True)
    if len(names) < FEWEST_SOURCES:
        return 1.0
    factors = np.full(len(errors), np.nan)
    for part in range(min(len(names), _PARTS)):
        out = of_row % _PARTS == part
        low, high = bounds(out)
        with np.errstate(divide="ignore", invalid="ignore"):
            factors[out] = np.where(errors[out] > 0, errors[out] / high, errors[out] / low)
    return max(float(np.quantile(factors[~np.isnan(factors)], LEVEL)), 1.0)


def _bounds(rows: _Rows, ranges: Table, other_rows: _Rows) -> tuple[Array, Array]:
    """Logarithms of the ranges of some rows, where others are all that is known. (rows,), (rows,)"""
    chips = frozenset(other_rows.chips.tolist())
    constants = Constants(
        base={},
        moves={},
        ranges=ranges,
        chips=chips,
        evidence=row_groups(zip(other_rows.engines, other_rows.phases, other_rows.dates, strict=True)),
    )
    ends: dict[tuple[object, ...], tuple[float, float]] = {}
    result = np.empty((len(rows.classes), 2))
    columns = (
        rows.classes.tolist(),
        rows.engines,
        rows.chips.tolist(),
        rows.phases.tolist(),
        rows.is_inferred.tolist(),
    )
    for i, key in enumerate(zip(*columns, strict=True)):
        if key not in ends:
            low, high = constants.range(*key[:-1])
            ends[key] = _widened(low, high) if key[-1] else (low, high)
        result[i] = ends[key]
    low, high = np.log(result).T
    return low, high


def row_groups(rows: Iterable[tuple[EngineVersion, str, float]]) -> tuple[RowGroup, ...]:
    """Rows by family, generation and phase, with the span of their dates: of engine, phase and date of each row."""
    dates: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for engine, phase, date in rows:
        dates[engine.family, engine.generation, phase].append(date)
    return tuple(
        RowGroup(family=f, generation=g, phase=p, rows=len(d), first=min(d), last=max(d))
        for (f, g, p), d in sorted(dates.items())
    )


def row_range(question: Question, constants: Constants) -> tuple[float, float]:
    """Factors on a predicted value that bound its 90 % range; wider where something was inferred."""
    chip = question.system.chip.name
    low, high = constants.range(class_of(question), engine_of(question), chip, phase_of(question))
    return _widened(low, high) if question.deployment.inferred else (low, high)


def _widened(low: float, high: float) -> tuple[float, float]:
    return low**_WIDER, high**_WIDER


def _factors(table: Mapping[str, tuple[float, float]], factor: float = 1.0) -> dict[str, tuple[float, float]]:
    """Ends of ranges whose logarithms these are, by place."""
    return {place: (exp(factor * low), exp(factor * high)) for place, (low, high) in table.items()}


def _wider(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def _range(rows: _Rows, column: str) -> tuple[float, float]:
    return percentiles(rows.errors[column], rows.sources)


def percentiles(errors: Array, sources: NDArray[np.str_]) -> tuple[float, float]:
    """Percentiles of errors that hold the middle 90 %, with the conformal correction for the sample's size.

    A source weighs as the root of its rows. Zero lies between the two; errors that are no numbers count nowhere.
    """
    finite = np.isfinite(errors)
    errors, sources = errors[finite], sources[finite]
    if not len(errors):
        return (0.0, 0.0)
    _, of_row, counts = np.unique(sources, return_inverse=True, return_counts=True)
    order = np.argsort(errors)
    share: list[float] = np.cumsum(counts[of_row][order] ** -0.5).tolist()
    tail = (1 - LEVEL) / 2
    upper = min(1.0, np.ceil((len(errors) + 1) * (1 - tail)) / len(errors))
    first, last = (bisect_left(share, share[-1] * part) for part in (1 - upper, upper))
    low, high = errors[order[first]], errors[order[min(last, len(errors) - 1)]]
    return float(min(low, 0.0)), float(max(high, 0.0))
