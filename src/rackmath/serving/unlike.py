"""Layers dealt to unlike accelerators of one machine: by memory, as llama.cpp does unasked, or by speed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLoad:
    """One accelerator, and what each layer of a model takes on it."""

    room: float
    """Memory for weights and cache. [B]"""
    times: tuple[float, ...]
    """Of each layer, in order. [s]"""
    outside: float
    """Of what stands outside of layers, head and host's work among it; the last accelerator does it. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """What layers hold."""

    layers: tuple[float, ...]
    """Weights and cache of each. [B]"""
    outside: float
    """Head, embedding and activations, on the last accelerator. [B]"""


def held(sizes: LayerSizes, counts: Sequence[int]) -> list[float]:
    """Bytes on each accelerator that has so many consecutive layers. [B]"""
    ends = list(accumulate(counts))
    total = [sum(sizes.layers[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    total[_last(counts)] += sizes.outside
    return total


def seconds(cards: Sequence[CardLoad], counts: Sequence[int]) -> list[float]:
    """Time of a pass on each accelerator; they work one after the other. [s]"""
    ends = list(accumulate(counts))
    times = [sum(c.times[end - n : end]) for c, end, n in zip(cards, ends, counts, strict=True)]
    times[_last(counts)] += cards[_last(counts)].outside
    return times


def fits(cards: Sequence[CardLoad], sizes: LayerSizes, counts: Sequence[int]) -> bool:
    """Whether every accelerator has room for its layers."""
    return all(bytes_ <= card.room for card, bytes_ in zip(cards, held(sizes, counts), strict=True))


def by_memory(cards: Sequence[CardLoad], sizes: LayerSizes) -> list[int]:
    """Layers of each accelerator in proportion to its memory.

    Layer i of L goes to the first accelerator whose share of the memory, with those before it, is above i / (L + 1).
    Source: llama.cpp, ``llama_model::load_tensors``, with all layers offloaded and no ``--tensor-split``.
    """
    return by_shares([card.room for card in cards], len(sizes.layers))


def by_shares(shares: Sequence[float], layers: int) -> list[int]:
    """Layers of each accelerator as llama.cpp deals them by these shares, ``--tensor-split`` or memories."""
    total = sum(shares)
    ends = [end / total for end in accumulate(shares)]
    ends[-1] = inf
    counts = [0] * len(shares)
    for layer in range(layers):
        counts[bisect_right(ends, layer / (layers + 1))] += 1
    return counts


def tensor_split(counts: Sequence[int]) -> list[int]:
    """Shares by which :func:`by_shares` deals these layers: the last accelerator has the output beside its own."""
    shares = list(counts)
    shares[_last(counts)] += 1
    return shares


def by_speed(cards: Sequence[CardLoad], sizes: LayerSizes) -> list[int] | None:
    """Layers of each accelerator, in the order of the accelerators, with the least time of a pass; None if none fits.

    Exact, over all numbers of consecutive layers: the best of the first c accelerators with the first l layers, and
    of each accelerator as the last.
    """
    layers = len(sizes.layers)
    answer: tuple[float, tuple[int, ...]] = (inf, ())
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] + [(inf, ())] * layers
    for place, card in enumerate(cards):
        times = [0.0, *accumulate(card.times)]
        after: list[tuple[float, tuple[int, ...]]] = [(inf, ())] * (layers + 1)
        for begin, (cost, counts) in enumerate(best):
            if cost == inf:
                continue
            # Bytes are added as in ``held``, so that what fills a memory to the last unit fits both ways.
            sums = [0.0, *accumulate(sizes.layers[begin:])]
            whole = sums[-1] + sizes.outside
            total = cost + times[layers] - times[begin] + card.outside
            if begin < layers and whole <= card.room and total < answer[0]:
                answer = (total, (*counts, layers - begin, *[0] * (len(cards) - place - 1)))
            for end in range(begin, layers + 1):
                if sums[end - begin] > card.room:
                    break
                total = cost + times[end] - times[begin]
                if total < after[end][0]:
                    after[end] = (total, (*counts, end - begin))
        best = after
    return list(answer[1]) or None


def prompt_time(stages: Sequence[float], pieces: int) -> float:
    r"""Time of a prompt that goes through the accelerators in pieces, which follow each other. [s]

    .. math:: t = \max_i s_i + \frac{\sum_i s_i - \max_i s_i}{m}
    """
    longest = max(stages)
    return longest + (sum(stages) - longest) / max(pieces, 1)


def _last(counts: Sequence[int]) -> int:
    """Place of the accelerator with the last layer."""
    return max(place for place, count in enumerate(counts) if count)
