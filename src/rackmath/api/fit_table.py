"""What fits as a table for reading: a line for each model, a column for each format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackmath.models.formats import weight_format
from rackmath.units import show

OWN = "config's own"
"""Format of the config, where engines load it as it is published."""

Row = Mapping[str, Any]
"""One model in one format, as :func:`~rackmath.api.fit.run_fit` lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTable:
    """Tokens per second of models in each format that fits, largest model first."""

    title: str
    columns: Sequence[str]
    """Those that begin with ``>`` are numbers."""
    lines: Sequence[Sequence[str]]
    whole: bool
    """Whether every model has a line."""


def speed_table(rows: Sequence[Row], most: int = 0) -> SpeedTable:
    """The largest models that fit, so many of them or all: speeds, the range of these, and how near measurements are.

    A speed with * is of weights of which a part stands on the host.
    """
    formats, models = by_model(rows, most)
    count = len({row["model"] for row in rows})
    models_text = "all" if len(models) == count else f"the largest {len(models)} of"
    return SpeedTable(
        title=f"tokens/s of {models_text} {count} models, in each format that fits",
        columns=["model", ">params", *(f">{text}" for text in formats), ">90 % range", "evidence"],
        lines=[_line(name, by_format, formats) for name, by_format in models.items()],
        whole=len(models) == count,
    )


def by_model(rows: Sequence[Row], most: int = 0) -> tuple[list[str], dict[str, dict[str, Row]]]:
    """Formats, widest first, and the rows of each model by format, largest model first: so many models, or all."""
    models: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: (-row["total_params"], row["model"])):
        models[row["model"]][row["weights"]] = row
    first_models = dict(list(models.items())[: most or None])
    texts = {text for by_format in first_models.values() for text in by_format}
    return sorted(texts, key=lambda text: (-_bits(text), text)), first_models


def speed_range(rows: Iterable[Row]) -> tuple[float, float]:
    """Factors on the speed of each row that hold the 90 % range of all. [1]"""
    ends = [(row["time"] / row["time_high"], row["time"] / row["time_low"]) for row in rows]
    return min(low for low, _ in ends), max(high for _, high in ends)


def speed_text(tokens_per_second: float) -> str:
    """Three digits of a speed, whole tokens from a hundred."""
    return f"{tokens_per_second:,.0f}" if tokens_per_second >= 100 else f"{tokens_per_second:.3g}"


def _bits(text: str) -> float:
    return float("inf") if text == OWN else weight_format(text).bits


def _line(name: str, by_format: Mapping[str, Row], formats: Sequence[str]) -> list[str]:
    rows = by_format.values()
    low, high = speed_range(rows)
    return [
        name,
        show(next(iter(rows))["total_params"]),
        *(_cell(by_format.get(text)) for text in formats),
        f"{low:.2f} to {high:.2f}",
        " or ".join(dict.fromkeys(row["evidence"] or "-" for row in rows)),
    ]


def _cell(row: Row | None) -> str:
    return "-" if row is None else speed_text(row["tokens_per_second"]) + ("*" if row["offloaded_bytes"] else "")
