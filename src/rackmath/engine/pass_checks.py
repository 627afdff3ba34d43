"""Numbers that a pass may be asked for."""

from __future__ import annotations

from math import isfinite

import numpy as np

from rackmath.errors import InputError
from rackmath.models.numbers import Number
from rackmath.models.operators import PHASES


def check_pass(phase: str, batch: Number, context: Number, cached: Number, drafted: Number) -> None:
    """Refuse numbers that no pass has. Errors: :class:`InputError`."""
    if phase not in PHASES:
        raise InputError("phase", phase, f"use one of {', '.join(PHASES)}")
    for field, value, low, high in (
        ("batch", batch, 1e-6 if phase == "train" else 1, 1e9),
        ("context", context, 0 if phase == "decode" else 1, 1e12),
        ("cached", cached, 0, 1e12),
        ("drafted", drafted, 0, 1000),
    ):
        smallest, largest = float(np.min(value)), float(np.max(value))
        if not isfinite(smallest) or not isfinite(largest) or smallest < low or largest > high:
            wrong = largest if largest > high or not isfinite(largest) else smallest
            raise InputError(field, wrong, f"write a number from {low} to {high:g}")
    if phase == "decode" and float(np.max(cached)) > 0:
        raise InputError("cached", float(np.max(cached)), "a cached prefix belongs to prefill; decode has context")
    if phase == "prefill" and bool(np.any(np.asarray(cached) >= np.asarray(context))):
        raise InputError("cached", float(np.max(cached)), "must be smaller than the prompt")


def check_accepted(phase: str, accepted: Number | None, drafted: Number) -> None:
    """Refuse tokens of a step that no drafts yield. Errors: :class:`InputError`."""
    if accepted is None:
        return
    if phase != "decode":
        raise InputError("accepted", float(np.max(accepted)), "drafts are accepted in decode only")
    inside = np.greater_equal(accepted, 1) & np.less_equal(accepted, 1 + np.asarray(drafted))
    if not np.all(inside):
        raise InputError("accepted", float(np.max(accepted)), "write 1 to 1 + drafted tokens")
