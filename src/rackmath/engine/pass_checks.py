"""Numbers that a pass may be asked for, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import numpy as np

from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.layout import Layout, expert_count
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.hardware.chip import memory_kept_note
from rackmath.hardware.power import cap_note
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.models.operator import PHASES


def check_pass(phase: str, batch: Number, context: Number, cached_tokens: Number, draft_tokens: Number) -> None:
    """Refuse numbers that no pass has. Errors: :class:`InputError`."""
    if phase not in PHASES:
        raise InputError("phase", phase, f"use one of {', '.join(PHASES)}")
    for field, value, low, high in (
        ("batch", batch, 1e-6 if phase == "train" else 1, 1e9),
        ("context", context, 0 if phase == "decode" else 1, 1e12),
        ("cached_tokens", cached_tokens, 0, 1e12),
        ("draft_tokens", draft_tokens, 0, 1000),
    ):
        smallest, largest = float(np.min(value)), float(np.max(value))
        if not isfinite(smallest) or not isfinite(largest) or smallest < low or largest > high:
            wrong = largest if largest > high or not isfinite(largest) else smallest
            raise InputError(field, wrong, f"write a number from {low} to {high:g}")
    if phase == "decode" and float(np.max(cached_tokens)) > 0:
        raise InputError(
            "cached_tokens",
            float(np.max(cached_tokens)),
            "only prompts are read beside a cached prefix; in decode count it as context",
        )
    if phase == "prefill" and bool(np.any(np.asarray(cached_tokens) >= np.asarray(context))):
        raise InputError("cached_tokens", float(np.max(cached_tokens)), "must be smaller than the prompt")


def check_accepted(phase: str, accepted_tokens: Number | None, draft_tokens: Number) -> None:
    """Refuse tokens of a step that no drafts yield. Errors: :class:`InputError`."""
    if accepted_tokens is None:
        return
    if phase != "decode":
        raise InputError("accepted_tokens", float(np.max(accepted_tokens)), "drafts are accepted in decode only")
    inside = np.greater_equal(accepted_tokens, 1) & np.less_equal(accepted_tokens, 1 + np.asarray(draft_tokens))
    if not np.all(inside):
        raise InputError("accepted_tokens", float(np.max(accepted_tokens)), "write 1 to 1 + drafted tokens")


def check_apart(layout: Layout, architecture: Architecture, phase: str, two_batch: Number) -> None:
    """Refuse what accelerators that hold experts only do not do. Errors: :class:`InputError`."""
    apart = np.asarray(layout.apart)
    if not apart.any():
        return
    if not apart.all():
        raise InputError("layout", "ffn", "layouts with accelerators that hold experts only are asked by themselves")
    if phase == "train":
        raise InputError("layout", "ffn", "accelerators that hold experts only serve, they do not train")
    if np.any(two_batch):
        raise InputError("two batch overlap", float(np.max(two_batch)), "micro-batches of ffn already overlap")
    if architecture.adapters is not None:
        raise InputError("adapters", architecture.adapters.resident, "leave ffn out of the layout")


def borrowed_kernels(kernels: Kernels, kinds: Iterable[str]) -> tuple[str, ...]:
    """What is said where some kinds of kernels of a pass were timed on other chips only."""
    blocks = sorted({kind.partition(".")[0].replace("_", " ") for kind in kernels.borrowed.intersection(kinds)})
    return (f"kernels that were timed on other chips or generations only: {', '.join(blocks)}",) if blocks else ()


def pass_assumptions(a: Architecture, system: System, phase: str, absorbed: bool | None) -> tuple[str, ...]:
    """What a reader has to know of the numbers of any pass of a model on a system."""
    notes = [f"{entry} (absent from the config)" for entry in a.defaulted]
    if a.not_understood:
        notes.append("not understood and left out: " + ", ".join(a.not_understood))
    formats = {f for layer, _ in a.groups for _, f in layer.formats} | {f for _, f in a.formats} | {a.format}
    for precision in sorted({f.compute for f in formats}):
        actual = system.chip.runs_at(precision)
        if actual != precision:
            notes.append(f"{precision} weights are multiplied at {actual}: {system.chip.name} has no {precision} rate")
    notes.extend(cap_note(system.chip))
    notes.extend(memory_kept_note(system.chip))
    if absorbed is not None:
        notes.append(f"latent attention {'absorbed' if absorbed else 'naive'} by request in {phase}")
    if expert_count(a) and a.routing is None:
        notes.append("tokens choose experts independently and evenly")
    return tuple(notes)
