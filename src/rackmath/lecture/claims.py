"""The ledger: every checkable claim of the lecture, computed twice, judged, explained."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from rackmath.lecture import ledger_one, ledger_two
from rackmath.lecture.entry import Entry
from rackmath.lecture.ledger_cases import SOURCES, split_cases
from rackmath.lecture.verdicts import FALSE, Value, parse_expected, verdict

HOLDS, PARTLY = "holds", "holds only for some"
_NAMED = 6
"""Cases that a sentence names."""
_IN_FULL = 1e3, 1e12
"""Values that are written without a power of ten."""
RULINGS = (HOLDS, PARTLY, FALSE)
"""What became of a claim: it holds within a factor of 1.5, it does so for some cases only, it does not hold."""
ENTRIES: dict[str, Entry] = {**ledger_one.ENTRIES, **ledger_two.ENTRIES}


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of the ledger."""

    id: str
    chapter: int
    time: str
    statement: str
    given: str
    quantity: str
    unit: str
    kind: str
    lecture: Value
    with_lecture_inputs: Value
    with_real_inputs: Value
    verdict: str
    replaced_by: str
    """What is true instead, with its unit; empty where the claim holds."""
    why: str
    command: str
    """Command that shows the number with real inputs."""
    source: str
    """Where the real inputs come from."""
    holds_for: tuple[str, ...] = ()
    """Cases for which a claim holds that does not hold for all."""
    fails_for: tuple[str, ...] = ()
    """The other cases."""

    @property
    def short(self) -> str:
        """The verdict, or that it holds for some cases."""
        return PARTLY if self.holds_for else self.verdict

    @property
    def ruling(self) -> str:
        """One of :data:`RULINGS`."""
        return HOLDS if self.verdict != FALSE else PARTLY if self.holds_for else FALSE


@lru_cache(maxsize=1)
def rows() -> tuple[dict[str, str], ...]:
    """The claims as the lecture makes them."""
    text = (files("rackmath") / "data" / "claims.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def claims(only: Callable[[str], bool] | None = None) -> list[Claim]:
    """Compute the ledger, in the lecture's order; ``only`` selects ids."""
    return [claim(row) for row in rows() if only is None or only(row["id"])]


def claim(row: dict[str, str]) -> Claim:
    """Compute one row of the ledger."""
    entry = ENTRIES[row["id"]]
    expected = parse_expected(row["expected"])
    real = entry.real()
    judgement = verdict(row["kind"], expected, real)
    holding, failing = split_cases(row["id"], expected) if judgement == FALSE else ([], [])
    return Claim(
        id=row["id"],
        chapter=int(row["chapter"]),
        time=row["time"],
        statement=row["statement"],
        given=row["given"],
        quantity=row["quantity"],
        unit=row["unit"],
        kind=row["kind"],
        lecture=expected,
        with_lecture_inputs=entry.lecture(),
        with_real_inputs=real,
        verdict=judgement,
        replaced_by=_with_unit(real, row["unit"]) if judgement == FALSE else "",
        why=entry.why(),
        command=entry.command or f"rackmath lecture claims --only {row['id']} --explain",
        source=SOURCES[row["id"]],
        holds_for=tuple(holding) if failing else (),
        fails_for=tuple(failing) if holding else (),
    )


def off(c: Claim) -> float | None:
    """Real over said, at the end that is farther off; None for words. [1]"""
    if isinstance(c.lecture, str) or isinstance(c.with_real_inputs, str):
        return None
    low, high = c.lecture if isinstance(c.lecture, tuple) else (c.lecture, c.lecture)
    reals = c.with_real_inputs if isinstance(c.with_real_inputs, tuple) else (c.with_real_inputs,)
    if min(low, high, *reals) <= 0:
        return None
    ratios = [1.0 if low <= r <= high else r / low if r < low else r / high for r in reals]
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def _with_unit(value: Value, unit: str) -> str:
    return text_of(value) if unit in ("", "1") or isinstance(value, str) else f"{text_of(value)} {unit}"


def listed(cases: Sequence[str]) -> str:
    """Cases as a sentence names them: at most six."""
    return ", ".join(cases[:_NAMED]) + (f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else "")


def text_of(value: Value) -> str:
    """Write a value of the ledger with four digits, those of thousands and more in full."""
    if isinstance(value, tuple):
        return f"{text_of(value[0])} to {text_of(value[1])}"
    if not isinstance(value, float):
        return str(value)
    digits, (low, high) = f"{value:.4g}", _IN_FULL
    return f"{float(digits):,.0f}" if low <= abs(value) < high else digits
