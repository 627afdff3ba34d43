"""What an experiment brings back: curves with their spread, beside what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rackmath.lab.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCurve:
    """Points of one series; one entry per point."""

    panel: str
    """Which pair of axes it belongs to."""
    name: str
    across: str
    up: str
    x: Sequence[float]
    measured: Sequence[float]
    low: Sequence[float] = ()
    """10th percentile over repeats; empty for a quantity that is counted."""
    high: Sequence[float] = ()
    predicted: Sequence[float] = ()
    """Empty where nothing is predicted."""
    log_across: bool = True
    log_up: bool = True

    @property
    def errors(self) -> list[float]:
        """Predicted over measured, less one."""
        return [p / m - 1 for p, m in zip(self.predicted, self.measured, strict=False) if m]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment on one machine."""

    name: str
    title: str
    machine: Machine
    curves: Sequence[ExperimentCurve]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Numbers that stand alone."""
    findings: Sequence[str] = ()
    """What they say, in sentences."""
    ceilings: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the machine reaches, as far as predictions used it. SI."""
    seconds: float = 0.0
    """That the experiment took. [s]"""

    @property
    def median_error(self) -> float | None:
        """Median absolute error of everything that was predicted; None where nothing was."""
        errors = [abs(e) for curve in self.curves for e in curve.errors]
        return float(np.median(errors)) if errors else None
