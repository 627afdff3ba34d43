"""Arrays that the compiled loop works on: requests, replicas, prefix caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.fixed import NEW_TOKEN_RATIO, NONE, RunConstants

F = NDArray[np.float64]
I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
B1 = NDArray[np.bool_]

Requests: TypeAlias = Any
"""One record per request, in the order of arrival: a structured array, read by attribute where code is compiled."""

REQUEST = np.dtype(
    [
        ("arrival", "f8"),
        ("prompt", "i4"),
        # Decode steps that its answer takes after the first token, and tokens that one of them yields.
        ("steps", "i4"),
        ("growth", "f8"),
        # Priority class; 0 first.
        ("rank", "i4"),
        # What it asks for: only replicas of the same service take it.
        ("service", "i4"),
        # Edges of the graph that it waits for still; whether others wait for its end.
        ("awaits", "i4"),
        ("precedes", "b1"),
        # Where its prefix blocks stand among the ids: those of its prompt, then those that its answer fills.
        ("start", "i8"),
        ("stop", "i8"),
        ("last", "i8"),
        # Prompt tokens that are not read yet.
        ("todo", "i4"),
        # Tokens in its cache, and decode steps left, both as of the iteration at which it began to decode.
        ("stored", "f8"),
        ("left", "i4"),
        ("entered", "i8"),
        # Unread tokens as its router sees it; blocks of the cache of its own, and prefix blocks that it shares.
        ("unread", "i4"),
        ("held", "i4"),
        ("pinned", "i4"),
        # When blocks from lower tiers have come.
        ("ready", "f8"),
        # Neighbours in a queue, or in the order of running ones.
        ("after", "i4"),
        ("before", "i4"),
        # What became of it: times, replica, tokens found in the prefix cache, times that it lost its place.
        ("admitted", "f8"),
        ("first", "f8"),
        ("finish", "f8"),
        # When it was refused, instead of all that.
        ("refused", "f8"),
        ("place", "i4"),
        ("hit", "i4"),
        ("dropped", "i4"),
    ],
    align=True,
)
"""Times in seconds."""

REPLICA = np.dtype(
    [
        ("clock", "f8"),
        # Beginning of the last step.
        ("began", "f8"),
        # Tokens that the next decode step attends to, and what a step adds to them.
        ("attended", "f8"),
        ("grows", "f8"),
        ("iteration", "i8"),
        ("running", "i4"),
        ("reading", "i4"),
        ("waiting", "i4"),
        # As its router sees it: unread tokens of prompts, blocks of the prompts of all that it holds.
        ("unread", "i8"),
        ("prompts", "i8"),
        # Seats that a static batch began with.
        ("width", "i4"),
        # Blocks of the cache.
        ("free", "i8"),
        # Of replicas that retract: nobody else had room; somebody has left since the last decode step; part of the
        # rests of answers that is taken to be written, and from which iteration on it declines.
        ("full", "b1"),
        ("departure", "b1"),
        ("ratio", "f8"),
        ("declines", "i8"),
        # Of replicas that do not look at new requests before each step: the last look, and decode steps since.
        ("looked", "f8"),
        ("skipped", "i4"),
        # Time that the next step loses to loads and swaps.
        ("stall", "f8"),
        ("busy", "f8"),
        # Written so far.
        ("tokens", "f8"),
        # Integrals over time of the running ones and of the blocks in use.
        ("batch", "f8"),
        ("kept", "f8"),
        # Class of the request that was admitted last.
        ("last", "i4"),
        # Which of the kinds it is, what it serves, requests that it takes relative to others of its service.
        ("kind", "i4"),
        ("service", "i4"),
        ("weight", "f8"),
        # First of the micro-batches of its pipeline, itself where it has none; turns in the present round
        # that pieces of its long prompt have taken; the end of the last pass of the pipeline that read prompts.
        ("ring", "i4"),
        ("turn", "i4"),
        ("behind", "f8"),
        # Of the step that it is in: requests that end with it, tokens of prompts that it reads to their end, blocks of
        # prompts of those requests, and blocks that are free when it has ended.
        ("ended", "i4"),
        ("ended_unread", "i8"),
        ("ended_prompts", "i8"),
        ("ended_blocks", "i8"),
        ("up", "b1"),
    ],
    align=True,
)
"""Times in seconds."""


class Edges(NamedTuple):
    """Which requests are sent after which, as in :class:`rackmath.serving.simulator.graph.Graph`."""

    start: I8
    """(requests + 1,)"""
    to: I4
    """(edges,)"""
    delay: F
    """With what passes outside of the engine before an end is seen. (edges,) [s]"""
    dispatch: B1
    """(edges,)"""


class Replicas(NamedTuple):
    """Replicas, and what each of them works on; queues are linked through the requests."""

    own: Any
    """One record per replica."""
    queue: I4
    """First and last of each class that waits. (replicas, classes, 2)"""
    order: I4
    """First and last of each class that decodes, by admission. (replicas, classes, 2)"""
    prompts: I4
    """Those whose prompts are being read, in their order. (replicas, max_num_seqs)"""
    ends: I8
    """Heap of the iterations at which running ones end. (replicas, max_num_seqs)"""
    who: I4
    """Whose they are. (replicas, max_num_seqs)"""
    phase: I8
    """Running ones by the iteration, modulo the block, at which they need a block more. (replicas, block)"""
    served: F
    """Virtual token counters. (replicas, classes)"""
    growing: F
    """Tokens that a decode step adds. (replicas, classes)"""
    done: I4
    """Requests that ended and that others wait for, until they are fetched. (requests,)"""
    ended: I8
    """How many those are. (1,)"""


LINK = np.dtype([("after", "i4"), ("before", "i4"), ("inside", "b1")], align=True)
"""Neighbours of a block in a tier by last use, and whether the tier has it."""
USE = np.dtype(
    [
        # Last use. [s]
        ("used", "f8"),
        ("times", "i4"),
        # Requests that use the block now, where the fastest tier is shared.
        ("pins", "i4"),
    ],
    align=True,
)
"""What a replica knows of a block, whichever tier has it."""
SHELF = np.dtype(
    [
        ("newest", "i4"),
        ("oldest", "i4"),
        # Blocks held; of a shared tier those that nobody uses now.
        ("size", "i8"),
        # Integral of the blocks held over time, and until when it is counted. [s]
        ("area", "f8"),
        ("since", "f8"),
    ],
    align=True,
)
"""Ends of a tier's list, and how much it holds."""


class PrefixCaches(NamedTuple):
    """Prefix caches of all replicas, linked lists by last use, newest first."""

    links: Any
    """Of ``LINK``; the last row is of tiers that all replicas have in common, if any. (rows, tiers, blocks)"""
    uses: Any
    """Of ``USE``. (rows, blocks)"""
    shelves: Any
    """Of ``SHELF``. (rows, tiers)"""
    ids: I4
    """Blocks of all requests, each known by its place. (references,)"""
    lookups: I8
    """References and hits: all blocks asked for, then those found by tier. (1 + tiers,)"""
    hit_blocks: I4
    """Blocks that each request found, by tier; of the last time that it was read. (requests, tiers)"""


def replicas(kind: I4, kinds: Sequence[RunConstants], chain_count: int) -> Replicas:
    """Idle replicas of given kinds with empty caches; others wait for ``chain_count`` requests at most."""
    count = len(kind)
    own_facts = np.zeros(count, REPLICA)
    own_facts["kind"], own_facts["weight"], own_facts["up"] = kind, 1.0, True
    own_facts["free"] = np.array([kind.blocks for kind in kinds])[kind]
    own_facts["ratio"], own_facts["last"] = NEW_TOKEN_RATIO, NONE
    max_num_seqs, classes, block = (
        max(getattr(kind, name) for kind in kinds) for name in ("max_num_seqs", "classes", "block")
    )
    return Replicas(
        own=own_facts,
        queue=np.full((count, classes, 2), NONE, np.int32),
        order=np.full((count, classes, 2), NONE, np.int32),
        prompts=np.full((count, max_num_seqs), NONE, np.int32),
        ends=np.zeros((count, max_num_seqs), np.int64),
        who=np.full((count, max_num_seqs), NONE, np.int32),
        phase=np.zeros((count, block), np.int64),
        served=np.zeros((count, classes)),
        growing=np.zeros((count, classes)),
        done=np.full(max(chain_count, 1), NONE, np.int32),
        ended=np.zeros(1, np.int64),
    )


def prefixes(count: int, constants: RunConstants, ids: I4, distinct: int, asking: int) -> PrefixCaches:
    """Empty prefix caches for so many distinct blocks and requests; without tiers they take no memory."""
    tiers = len(constants.capacity)
    slots = distinct if tiers else 0
    count += bool(constants.common.any())
    shelves = np.zeros((count, tiers), SHELF)
    shelves["newest"] = shelves["oldest"] = NONE
    return PrefixCaches(
        links=np.zeros((count, tiers, slots), LINK),
        uses=np.zeros((count, slots), USE),
        shelves=shelves,
        ids=ids,
        lookups=np.zeros(1 + tiers, np.int64),
        hit_blocks=np.zeros((asking, tiers), np.int32),
    )


def requests(
    arrival: F, prompt: I4, steps: I4, growth: F, rank: I4, service: I4, awaits: I4, precedes: B1, start: I8,
    answer_blocks: I4,
) -> Requests:  # fmt: skip
    """Requests that nothing has happened to yet.

    Parameters
    ----------
    start : array
        Where the blocks of each begin. (requests + 1,)
    answer_blocks : array
        The last so many of them are filled by its answer. (requests,)
    """
    table = np.zeros(len(arrival), REQUEST)
    for name, values in (
        ("arrival", arrival), ("prompt", prompt), ("steps", steps), ("growth", growth), ("rank", rank),
        ("service", service), ("awaits", awaits), ("precedes", precedes),
        ("start", start[:-1]), ("stop", start[1:] - answer_blocks), ("last", start[1:]),
        ("todo", prompt), ("left", steps),
    ):  # fmt: skip
        table[name] = values
    for name in ("admitted", "first", "finish", "refused"):
        table[name] = np.nan
    for name in ("after", "before", "place"):
        table[name] = NONE
    return table
