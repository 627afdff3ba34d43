"""Ranges of answers that measurements correct: as wide as answers of a source need them that no range has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.evidence.posterior import Posterior
from rackmath.validation.nearness import configuration
from rackmath.validation.questions import Question
from rackmath.validation.ranges import FEWEST_SOURCES, percentiles, stretch

FEWEST = 30
_NARROWEST = 0.1
"""Least end of a range, in standard deviations."""
ALL = "all"
UNKNOWN = ", unknown source"
"""How places are named of answers of no source."""

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Table = dict[str, dict[str, tuple[float, float]]]


@dataclass(frozen=True, eq=False)
class Deviations:
    """Rows that were predicted without their group, as their posteriors see them. (rows,)"""

    places: NDArray[np.str_]
    """Near, middling or far, and whether the source is known."""
    kinds: NDArray[np.str_]
    """Question that is asked."""
    sources: NDArray[np.str_]
    errors: Array
    """In standard deviations of the posterior."""

    @classmethod
    def of(cls, questions: Sequence[Question], residuals: Array, answers: Sequence[Posterior]) -> Deviations:
        """Of rows with their residuals, and what near measurements say of them."""
        return cls(
            np.array([a.range_class for a in answers]),
            np.array([configuration(q).question for q in questions]),
            np.array([q.row.publisher for q in questions]),
            np.array([(r - a.expected) / a.deviation for r, a in zip(residuals, answers, strict=True)]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Deviations]) -> Deviations:
        """Rows of several ways of leaving out."""
        names = ("places", "kinds", "sources", "errors")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def part(self, chosen: Mask) -> Deviations:
        """Some of the rows."""
        return Deviations(self.places[chosen], self.kinds[chosen], self.sources[chosen], self.errors[chosen])


def quantiles(rows: Deviations) -> Table:
    """Standard deviations below and above the expected residual that hold 90 %, by place and question, or of all.

    As in :mod:`rackmath.validation.ranges` they are stretched until they hold of sources that are left out of them, for
    answers of a known source and of none.
    """
    table = _unstretched(rows)
    for is_unknown in (False, True):
        factor = _stretch(rows, np.char.endswith(rows.places, UNKNOWN) == is_unknown)
        for place in [place for place in table if place.endswith(UNKNOWN) == is_unknown]:
            table[place] = {kind: (factor * low, factor * high) for kind, (low, high) in table[place].items()}
    return table


def inside(rows: Deviations) -> Mask:
    """Whether rows lie in ranges that the other sources alone would have let stand. (rows,)"""
    result = np.zeros(len(rows.errors), dtype=bool)
    for source in np.unique(rows.sources):
        out = rows.sources == source
        low, high = _ends(rows.part(out), quantiles(rows.part(~out)))
        result[out] = (rows.errors[out] >= -low) & (rows.errors[out] <= high)
    return result


def _unstretched(rows: Deviations) -> Table:
    table: Table = {}
    for place in np.unique(rows.places).tolist():
        here = rows.part(rows.places == place)
        # An answer of a known source is like that source's other rows, one of none like another source.
        voices = here.sources if place.endswith(UNKNOWN) else np.arange(len(here.errors)).astype(str)
        for kind in (ALL, *np.unique(here.kinds).tolist()):
            chosen = np.full(len(voices), True) if kind == ALL else here.kinds == kind
            enough = _effective(voices[chosen]) >= (FEWEST if kind == ALL else 2 * FEWEST)
            if enough and len(np.unique(here.sources[chosen])) >= FEWEST_SOURCES:
                low, high = percentiles(here.errors[chosen], voices[chosen])
                table.setdefault(place, {})[kind] = (max(-low, _NARROWEST), max(high, _NARROWEST))
    for end in ("", UNKNOWN):
        # A place with too few rows has the ranges of the next farther one.
        for place, farther in ((f"middling{end}", f"far{end}"), (f"near{end}", f"middling{end}")):
            if ALL not in table.get(place, {}):
                table[place] = dict(table[farther])
    return table


def _effective(voices: NDArray[np.str_]) -> float:
    """Rows of one weight that tell as much as rows of which each voice weighs as the root of its own. [rows]"""
    counts = np.unique(voices, return_counts=True)[1]
    return float(np.sum(counts**0.5) ** 2 / len(counts)) if len(counts) else 0.0


def _stretch(rows: Deviations, chosen: Mask) -> float:
    own = rows.part(chosen)

    def bounds(out: Mask) -> tuple[Array, Array]:
        others = rows.part(~np.isin(rows.sources, own.sources[out]))
        low, high = _ends(own.part(out), _unstretched(others))
        return -low, high

    return stretch(own.errors, own.sources, bounds)


def _ends(rows: Deviations, table: Mapping[str, Mapping[str, tuple[float, float]]]) -> tuple[Array, Array]:
    pairs = zip(rows.places.tolist(), rows.kinds.tolist(), strict=True)
    low, high = np.array([table[place].get(kind, table[place][ALL]) for place, kind in pairs]).reshape(-1, 2).T
    return low, high
