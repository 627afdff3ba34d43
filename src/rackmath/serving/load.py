"""What users ask of a service, how its engine schedules, and what both see: the records of a steady state."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from rackmath.engine import Layout
from rackmath.models.numbers import Number, minimum

CHUNK = 8192
"""Tokens of prompts that an engine puts into one pass (vLLM and SGLang defaults on large GPUs)."""

_NEARLY_ALL = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Equal workers of one layout."""

    layout: Layout
    workers: Number = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """What users ask of the whole deployment; numbers broadcast."""

    concurrency: Number
    """Requests in the system at any time; infinite for as many as memory holds. [requests]"""
    input: Number
    """Tokens of a prompt. [tokens]"""
    output: Number
    """Tokens of an answer. [tokens]"""
    cached_tokens: Number = 0.0
    """Tokens of a prompt that the cache holds already. [tokens]"""
    draft_tokens: Number = 0.0
    """Tokens that a step speculates beside its next one. [tokens]"""
    max_num_seqs: Number = inf
    """Sequences that the engine runs at once at most (``max_num_seqs``). [sequences]"""
    max_num_batched_tokens: Number = CHUNK
    """Tokens of prompts in one pass at most (``max_num_batched_tokens``). [tokens]"""
    piece: Number = inf
    """Tokens of the pieces in which prompts pass the stages of a pipeline. [tokens]"""
    turns: Number = 1.0
    """Micro-batches of a pipeline that take turns, each with a budget of its own (:func:`.prompts.turns_of`). [1]"""
    looks: Number = 1.0
    """Steps from one look of the engine at new requests to the next. [steps]"""
    varied: Number = 0.0
    """1 where answers differ in length as exponential ones do, 0 where all are as long. [1]"""
    held: Number | None = None
    """Sequences that the memory of one replica holds, where it is known already. [sequences]"""
    wave: bool = False
    """All requests arrive at once and none follows, as in a one-shot benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scheduling:
    """How engines mix work: fitted constants, bounded, none per model, and one rule of each engine's scheduler."""

    interruption: Number = 1.0
    """Part of what a prompt adds to steps that the running batch waits for: all of it, but none in the ideal bound."""
    lockstep: Number = 0.0
    """Part of one group's prompt that all data-parallel groups wait for."""
    queueing: Number = 0.5
    """Part of the prompts of a full burst that an average first token waits for."""
    dispatch: Number = 0.0
    """Time in which the host starts one kernel of a prompt's pass. [s]"""
    arrival: Number = 0.0
    """Time of a request outside the engine: network, tokeniser, first scheduling. [s]"""
    frontend: Number = 0.0
    """Time of ``arrival`` in which a request holds up those behind it: that of the server's one process. [s]"""
    reception: Number = 0.0
    """Part of ``frontend`` that it takes to receive a request, before any first token of its burst is passed on."""
    acceptance: Number = 0.0
    """Chance that a drafted token is accepted, given that those before it were."""
    mixed: Number = 1.0
    """1 where a pass mixes prompts with answers within its budget, 0 where prompts come first; a rule of the engine."""
    ahead: Number = 0.0
    """1 where a step is decided when the one before begins, so that who arrives waits for one more; a rule."""
    captured: Number = 0.0
    """Tokens of a pass up to which graphs of all but attention are replayed where it reads prompts; a rule. [tokens]"""

    def accepted(self, draft_tokens: Number) -> Number:
        r"""Tokens that a verified step yields in the mean. [tokens]

        .. math:: \sum_{i=0}^{n} a^i = (1 - a^{n+1}) / (1 - a)

        Source: Leviathan, Kalman and Matias 2023, equation 1.
        """
        chance = minimum(self.acceptance, _NEARLY_ALL)
        return (1 - chance ** (draft_tokens + 1)) / (1 - chance)


class PassTimes(NamedTuple):
    """Times of the passes that a balance is made of; numbers broadcast."""

    step: Number
    """One decode step at its batch. [s]"""
    prompt: Number
    """What one prompt takes of its group when passes are filled. [s]"""
    alone: Number
    """A prompt read by itself, as a first token waits for it. [s]"""
    beside: Number
    """What one prompt adds to the decode steps of its group: all of it where prompts come first. [s]"""
    lone_step: Number = 0.0
    """One decode step of a single sequence. [s]"""
    together: Number = 1.0
    """Prompts in a filled pass. [prompts]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steady:
    """What a steady load looks like from both sides."""

    time_per_output_token: Number
    """Mean of all tokens, interruptions by others' prompts included. [s]"""
    time_to_first_token: Number
    """Queue and prompt, in the mean. [s]"""
    median_to_first_token: Number
    """The same of the request in the middle, which no burst holds up. [s]"""
    requests_per_second: Number
    """Completed by the whole deployment. [requests/s]"""
    running: Number
    """Sequences in a decode step, whole deployment. [sequences]"""
    decode: Number
    """Time of one step at that batch. [s]"""
    prefill: Number
    """Time of one prompt on the group that runs it. [s]"""
    capacity: Number
    """Sequences that fit. [sequences]"""
    mean_ratio: Number = 1.0
    """Mean over requests of each one's own time per token, over that of all tokens. [1]"""
    median_ratio: Number = 1.0
    """The same of the request in the middle. [1]"""

    @property
    def mean_of_requests(self) -> Number:
        """Mean over requests of each one's own mean: short answers that are interrupted count as long ones do. [s]"""
        return self.mean_ratio * self.time_per_output_token

    @property
    def median_of_requests(self) -> Number:
        """The same of the request in the middle. [s]"""
        return self.median_ratio * self.time_per_output_token
