"""What prompts and answers cost in one deployment, by context."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedDeployment:
    """Accelerators of a copy, how it is spread, and what its engine loses."""

    architecture: Architecture
    system: System
    gpus: int
    layout: str | None
    """None for the cheapest."""
    two_batch: float
    losses: Losses | None
    family: str

    @property
    def layouts(self) -> list[Layout] | None:
        """The layout that is asked for; None where any may be chosen."""
        if not self.layout:
            return None
        return [engine_layout(self.layout, self.gpus, self.architecture, self.family)]


@dataclass(frozen=True, slots=True)
class AnswerCosts:
    """Cost of answers in one deployment, whatever the limit on time."""

    deployment: CostedDeployment
    batch: float | None
    """Sequences; None for the best under the limit."""

    def at(self, contexts: Any, slowest: float) -> ContextCost:
        """Cheapest answers at contexts."""
        d = self.deployment
        return cost_against_context(
            d.architecture,
            d.system,
            d.gpus,
            contexts,
            slowest=SLOWEST if self.batch else slowest,
            layouts=d.layouts,
            batches=np.array([self.batch]) if self.batch else _BATCHES,
            two_batch=d.two_batch,
            losses=d.losses,
            family=d.family,
        )

    def ratio(self, context: Any, slowest: float, standard: float) -> float | None:
        """Cost within another limit over the standard one; None where nothing is as fast."""
        try:
            return float(self.at(context, slowest).gpu_seconds[0]) / standard
        except DoesNotFit:
            return None


def prompt_costs(d: CostedDeployment, lengths: Any, parts: Any, hit: float, layout: Layout | None = None) -> PromptCost:
    """Cost of prompts of given lengths in a deployment, in its cheapest layout or a given one."""
    layouts = [layout] if layout else d.layouts or engine_layouts(d.architecture, d.gpus, d.family)
    return reading(d.architecture, d.system, layouts, lengths, parts, hit=hit, two_batch=d.two_batch, losses=d.losses)
