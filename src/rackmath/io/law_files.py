"""Files of training: resampled laws, and what known models were trained on."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from rackmath.training.scaling_laws import LAWS, LossLaw

RESAMPLED = "besiroglu"
"""The law whose runs were resampled, by ``tools/laws.py``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A published model and its tokens."""

    model: str
    date: str
    active: float
    """Parameters that a token uses. [1]"""
    tokens: float
    source: str


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("rackmath") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@lru_cache(maxsize=1)
def resampled() -> tuple[LossLaw, ...]:
    """Laws fitted on resamples of the runs behind the law ``RESAMPLED``."""
    return tuple(
        replace(LAWS[RESAMPLED], **{name: float(value) for name, value in row.items()})
        for row in _rows("law_bootstrap.csv")
    )


@lru_cache(maxsize=1)
def trained() -> tuple[PublishedRun, ...]:
    """Known models, by their date as published."""
    return tuple(
        PublishedRun(
            model=row["model"],
            date=row["date"],
            active=float(row["active_b"]) * 1e9,
            tokens=float(row["tokens_t"]) * 1e12,
            source=row["source"],
        )
        for row in _rows("token_budgets.csv")
    )
