"""Time of one decode or prefill pass, what binds it, and what it needs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.communication import communication
from rackmath.engine.efficiency import Efficiency, ideal
from rackmath.engine.layout import Layout, as_floats, expert_count
from rackmath.engine.roofline import TERMS, held_sequences, local_pass, spent, timed_operators
from rackmath.engine.sharding import Memory, memory
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.models.operators import PHASES

CHUNK = 16_384
"""Points that are evaluated together: small enough for the cache of a core."""

_WORKERS = 2


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
    memory: Memory
    tokens: Number
    """Tokens that the pass produces (decode) or takes in (prefill). [tokens]"""
    gpus: Number
    layout: Layout
    efficiency: Efficiency
    assumptions: tuple[str, ...] = ()

    @property
    def bound_by(self) -> NDArray[np.str_] | str:
        """Term that takes most of the time."""
        stacked = np.stack(np.broadcast_arrays(*(self.terms[name] for name in TERMS)))
        best = np.array(TERMS)[np.argmax(stacked, axis=0)]
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
    cached: Number = 0,
    absorbed: bool | None = None,
    efficiency: Efficiency | None = None,
    threads: bool = True,
) -> Estimate:
    """Estimate one forward pass.

    Parameters
    ----------
    architecture, system, layout
        What is computed, on what, spread how. The widths of the layout broadcast.
    batch : Number
        Sequences of the whole deployment. [sequences]
    context : Number
        Decode: tokens that each new token sees. Prefill: tokens of the prompt. [tokens]
    phase : str
        decode (one new token per sequence) or prefill (all but ``cached`` tokens).
    cached : Number
        Prefill only: tokens of the prompt whose cache is there already. [tokens]
    absorbed : bool, optional
        Form of latent attention; by default absorbed in decode, naive in prefill.
    efficiency : Efficiency, optional
        Factor from the bound to real systems; by default the bound itself.
    threads : bool
        Whether large grids are spread over two threads.

    Returns
    -------
    Estimate
        Scalars for scalar inputs, else arrays of the broadcast shape.

    Errors: :class:`~rackmath.errors.InputError` for numbers out of range,
    :class:`~rackmath.errors.DoesNotFit` where accelerators have no network.
    """
    _check(phase, batch, context, cached)
    system.require_network(int(np.max(layout.gpus)))
    point = {
        "batch": batch,
        "context": context,
        "cached": cached,
        **{name: getattr(layout, name) for name in ("tensor", "expert", "pipeline", "data")},
    }
    shape = np.broadcast_shapes(*(np.shape(value) for value in point.values()))
    call = _Call(architecture, system, phase, absorbed, efficiency or ideal())
    size = int(np.prod(shape))
    if size <= CHUNK:
        return call.evaluate({k: _scalar_or_array(v) for k, v in point.items()})
    flat = {
        k: v if np.ndim(v) == 0 else np.broadcast_to(np.asarray(v, dtype=float), shape).reshape(-1)
        for k, v in point.items()
    }
    pieces = [
        {k: v if np.ndim(v) == 0 else np.asarray(v)[start : start + CHUNK] for k, v in flat.items()}
        for start in range(0, size, CHUNK)
    ]
    if threads:
        with ThreadPoolExecutor(_WORKERS) as pool:
            results = list(pool.map(call.evaluate, pieces))
    else:
        results = [call.evaluate(piece) for piece in pieces]
    return _joined(results, shape, layout)


@dataclass(frozen=True, slots=True)
class _Call:
    """What stays the same over all points of one call."""

    architecture: Architecture
    system: System
    phase: str
    absorbed: bool | None
    efficiency: Efficiency

    def evaluate(self, point: Mapping[str, Number]) -> Estimate:
        """Evaluate one cache-sized set of points."""
        layout = as_floats(
            Layout(tensor=point["tensor"], expert=point["expert"], pipeline=point["pipeline"], data=point["data"])
        )
        batch, context = point["batch"] * 1.0, point["context"] * 1.0
        held = held_sequences(batch, layout)
        work = local_pass(self.phase, batch, context, point["cached"] * 1.0, layout, self.absorbed)
        new, tokens = work.new_tokens, work.tokens
        a, chip = self.architecture, self.system.chip
        split = spent(timed_operators(a, work, layout, self.system))
        sampled = work.sequences * (new if self.phase == "decode" else 1.0)
        exchange = communication(a, layout, self.system, tokens, sampled).total
        passes = self._passes(held, layout)
        terms = {name: passes * value for name, value in split.terms.items()}
        terms["communication"] = passes * exchange
        total = sum(terms.values(), 0.0)
        overlapped = passes * maximum(maximum(split.compute, split.traffic), exchange)
        e = self.efficiency
        return Estimate(
            time=total * e.mid,
            time_low=total * e.low,
            time_high=total * e.high,
            time_ideal=total,
            time_overlapped=overlapped,
            terms=terms,
            memory=memory(a, layout, held, context, tokens, chip.memory_capacity),
            tokens=batch * new,
            gpus=layout.gpus,
            layout=layout,
            efficiency=e,
            assumptions=_assumptions(a, self.system, self.phase, self.absorbed),
        )

    def _passes(self, held: Number, layout: Layout) -> Number:
        """Passes through all stages per result: 1 in decode, the pipeline's fill in prefill.

        A prefill of m micro-batches through P stages ends after m + P - 1 stage times,
        each of 1/P of a pass.
        """
        if self.phase == "decode":
            return 1.0
        microbatches = minimum(held, layout.pipeline)
        return (microbatches + layout.pipeline - 1) / layout.pipeline


def _assumptions(a: Architecture, system: System, phase: str, absorbed: bool | None) -> tuple[str, ...]:
    notes = [f"{entry} (absent from the config)" for entry in a.defaulted]
    if a.not_understood:
        notes.append("not understood and left out: " + ", ".join(a.not_understood))
    formats = {f for layer, _ in a.groups for _, f in layer.formats} | {a.format}
    for precision in sorted({f.compute for f in formats}):
        actual = system.chip.runs_at(precision)
        if actual != precision:
            notes.append(f"{precision} weights are multiplied at {actual}: {system.chip.name} has no {precision} rate")
    if absorbed is not None:
        notes.append(f"latent attention {'absorbed' if absorbed else 'naive'} by request in {phase}")
    if expert_count(a):
        notes.append("tokens choose experts independently and evenly")
    return tuple(notes)


def _scalar_or_array(value: Number) -> Number:
    return np.asarray(value, dtype=float) if np.ndim(value) else float(value)


def _joined(results: list[Estimate], shape: tuple[int, ...], layout: Layout) -> Estimate:
    """Put chunks together again."""

    def join(pieces: list[Number]) -> Number:
        sizes = [np.size(r.time) for r in results]
        arrays = [np.broadcast_to(np.asarray(p, dtype=float), (n,)) for p, n in zip(pieces, sizes, strict=True)]
        return np.concatenate(arrays).reshape(shape)

    first = results[0]
    fields = ("time", "time_low", "time_high", "time_ideal", "time_overlapped", "tokens", "gpus")
    return replace(
        first,
        **{name: join([getattr(r, name) for r in results]) for name in fields},
        terms={name: join([r.terms[name] for r in results]) for name in TERMS},
        memory=Memory(
            weights=join([r.memory.weights for r in results]),
            cache=join([r.memory.cache for r in results]),
            activations=join([r.memory.activations for r in results]),
            capacity=first.memory.capacity,
        ),
        layout=layout,
    )


def _check(phase: str, batch: Number, context: Number, cached: Number) -> None:
    if phase not in PHASES:
        raise InputError("phase", phase, f"use one of {', '.join(PHASES)}")
    for field, value, low, high in (
        ("batch", batch, 1, 1e9),
        ("context", context, 0 if phase == "decode" else 1, 1e12),
        ("cached", cached, 0, 1e12),
    ):
        smallest, largest = float(np.min(value)), float(np.max(value))
        if not isfinite(smallest) or not isfinite(largest) or smallest < low or largest > high:
            wrong = largest if largest > high or not isfinite(largest) else smallest
            raise InputError(field, wrong, f"write a number from {low} to {high:g}")
    if phase == "decode" and float(np.max(cached)) > 0:
        raise InputError("cached", float(np.max(cached)), "a cached prefix belongs to prefill; decode has context")
    if phase == "prefill" and bool(np.any(np.asarray(cached) >= np.asarray(context))):
        raise InputError("cached", float(np.max(cached)), "must be smaller than the prompt")
