"""Fields of a simulation that say nothing without another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackmath.api.fields import refuse_without

if TYPE_CHECKING:
    from rackmath.api.simulation.request import SimulateRequest


def refuse_needless(r: SimulateRequest) -> None:
    """Refuse what would be passed over in silence: turns without sessions, a trace's options without a trace.

    Errors: :class:`~rackmath.errors.InputError` for the first such field.
    """
    if r.trace is None:
        refuse_without(r, "--trace", "repair", "limit")
        if r.turns == 1:
            refuse_without(r, "--turns", "turn_tokens")
            if r.users is None:
                refuse_without(r, "--users or --turns", "think_time")
    if not r.diurnal_amplitude:
        refuse_without(r, "--diurnal-amplitude", "day_start")
    if r.policy != "fixed-interval":
        refuse_without(r, "--policy fixed-interval", "period")
    if r.eviction != "ttl":
        refuse_without(r, "--eviction ttl", "ttl")
