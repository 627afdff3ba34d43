"""Rows of a comparison in order of cost, and by how much the cheapest wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestRow:
    """The cheapest row at the asked speed, of those that answer the same question."""

    row: Row
    question: Mapping[str, Any]
    """What the rows it is compared with have in common, of what differs between questions."""
    second: Row | None
    """The next cheapest; None where nothing else keeps the speed."""

    @property
    def margin(self) -> float | None:
        """Part of the second's cost that it saves. [1]"""
        if self.second is None:
            return None
        return 1 - self.row["usd_per_million_at_speed"] / self.second["usd_per_million_at_speed"]

    @property
    def apart(self) -> bool:
        """Whether the 90 % ranges of the two do not meet."""
        return self.second is not None and self.row["high_at_speed"] < self.second["low_at_speed"]


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Rows by cost at the asked speed, those without one last; models in the order in which they were named."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    return sorted(rows, key=lambda row: (models.index(row["model"]), _cost(row)))


QUESTIONS = (
    "input", "output", "ttft", "tpot", "cached-prefix", "rate", "acceptance", "year", "usd-per-gpu-hour", "adapters",
    "max-lora-rank", "lora-target-modules", "adapter-share", "adapter-skew", "expert-skew", "expert-load",
    "expert-correlation", "images", "image-size", "audio", "speed", "cost",
)  # fmt: skip
"""Inputs that say what is asked, and that nobody chooses for being cheaper."""


def winners(rows: Sequence[Row], keys: Sequence[str] = ()) -> Iterator[CheapestRow]:
    """The cheapest row of each model and question with more than one row; none where no row has a cost.

    Parameters
    ----------
    keys : sequence of str
        Inputs that differ between rows, of which :data:`QUESTIONS` tell questions apart.
    """
    question_keys = [key for key in keys if key in QUESTIONS]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model"], *(row[key] for key in question_keys)), []).append(row)
    for (_, *values), members in groups.items():
        cheapest_first = sorted((row for row in members if _cost(row) < inf), key=_cost)
        if len(members) > 1 and cheapest_first:
            second = cheapest_first[1] if len(cheapest_first) > 1 else None
            yield CheapestRow(
                row=cheapest_first[0], question=dict(zip(question_keys, values, strict=True)), second=second
            )


def _cost(row: Row) -> float:
    cost = row["usd_per_million_at_speed"]
    return inf if cost is None else cost
