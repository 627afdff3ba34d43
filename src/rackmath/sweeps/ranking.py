"""Rows of a comparison in order of cost, and by how much the cheapest wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The cheapest row of a model at the asked speed."""

    row: Row
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


def winners(rows: Sequence[Row]) -> Iterator[Winner]:
    """The cheapest row of each model that has more than one row; none where no row of it has a cost."""
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = sorted((row for row in rows if row["model"] == model), key=_cost)
        priced = [row for row in mine if _cost(row) < inf]
        if len(mine) > 1 and priced:
            yield Winner(row=priced[0], second=priced[1] if len(priced) > 1 else None)


def _cost(row: Row) -> float:
    cost = row["usd_per_million_at_speed"]
    return inf if cost is None else cost
