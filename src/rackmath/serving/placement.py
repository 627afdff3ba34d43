"""Which accelerator holds which experts of a layer, with copies where their number does not divide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.expert_load import packed, redundant_experts, replicated
from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Experts of one layer on the ranks of expert parallelism."""

    held: NDArray[np.int64]
    """Expert in each place: (ranks, places)."""
    copies: NDArray[np.int64]
    """Ranks that hold each expert: (experts,)."""
    popularity: NDArray[np.float64] | None = None
    """Chance that a token goes to each expert: (experts,). None where all are chosen equally often."""

    @property
    def load(self) -> NDArray[np.float64]:
        """Tokens of each rank over the mean: (ranks,). Copies share theirs."""
        per_copy = (np.ones(len(self.copies)) if self.popularity is None else self.popularity) / self.copies
        tokens = per_copy[self.held].sum(axis=1)
        return tokens / tokens.mean()

    @property
    def redundant(self) -> int:
        """Places beyond one for each expert. [experts]"""
        return self.held.size - len(self.copies)


def place(experts: int, ranks: int, redundant: int | None = None) -> Placement:
    """Experts dealt to ranks so that all hold equally many, none twice, and the heaviest has as few tokens as possible.

    Parameters
    ----------
    experts : int
        Routed experts of one layer.
    ranks : int
        Accelerators that share them.
    redundant : int or None
        Copies beyond one for each; by default the fewest that fill every rank equally. Nothing is known of which
        experts are popular: among equals as many as possible have a copy, and they are the first.

    Errors: :class:`InputError` for numbers below one, copies that leave ranks unequal, and more places on a rank than
    experts.
    """
    for name, number in (("experts", experts), ("ranks", ranks)):
        if number < 1:
            raise InputError(name, number, "write an integer of at least 1")
    least = redundant_experts(experts, ranks)
    redundant = least if redundant is None else redundant
    total = experts + redundant
    if redundant < 0 or total % ranks:
        raise InputError("redundant", redundant, f"write {least}, or {ranks} more at a time, to fill all ranks equally")
    if total > experts * ranks:
        raise InputError("redundant", redundant, f"write at most {experts * (ranks - 1)}: every rank has them all then")
    placements = (
        _deal(experts, ranks, redundant, copied_experts)
        for copied_experts in reversed(_numbers_copied(experts, ranks, redundant))
    )
    return min(placements, key=lambda placement: round(float(placement.load.max()), 9))


def place_by_load(popularity: NDArray[np.float64], ranks: int, redundant: int | None = None) -> Placement:
    """Experts with copies of those that most tokens want, packed so that ranks have as equal loads as they can.

    Parameters
    ----------
    popularity : array
        Chance that a token goes to each expert. (experts,)
    redundant : int or None
        Copies; more where they do not divide.

    Source: DeepSeek's EPLB.
    """
    copies = replicated(popularity, redundant_experts(len(popularity), ranks, redundant or 0))
    return Placement(held=packed(popularity, copies, ranks), copies=copies, popularity=popularity)


def _numbers_copied(experts: int, ranks: int, redundant: int) -> range:
    """How many experts may have copies: no rank holds one twice."""
    if not redundant:
        return range(1)
    return range(-(-redundant // (ranks - 1)), min(redundant, experts) + 1)


def _deal(experts: int, ranks: int, redundant: int, copied_experts: int) -> Placement:
    """The first experts have the copies. What carries most tokens is dealt first, in turn, single experts in runs."""
    copies = np.ones(experts, dtype=np.int64)
    if copied_experts:
        per_expert, more = divmod(redundant, copied_experts)
        copies[:copied_experts] += per_expert
        copies[:more] += 1
    order = np.argsort(copies, kind="stable")
    places = np.repeat(order, copies[order])
    rank = np.arange(len(places)) % ranks
    single = experts - copied_experts
    # Runs, as engines deal them; each rank keeps as many.
    rank[:single] = np.sort(rank[:single])
    return Placement(held=places[np.argsort(rank, kind="stable")].reshape(ranks, -1), copies=copies)
