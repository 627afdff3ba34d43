"""Time of one decode or prefill pass, what binds it, and what it needs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.adapters import adapter_loads, adapter_time
from rackmath.engine.gather import gathered
from rackmath.engine.layout import Layout, draft_layout, widths
from rackmath.engine.losses import Losses, wider, without_host
from rackmath.engine.pass_checks import borrowed_kernels, check_accepted, check_apart, check_pass, pass_assumptions
from rackmath.engine.pass_time import APART_UNMEASURED, apart_time, pass_time
from rackmath.engine.pieces import pieces, put_together
from rackmath.engine.ranged import times_with
from rackmath.engine.roofline import TERMS
from rackmath.engine.sharding import Memory, memory
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum

_WORKERS = 2
TIME_FIELDS = ("time", "time_low", "time_high", "time_ideal", "time_overlapped", "compute_time", "memory_time")
"""Fields of an estimate that are times of the pass, or of its parts: passes in a row add them up."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """Result of :func:`estimate`; every field has the broadcast shape of the inputs."""

    time: Number
    """Time of the pass: decode, of one token of every sequence. [s]"""
    time_low: Number
    """Lower end of the 90 % range. [s]"""
    time_high: Number
    """Upper end of the 90 % range. [s]"""
    time_ideal: Number
    """Bound with each operator at its own roofline, one after the other. [s]"""
    time_overlapped: Number
    """The lecture's bound: compute, memory and network all overlap. [s]"""
    terms: Mapping[str, Number]
    """Seconds of ``time_ideal`` by what binds each operator. They add up to it. [s]"""
    lost: Mapping[str, Number]
    """Seconds beyond ``time_ideal`` by cause. They add up to ``time``; zero without losses. [s]"""
    memory: Memory
    compute_time: Number
    """Seconds that its multiplications take at the peak rates, whatever binds. [s]"""
    memory_time: Number
    """Seconds that its memory traffic takes at the peak bandwidth, whatever binds. [s]"""
    tokens: Number
    """Tokens that the pass produces (decode) or takes in (prefill). [tokens]"""
    gpus: Number
    layout: Layout
    basis: str
    """What the losses and the range were fitted on."""
    busy: Mapping[str, Number]
    """Of the time, what each pool and each way between them works, where accelerators hold experts only. [s]"""
    micro_batches: Number
    """Micro-batches that take turns between these pools; 1 without such. [micro-batches]"""
    assumptions: tuple[str, ...] = ()

    @property
    def bound_by(self) -> NDArray[np.str_] | str:
        """Term that takes most of the time."""
        terms_array = np.stack(np.broadcast_arrays(*(self.terms[name] for name in TERMS)))
        best = np.array(TERMS)[np.argmax(terms_array, axis=0)]
        return str(best) if best.ndim == 0 else best

    @property
    def tokens_per_second(self) -> Number:
        """Tokens of all sequences per second. [tokens/s]"""
        return self.tokens / self.time

    @property
    def tokens_per_second_per_gpu(self) -> Number:
        """The same per accelerator. [tokens/s]"""
        return self.tokens_per_second / self.gpus


def estimate(
    architecture: Architecture,
    system: System,
    layout: Layout,
    *,
    batch: Number,
    context: Number,
    phase: str = "decode",
    cached_tokens: Number = 0,
    draft_tokens: Number = 0,
    accepted_tokens: Number | None = None,
    draft: Architecture | None = None,
    two_batch: Number = 0,
    absorbed: bool | None = None,
    piece: Number = inf,
    losses: Losses | None = None,
    threads: bool = True,
) -> Estimate:
    """Estimate one forward pass.

    Parameters
    ----------
    architecture, system, layout
        What is computed, on what, spread how. The widths of the layout broadcast.
    batch : Number
        Sequences of the whole deployment; in train of one micro-batch, below 1 where ranks
        share a sequence. [sequences]
    context : Number
        Decode: tokens that each new token sees. Prefill: tokens of the prompt. [tokens]
    phase : str
        decode (one new token per sequence), prefill (all but ``cached_tokens`` tokens), or train
        (a forward pass whose every position is predicted).
    cached_tokens : Number
        Prefill only: tokens of the prompt whose cache is there already. [tokens]
    draft_tokens : Number
        Decode only: speculated tokens that each sequence verifies with its next one. [tokens]
    accepted_tokens : Number, optional
        Decode only: tokens that a step yields per sequence; by default all that it verifies. [tokens]
    draft : Architecture, optional
        Model that drafts the tokens, on the same accelerators: a pass of it per drafted token, and one over each
        prompt, which follow the target's without another round of the host's scheduler; by default the drafts cost
        nothing beside their verification.
    two_batch : Number
        1 where two half-batches overlap computation and expert exchange, else 0.
    absorbed : bool, optional
        Form of latent attention; by default absorbed in decode, naive in prefill.
    piece : Number
        Prefill only: tokens of the pieces in which a prompt passes the stages of a pipeline; whole by default. [tokens]
    losses : Losses, optional
        What separates the engine from the bound; by default the bound itself.
    threads : bool
        Whether large grids are spread over two threads.

    Returns
    -------
    Estimate
        Scalars for scalar inputs, else arrays of the broadcast shape.

    Errors: :class:`~rackmath.errors.InputError` for numbers out of range,
    :class:`~rackmath.errors.DoesNotFit` where accelerators have no network.
    """
    check_pass(phase, batch, context, cached_tokens, draft_tokens)
    check_accepted(phase, accepted_tokens, draft_tokens)
    check_apart(layout, architecture, phase, two_batch)
    system.require_network(int(np.max(layout.gpus)))
    point = {
        "batch": batch,
        "context": context,
        "cached_tokens": cached_tokens,
        "draft_tokens": draft_tokens,
        "two_batch": two_batch,
        "piece": piece,
        **widths(layout),
    }
    if accepted_tokens is not None:
        point["accepted_tokens"] = accepted_tokens
    shape = np.broadcast_shapes(*(np.shape(value) for value in point.values()))
    call = _Call(architecture, system, phase, absorbed, losses)
    if draft is not None:
        shared_arguments: dict[str, Any] = {
            "batch": batch,
            "context": context,
            "phase": phase,
            "cached_tokens": cached_tokens,
            "piece": piece,
            "threads": threads,
        }
        following = None if losses is None else without_host(losses)
        draft_step = estimate(draft, system, draft_layout(draft, layout), **shared_arguments, losses=following)
        verification: dict[str, Any] = {"draft_tokens": draft_tokens, "accepted_tokens": accepted_tokens}
        alone = estimate(
            architecture,
            system,
            layout,
            **shared_arguments,
            **verification,
            two_batch=two_batch,
            absorbed=absorbed,
            losses=losses,
        )
        return _with_draft(alone, draft_step, draft_tokens if phase == "decode" else 1.0)
    parts = list(pieces(point, shape))
    if len(parts) == 1:
        return call.evaluate(parts[0])
    if threads:
        with ThreadPoolExecutor(_WORKERS) as pool:
            results = list(pool.map(call.evaluate, parts))
    else:
        results = [call.evaluate(piece) for piece in parts]
    return _joined(results, shape, layout)


@dataclass(frozen=True, slots=True)
class _Call:
    """What stays the same over all points of one call."""

    architecture: Architecture
    system: System
    phase: str
    absorbed: bool | None
    losses: Losses | None

    def evaluate(self, point: Mapping[str, Number]) -> Estimate:
        """Evaluate one cache-sized set of points."""
        a, chip = self.architecture, self.system.chip
        gathered_work = gathered(a, self.system, self.phase, point, self.absorbed)
        k = self.losses or Losses()
        if np.any(gathered_work.layout.apart):
            times = apart_time(gathered_work.work, gathered_work.micro_batches, gathered_work.layout, self.losses)
            k = k if self.losses is None else wider(k, *APART_UNMEASURED)
        else:
            times = pass_time(gathered_work.work, self.losses).times(gathered_work.passes)
        losses_by_name = dict(times.lost)
        if self.losses is not None:
            losses_by_name["host"] = losses_by_name["host"] + adapter_loads(a, self.system, self.phase, gathered_work)
        total = sum(times.terms.values(), 0.0)
        of_adapters = adapter_time(gathered_work, k) if a.adapters is not None and self.losses is not None else 0.0
        return Estimate(
            **times_with(k, self.phase, total, losses_by_name, of_adapters),
            time_ideal=total,
            time_overlapped=times.overlapped,
            terms=times.terms,
            compute_time=times.compute,
            memory_time=times.traffic,
            memory=memory(
                a,
                gathered_work.layout,
                gathered_work.held,
                gathered_work.context,
                gathered_work.tokens,
                chip.usable_memory,
            ),
            tokens=point["batch"] * point["accepted_tokens"]
            if "accepted_tokens" in point
            else gathered_work.deployment_tokens,
            gpus=gathered_work.layout.gpus,
            layout=gathered_work.layout,
            basis=k.basis,
            busy=times.busy,
            micro_batches=gathered_work.micro_batches,
            assumptions=(
                *pass_assumptions(a, self.system, self.phase, self.absorbed),
                *borrowed_kernels(k.kernels, (op.kernel for op in gathered_work.work.operators)),
                *k.assumptions,
            ),
        )


def _with_draft(step: Estimate, draft_step: Estimate, passes: Number) -> Estimate:
    """Add passes of a draft model, and its memory, to a pass of its target; activations are those of one at a time."""
    return replace(
        step,
        **{name: getattr(step, name) + passes * getattr(draft_step, name) for name in TIME_FIELDS},
        terms={name: value + passes * draft_step.terms[name] for name, value in step.terms.items()},
        lost={name: value + passes * draft_step.lost[name] for name, value in step.lost.items()},
        memory=Memory(
            weights=step.memory.weights + draft_step.memory.weights,
            cache=step.memory.cache + draft_step.memory.cache,
            activations=maximum(step.memory.activations, draft_step.memory.activations),
            capacity=step.memory.capacity,
        ),
    )


def _joined(results: list[Estimate], shape: tuple[int, ...], layout: Layout) -> Estimate:
    """Put chunks together again."""

    def join(values: list[Number]) -> Number:
        return put_together(values, shape)

    first = results[0]
    fields = (*TIME_FIELDS, "tokens", "gpus", "micro_batches")
    return replace(
        first,
        **{name: join([getattr(r, name) for r in results]) for name in fields},
        terms={name: join([r.terms[name] for r in results]) for name in TERMS},
        lost={name: join([r.lost[name] for r in results]) for name in first.lost},
        busy={name: join([r.busy[name] for r in results]) for name in first.busy},
        memory=Memory(
            weights=join([r.memory.weights for r in results]),
            cache=join([r.memory.cache for r in results]),
            activations=join([r.memory.activations for r in results]),
            capacity=first.memory.capacity,
        ),
        layout=layout,
    )
