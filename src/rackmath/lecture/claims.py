"""The ledger: every checkable claim of the lecture, computed twice, judged, explained."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from rackmath.lecture import ledger_one, ledger_two
from rackmath.lecture.entry import Entry
from rackmath.lecture.verdicts import FALSE, Value, parse_expected, verdict

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
    judged = verdict(row["kind"], expected, real)
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
        verdict=judged,
        replaced_by=_with_unit(real, row["unit"]) if judged == FALSE else "",
        why=entry.why(),
        command=entry.command,
    )


def _with_unit(value: Value, unit: str) -> str:
    return text_of(value) if unit in ("", "1") or isinstance(value, str) else f"{text_of(value)} {unit}"


def text_of(value: Value) -> str:
    """Write a value of the ledger."""
    if isinstance(value, tuple):
        return f"{text_of(value[0])} to {text_of(value[1])}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
