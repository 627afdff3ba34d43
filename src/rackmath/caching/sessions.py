"""An agent's session: what every turn reads, finds in the cache, writes and says."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]

_MOST_TURNS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns of one agent. Tokens and seconds."""

    turns: int
    instructions: float
    """Instructions and tools, at the head of every prompt."""
    turn_tokens: float
    """What the user or a tool adds per turn."""
    output: float
    """What the model says per turn; it stays in the context."""
    think_time: float
    """Mean time between two turns; exponentially distributed. [s]"""
    keep: float = 0.0
    """How long the cache holds a prefix after its last use; 0 for no caching. [s]"""
    compact_at: float | None = None
    """Context that no turn may pass, its answer included: before one would, the session is summarised."""
    compact_to: float = 2000.0
    """Tokens of the summary."""

    def __post_init__(self) -> None:
        if not 1 <= self.turns <= _MOST_TURNS:
            raise InputError("turns", self.turns, f"1 to {_MOST_TURNS:,}")
        for field in ("instructions", "turn_tokens", "output", "think_time", "keep", "compact_to"):
            value = getattr(self, field)
            if not (isfinite(value) and 0 <= value <= 1e12):
                raise InputError(field, value, "a number from 0 to 1e12")
        if self.compact_at is not None:
            least = self.instructions + self.compact_to + self.turn_tokens + self.output
            if not self.compact_at > least:
                raise InputError(
                    "compact_at", self.compact_at, f"instructions, summary and one turn already take {least:,.0f}"
                )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """Calls of a session in order, summaries among them. Shape (calls,)."""

    prompt: Array
    prefix: Array
    """Part of the prompt that an earlier call has written to the cache."""
    output: Array
    summary: NDArray[np.bool_]
    """Calls that summarise the session."""
    hit: float
    """Chance that the prefix is still there; 0 without caching."""


def turns(session: Session) -> Turns:
    r"""Calls of a session.

    A turn's prompt is everything said before and what is added. Its prefix is the prompt
    of the call before; a summary drops all of it but the instructions. The prefix is found
    with probability 1 - exp(-keep / think_time), for exponential pauses.
    """
    prompts: list[float] = []
    prefixes: list[float] = []
    outputs: list[float] = []
    summaries: list[bool] = []
    context, cached_tokens = session.instructions, 0.0
    for _ in range(session.turns):
        if session.compact_at is not None and context + session.turn_tokens + session.output > session.compact_at:
            # The summary is a call like another: it reads all, and what it says replaces it.
            prompts.append(context)
            prefixes.append(cached_tokens)
            outputs.append(session.compact_to)
            summaries.append(True)
            context, cached_tokens = session.instructions + session.compact_to, session.instructions
        prompt = context + session.turn_tokens
        prompts.append(prompt)
        prefixes.append(cached_tokens)
        outputs.append(session.output)
        summaries.append(False)
        context, cached_tokens = prompt + session.output, prompt
    hit = 1.0 if session.keep > 0 and session.think_time == 0 else 0.0
    if session.think_time > 0:
        hit = 1 - exp(-session.keep / session.think_time)
    return Turns(
        prompt=np.array(prompts),
        prefix=np.array(prefixes),
        output=np.array(outputs),
        summary=np.array(summaries),
        hit=hit,
    )
