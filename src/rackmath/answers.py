"""What the commands ask, for Python: ``rackmath.estimate`` answers what ``rackmath estimate`` answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rackmath import catalogue
from rackmath.constants_file import DEFAULT_ENGINE, NOW, engine_of, losses_of
from rackmath.drafts import drafting
from rackmath.engine import Estimate, Layout, parse_layout
from rackmath.engine import estimate as run
from rackmath.engine.layout import candidate_layouts, stack_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise

_CLASS = {"decode": "time per token", "prefill": "prompt pass"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """One pass of a model on a system, with what was chosen and assumed."""

    architecture: Architecture
    system: System
    layout: Layout
    step: Estimate
    """Time with its range, what binds, memory."""
    accepted: float | None
    """Tokens that a decode step yields for each sequence; None of a prompt. [tokens]"""
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    """What the engine was asked."""

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Speed that a user sees; None of a prompt, and where the model does not fit. [tokens/s]"""
        if self.accepted is None or not bool(self.step.memory.fits):
            return None
        return self.accepted / float(self.step.time)


def estimate(
    model: str,
    on: str,
    *,
    batch: float,
    context: float,
    phase: str = "decode",
    cached: float = 0.0,
    gpus: int | None = None,
    layout: str | None = None,
    weights: str | None = None,
    kv: str | None = None,
    engine: str = DEFAULT_ENGINE,
    year: float = NOW,
    drafted: float = 0.0,
    acceptance: str | None = None,
    draft_model: str | None = None,
    ideal: bool = False,
) -> Answer:
    """Estimate one decode or prefill pass, as ``rackmath estimate`` does with the options of the same names.

    Parameters
    ----------
    model, on : str
        Names of the catalogue, repositories on Hugging Face, or paths.
    batch : float
        Sequences of the whole deployment. [sequences]
    context : float
        Tokens that each new token sees; of a prompt its length. [tokens]
    layout : str, optional
        As tp8,ep8,pp1,dp1; by default the fastest that fits.
    engine, year
        Whose losses: the answer is a measured engine's, not the bound.
    ideal : bool
        The bound itself, asked for by name.

    Errors: :class:`InputError` for what is unknown or out of range, :class:`DoesNotFit` where no layout exists.
    """
    architecture = requantise(
        catalogue.model(model),
        weights=weight_format(weights) if weights else None,
        cache=cache_format(kv) if kv else None,
    )
    system = catalogue.system(on)
    if phase not in _CLASS:
        raise InputError("--phase", phase, f"use one of {', '.join(_CLASS)}")
    version = engine_of(system, engine, year)
    if drafted and phase != "decode":
        raise InputError("--drafted", drafted, "drafts are verified in decode: leave it out of --phase prefill")
    draft = catalogue.model(draft_model) if draft_model else None
    drafts = drafting(architecture, version, drafted, acceptance, draft)
    settings: dict[str, Any] = {
        "batch": batch,
        "context": context,
        "phase": phase,
        "cached": cached,
        "drafted": drafted,
        "draft": draft,
        "accepted": drafts.accepted if drafted else None,
        "losses": None if ideal else losses_of(system, version, _CLASS[phase]),
    }
    chosen, notes = _layout(architecture, system, gpus, layout, settings)
    if architecture.max_context is not None and context > architecture.max_context:
        trained = f"{architecture.name} was trained for {architecture.max_context:,} tokens"
        notes += (f"{trained}: beyond them it computes, and nobody knows how well it answers",)
    return Answer(
        architecture=architecture,
        system=system,
        layout=chosen,
        step=run(architecture, system, chosen, **settings),
        accepted=drafts.accepted if phase == "decode" else None,
        notes=(*notes, *([drafts.note] if drafted else [])),
        settings=settings,
    )


def _layout(
    a: Architecture, system: System, gpus: int | None, text: str | None, settings: dict[str, Any]
) -> tuple[Layout, tuple[str, ...]]:
    """Take the layout that was asked for, or the fastest of all sensible ones that fit."""
    if gpus is not None and not 1 <= gpus <= 1_000_000:
        raise InputError("--gpus", gpus, "write a number from 1 to 1,000,000")
    if text:
        layout = parse_layout(text, gpus, a)
        return layout, ()
    wanted = gpus or system.default_gpus
    system.require_network(wanted)
    found = list(candidate_layouts(a, wanted))
    if not found:
        raise DoesNotFit(
            f"no layout of {wanted} accelerators divides {a.name}", "give --gpus a divisor of its heads or experts"
        )
    result = run(a, system, stack_layouts(found), **settings)
    time, fits, total = (
        np.broadcast_to(np.asarray(value), len(found))
        for value in (result.time, result.memory.fits, result.memory.total)
    )
    if fits.any():
        best = found[int(np.argmin(np.where(fits, time, np.inf)))]
        return best, (f"layout {best.text()}: the fastest of {int(fits.sum())} that fit, of {len(found)} considered",)
    best = found[int(np.argmin(total))]
    return best, (f"layout {best.text()}: none of {len(found)} fits, this one needs least memory",)
