"""What prompts and answers cost in one deployment, by context."""

from __future__ import annotations

from typing import Any

import numpy as np

from rackmath.engine import Losses
from rackmath.engine.layout import Layout
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.contexts import ContextCost, cost_against_context
from rackmath.serving.engines import engine_layout, engine_layouts
from rackmath.serving.token_costs import PromptCost, reading

SLOWEST = 1e3
"""Time per token that a batch tier may take. [s]"""
_BATCHES = np.unique(np.round(2 ** (np.arange(0, 28 * 8) / 8)))
"""Sequences that are tried, 9 % apart: the limit on time decides between them."""


class AnswerCosts:
    """Cost of answers in one deployment, whatever the limit on time."""

    def __init__(
        self,
        architecture: Architecture,
        system: System,
        gpus: int,
        layout: str | None,
        batch: float | None,
        two_batch: float,
        losses: Losses | None,
        family: str,
    ) -> None:
        self.architecture, self.system, self.gpus = architecture, system, gpus
        self.fixed = batch is not None
        self._layouts = [engine_layout(layout, gpus, architecture, family)] if layout else None
        self._batches = np.array([batch]) if batch else _BATCHES
        self._more: dict[str, Any] = {"two_batch": two_batch, "losses": losses, "family": family}

    def at(self, contexts: Any, slowest: float) -> ContextCost:
        """Cheapest answers at contexts."""
        return cost_against_context(
            self.architecture,
            self.system,
            self.gpus,
            contexts,
            slowest=SLOWEST if self.fixed else slowest,
            layouts=self._layouts,
            batches=self._batches,
            **self._more,
        )

    def ratio(self, context: Any, slowest: float, standard: float) -> float | None:
        """Cost within another limit over the standard one; None where nothing is as fast."""
        try:
            return float(self.at(context, slowest).gpu_seconds[0]) / standard
        except DoesNotFit:
            return None


class PromptCosts:
    """Cost of prompts in one deployment."""

    def __init__(
        self,
        architecture: Architecture,
        system: System,
        gpus: int,
        layout: str | None,
        two_batch: float,
        losses: Losses | None,
        family: str,
    ) -> None:
        only = [engine_layout(layout, gpus, architecture, family)] if layout else None
        self._layouts = only or engine_layouts(architecture, gpus, family)
        self._asked = architecture, system
        self._more: dict[str, Any] = {"two_batch": two_batch, "losses": losses}

    def at(self, lengths: Any, parts: Any, hit: float, layout: Layout | None = None) -> PromptCost:
        """Prompts of given lengths, in the cheapest layout or a given one."""
        layouts = [layout] if layout else self._layouts
        return reading(*self._asked, layouts, lengths, parts, hit=hit, **self._more)
