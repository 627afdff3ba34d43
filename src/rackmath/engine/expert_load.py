"""Experts of unlike popularity on the ranks of expert parallelism: the rank that everybody waits for."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.layout import Layout
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.numbers import Number
from rackmath.models.routing import GRID, Routing, interpolated, touched

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDERS = 16
"""Orders of experts that are drawn where nobody says which ones are popular."""


class RankShares(NamedTuple):
    """What the fullest rank has of the experts of a layer, the mean over layers; numbers broadcast."""

    tokens: Number
    """Part of the tokens. [1]"""
    touched: Number
    """Part of the distinct experts that are touched. [1]"""


def rank_shares(architecture: Architecture, experts: int, layout: Layout, tokens: Number) -> RankShares:
    """Shares of the fullest rank, among which every expert is whole.

    Parameters
    ----------
    experts : int
        Routed experts of a layer of a model with routing.
    tokens : Number
        Tokens that meet the experts. [tokens]
    """
    routing = architecture.routing or Routing()
    active = _active(architecture, experts)
    ranks = np.asarray(layout.expert, dtype=float)
    of_tokens = np.empty_like(ranks)
    of_touched = np.empty(np.broadcast_shapes(ranks.shape, np.shape(tokens)))
    for width in np.unique(ranks):
        heaviest, curve = _heaviest(routing, experts, active, int(width))
        of_tokens[ranks == width] = heaviest
        here = np.broadcast_to(ranks == width, of_touched.shape)
        of_touched[here] = np.broadcast_to(interpolated(tokens, curve), of_touched.shape)[here]
    return RankShares(
        tokens=float(of_tokens) if of_tokens.ndim == 0 else of_tokens,
        touched=float(of_touched) if of_touched.ndim == 0 else of_touched,
    )


def fullest_rank(routing: Routing, experts: int, active: float, ranks: int) -> float:
    """Part of the tokens of a layer that the fullest rank has, the mean over layers. [1]"""
    return _heaviest(routing, experts, active, ranks)[0]


def redundant_experts(experts: int, ranks: int, least: int = 0) -> int:
    """Fewest copies, as many as are wanted or more, that make the places of experts divide by the ranks. [experts]"""
    return least + -(experts + least) % ranks


def replicated(load: Array, redundant: int) -> Ints:
    """Copies of each expert, each further one to the expert whose copies have most tokens. (experts,)

    Source: DeepSeek's EPLB, ``replicate_experts``.
    """
    copies = np.ones(len(load), dtype=np.int64)
    for _ in range(redundant):
        copies[int(np.argmax(load / copies))] += 1
    return copies


def packed(load: Array, copies: Ints, ranks: int) -> Ints:
    """Expert in each place of each rank: heaviest first to the lightest rank with room. (ranks, places)

    A rank takes an expert twice only where it must. Source: DeepSeek's EPLB, ``balanced_packing``.
    """
    places = int(copies.sum()) // ranks
    order = np.repeat(np.arange(len(load)), copies)
    order = order[np.argsort(-(load / copies)[order], kind="stable")]
    slots = np.full((ranks, places), -1, dtype=np.int64)
    slots_used = np.zeros(ranks, dtype=np.int64)
    weight = np.zeros(ranks)
    for expert in order:
        room = slots_used < places
        has_it = (slots == expert).any(axis=1)
        among = room & ~has_it if (room & ~has_it).any() else room
        rank = int(np.where(among, weight, np.inf).argmin())
        slots[rank, slots_used[rank]] = expert
        slots_used[rank] += 1
        weight[rank] += load[expert] / copies[expert]
    return slots


def heaviest_load(load: Array, placement: Ints, copies: Ints) -> float:
    """Tokens of the fullest rank over the mean; -1 is an empty place. [1]"""
    per_copy = np.append(load / copies, 0.0)
    return float(per_copy[placement].sum(axis=1).max() * len(placement) / load.sum())


def in_order(experts: int, ranks: int) -> Ints:
    """Experts dealt in runs, the last ranks with empty places where they do not divide. (ranks, places)"""
    places = -(-experts // ranks)
    slots = np.full(ranks * places, -1, dtype=np.int64)
    slots[:experts] = np.arange(experts)
    return slots.reshape(ranks, places)


@lru_cache(maxsize=256)
def _heaviest(routing: Routing, experts: int, active: float, ranks: int) -> tuple[float, Array]:
    """Share of tokens of the fullest rank, and its share of touched experts at each size of the grid."""
    if ranks == 1:
        return 1.0, np.ones_like(GRID)
    chances = routing.chances(experts, active)
    layers = [_of_layer(routing, chance, slots) for chance, slots in _placed(routing, chances, ranks)]
    return float(np.mean([share for share, _ in layers])), np.mean([curve for _, curve in layers], axis=0)


def _placed(routing: Routing, chances: Array, ranks: int) -> list[tuple[Array, Ints]]:
    """Chances of experts, and where they lie: by load, in the order that was counted, or in orders that are drawn."""
    experts = chances.shape[1]
    if routing.redundant is not None:
        spare = redundant_experts(experts, ranks, routing.redundant)
        return [(chance, packed(chance, replicated(chance, spare), ranks)) for chance in chances]
    order = in_order(experts, ranks)
    if routing.counts:
        return [(chance, order) for chance in chances]
    draw = np.random.default_rng(0)
    orders: list[Array] = [np.asarray(draw.permutation(chances[0]), dtype=float) for _ in range(_ORDERS)]
    return [(chance, order) for chance in orders]


def _of_layer(routing: Routing, chance: Array, placement: Ints) -> tuple[float, Array]:
    """Shares of the fullest rank in one layer: of tokens, and of touched experts at each size of the grid."""
    ranks = len(placement)
    copies = np.maximum(np.bincount(placement[placement >= 0], minlength=len(chance)), 1)
    tokens = GRID[1:]
    touched_experts = np.vstack([touched(routing, chance / copies, tokens), np.zeros_like(tokens)])
    share = touched_experts[placement].sum(axis=1).max(axis=0) / touched(routing, chance, tokens).sum(axis=0)
    # Without any token the share is that of the fewest.
    return heaviest_load(chance, placement, copies) / ranks, np.concatenate([share[:1], share])


def _active(architecture: Architecture, experts: int) -> float:
    """Experts with weights that a token meets, of a mixture of so many."""
    return next(
        block.expected_active
        for layer, _ in architecture.groups
        for block in layer.feed_forwards
        if isinstance(block, Experts) and block.experts == experts
    )
