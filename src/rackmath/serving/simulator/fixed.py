"""What is fixed for a run: policies, sizes and times of one kind of replica, as the compiled loop reads them."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

F = NDArray[np.float64]
I8 = NDArray[np.int64]
B1 = NDArray[np.bool_]

CHUNKED, PREFILL_FIRST, DECODE_FIRST, STATIC, FIXED_INTERVAL, UNCHUNKED = range(6)
"""How a replica mixes prompts and answers."""
RECOMPUTE, SWAP, RESERVE, RETRACT = range(4)
"""Where answers outgrow the memory: the youngest is read again, or waits on the host; none do; the shortest is read."""
LRU, LFU, TTL = range(3)
"""What a full prefix cache gives up: the longest unused block, the least used; or all that are unused for a time."""
ROUND_ROBIN, LEAST_LOADED, TWO_CHOICES, PREFIX_AWARE, DYNAMO, LLM_D = range(6)
"""Where a request goes."""
NONE = -1
NEW_TOKEN_RATIO = 0.7
"""Part of its rest that an answer will have, as a replica that retracts assumes first. [1]"""


class RunConstants(NamedTuple):
    """What does not change during a run, for one kind of replica."""

    policy: int
    preemption: int
    max_num_batched_tokens: int
    """Tokens of one step. [tokens]"""
    max_num_seqs: int
    """Sequences in work at most."""
    queue_limit: int
    """Requests that wait for a place at most; ``NONE`` for as many as come."""
    block: int
    """Tokens of a block of the cache. [tokens]"""
    blocks: int
    """Of a replica."""
    classes: int
    """Of requests: priorities, or those who are to be served alike."""
    fair: bool
    """Whether the class that was served least is next; else the most urgent one."""
    weights: F
    """Service of a class relative to others where it is fair. (classes,)"""
    base: F
    slope: F
    """A decode step of B sequences that attend to S tokens takes base[B] + slope[B] S.

    (max_num_seqs + 1,) [s], [s/token]
    """
    prompt: F
    """Work of so many prompt tokens in one step, attention left out. (max_num_batched_tokens + 1,) [s]"""
    pair: float
    """Attention of one prompt token to one other. [s]"""
    share: float
    """Part of a prompt's work that decode steps beside it wait for. [1]"""
    turns: int
    """Micro-batches of a pipeline that wait for each other's prompts, each a replica."""
    start: F
    """Time in which the host starts a step of so many tokens that reads prompts. (max_num_batched_tokens + 1,) [s]"""
    images: float
    """Encoding the images of a request, before the step that reads the first piece of its prompt. [s]"""
    verified: int
    """Tokens that a decode step works on for each sequence: 1 and the drafted ones. [tokens]"""
    ahead: bool
    """Whether a step is scheduled when the one before begins."""
    looks: int
    """Decode steps between two looks at new requests."""
    period: float
    """Of the train. [s]"""
    swap: float
    """Moving one block to the host or back. [s]"""
    overlapped: bool
    """Whether blocks from lower tiers arrive beside other work; else the step waits."""
    eviction: int
    capacity: I8
    """Blocks of each prefix tier, by speed. (tiers,)"""
    load: F
    """Bringing one prefix block back, by tier. (tiers,) [s]"""
    latency: F
    """(tiers,) [s]"""
    common: B1
    pooled: bool
    """Whether all replicas have a tier in common, (tiers,), and whether there is any such."""
    lifetime: float
    """Of unused blocks under TTL. [s]"""
    through: bool
    """Whether blocks are written to all tiers at once; else to the next one when they are evicted."""
    prefix: int
    """Tokens of a prefix block. [tokens]"""
    shared: bool
    """Whether the fastest tier is what running requests leave of the cache, whose blocks they share."""
    per: int
    """Blocks of the cache that one prefix block takes there."""


Kinds: TypeAlias = Any
"""A tuple of what is fixed, one for each kind of replica."""
