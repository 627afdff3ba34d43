"""Kinds of replicas in one fleet: what is fixed for each, and how many requests it takes beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import DoesNotFit, InputError
from rackmath.serving.simulator.fixed import NONE, RETRACT, RunConstants
from rackmath.serving.simulator.settings import EVICTIONS, POLICIES, PREEMPTIONS, Batching, PrefixCache, Tier
from rackmath.serving.simulator.state import Replicas, Requests
from rackmath.serving.simulator.times import StepTimes
from rackmath.serving.simulator.workload import Arrivals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicaKind:
    """Equal replicas."""

    times: StepTimes
    batching: Batching
    """Its sequences, tokens of a step, memory and period may differ from other kinds; the rest is the fleet's."""
    replicas: int
    kv_bytes: float = 0.0
    """Cache of one token. [B/token]"""
    service: int = 0
    """What it serves: requests of this service, and no others."""


def check(kinds: Sequence[ReplicaKind], work: Arrivals, q: Requests, constants: Sequence[RunConstants]) -> None:
    """Refuse kinds that cannot be one fleet, services that nobody gives, requests that no replica holds.

    Errors: :class:`InputError`, :class:`DoesNotFit`.
    """
    batching = kinds[0].batching
    for later in kinds[1:]:
        for name in ("policy", "preemption", "block", "ahead", "draft_tokens", "acceptance"):
            if getattr(later.batching, name) != getattr(batching, name):
                raise InputError(name, getattr(later.batching, name), "kinds of replicas differ in size and speed only")
    offers = {kind.service for kind in kinds}
    services = {0} if work.service is None else set(np.unique(work.service).tolist())
    if services - offers:
        raise InputError("service", min(services - offers), "no replica serves such requests")
    tokens = q["prompt"] + q["steps"] * q["growth"]
    for kind, f in zip(kinds, constants, strict=True):
        places = np.flatnonzero(q["service"] == kind.service)
        if not len(places):
            continue
        # A replica that retracts admits nobody whose whole answer and a page do not fit beside the prompt's pages.
        spare = 2 * f.block + 1 if f.preemption == RETRACT else f.block
        longest = np.ceil((tokens[places] + spare) / f.block).astype(np.int64)
        at = int(longest.argmax())
        if longest[at] > f.blocks:
            raise DoesNotFit(
                f"request {places[at] + 1} of {ceil(tokens[places[at]]):,} tokens in a cache of {f.blocks * f.block:,}",
                "give the model more accelerators, or leave such requests out",
            )


def fixed_of(kind: ReplicaKind, work: Arrivals, cache: PrefixCache) -> RunConstants:
    """Numbers and tables of one kind, as the compiled loop reads them."""
    times, batching, size = kind.times, kind.batching, work.block * kind.kv_bytes
    tiers = cache.tiers if len(work.start) else ()
    classes = int(work.rank.max()) + 1
    if batching.class_weights and len(batching.class_weights) != classes:
        raise InputError("--class-weights", batching.class_weights, f"write {classes} numbers, one for each class")
    is_shared = bool(tiers) and tiers[0].shared
    if is_shared and work.block % batching.block:
        raise InputError("--prefix-block", work.block, f"write a multiple of --block-size {batching.block}")
    return RunConstants(
        policy=POLICIES[batching.policy],
        preemption=PREEMPTIONS[batching.preemption],
        max_num_batched_tokens=batching.max_num_batched_tokens,
        max_num_seqs=batching.max_num_seqs,
        queue_limit=NONE if batching.queue_limit is None else batching.queue_limit,
        block=batching.block,
        blocks=batching.memory // batching.block,
        classes=classes,
        fair=batching.scheduling == "vtc",
        weights=np.ones(classes) if not batching.class_weights else np.array(batching.class_weights, dtype=float),
        base=times.base,
        slope=times.slope,
        prompt=times.prompt,
        pair=times.pair,
        share=batching.share,
        turns=times.turns,
        start=np.where(
            np.arange(batching.max_num_batched_tokens + 1) <= batching.captured, batching.start_captured, batching.start
        ).astype(float),
        images=times.images,
        verified=1 + batching.draft_tokens,
        ahead=batching.ahead,
        looks=batching.looks,
        period=batching.period,
        swap=batching.block * kind.kv_bytes / batching.host,
        overlapped=cache.overlapped,
        eviction=EVICTIONS[cache.eviction],
        capacity=np.array([min(_room(t, size), 2.0**62) for t in tiers], dtype=np.int64),
        load=np.array([size / t.bandwidth for t in tiers], dtype=float),
        latency=np.array([t.latency for t in tiers], dtype=float),
        common=np.array([t.common for t in tiers], dtype=np.bool_),
        pooled=any(t.common for t in tiers),
        lifetime=cache.lifetime,
        through=cache.through,
        prefix=work.block,
        shared=is_shared,
        per=work.block // batching.block,
    )


def _room(tier: Tier, size: float) -> float:
    return inf if not isfinite(tier.capacity) or size == 0 else tier.capacity // size


def mark(s: Replicas, kinds: Sequence[ReplicaKind], mean: float) -> None:
    """Write to replicas what they serve, how much of it they take beside others, and whose micro-batches they are.

    A replica that writes twice as fast, full of requests of ``mean`` tokens, counts a request for half: routers that
    look at loads send it twice as many.
    """
    speeds = [kind.batching.max_num_seqs / _full(kind, mean) for kind in kinds]
    of = s.own["kind"]
    s.own["service"] = np.array([kind.service for kind in kinds])[of]
    s.own["weight"] = np.array([speed / speeds[0] for speed in speeds])[of]
    for number, kind in enumerate(kinds):
        places = np.flatnonzero(of == number)
        s.own["ring"][places] = places[np.arange(len(places)) // kind.times.turns * kind.times.turns]


def _full(kind: ReplicaKind, mean: float) -> float:
    max_num_seqs = kind.batching.max_num_seqs
    step = float(kind.times.base[max_num_seqs] + kind.times.slope[max_num_seqs] * max_num_seqs * mean)
    # Tables without decoding, as of readers alone, are told apart by their prompts.
    return step if step > 0 else float(kind.times.prompt[-1]) or 1.0


def members(kinds: Sequence[ReplicaKind], most: int) -> NDArray[np.int32]:
    """Kind of every replica: kind by kind, then those of the first that may be started, up to ``most`` in all."""
    kind_of = np.repeat(np.arange(len(kinds), dtype=np.int32), [kind.replicas for kind in kinds])
    return np.concatenate((kind_of, np.zeros(most - len(kind_of), np.int32)))
