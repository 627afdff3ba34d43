"""From tokens per second worldwide to replicas, racks, megawatts, capital and dollars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, exp, lgamma, log, pi

import numpy as np

from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.serving.points import Array

_HOURS = 24
_NIGHT = 0.4
"""Least hour of a day over its mean, where traffic comes from all time zones; an assumption. [1]"""
MOST_TOKENS = 1e12
"""Tokens per second of any plan. [tokens/s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackCost:
    """What a rack costs, as published, with the ends of the range."""

    accelerators: int
    price: tuple[float, float]
    """Of the rack. [USD]"""
    memory_share: tuple[float, float]
    """Part of the price that goes to memory. [1]"""
    host_memory: float
    """Of all hosts in the rack. [B]"""
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DayFleet:
    """A fleet that serves a load all day."""

    replicas: int
    gpus: int
    racks: float
    megawatts: float
    """At full load, cooling included. [MW]"""
    utilisation: float
    """Mean load over capacity. [1]"""
    capital: tuple[float, float] | None
    """[USD]"""
    memory_capital: tuple[float, float] | None
    """Part of it that is memory. [USD]"""
    usd_per_million: float | None
    """Rent of the whole fleet over the tokens it writes. [USD]"""
    hours: Array
    """Load over capacity, by hour. (24,)"""


def memory_price(system: System, bill: RackCost) -> tuple[float, float]:
    """Price of a byte of a rack's memory that a bill implies, HBM and host together. [USD/B]"""
    size = bill.accelerators * system.chip.memory_capacity + bill.host_memory
    low, high = (price * share / size for price, share in zip(bill.price, bill.memory_share, strict=True))
    return low, high


def day(peak_to_mean: float) -> Array:
    r"""Load of each hour over the mean: a raised cosine on what never sleeps, as sharp as the peak asks. (24,)

    .. math:: \varphi + (\rho - \varphi) \left(\frac{1 + \cos t}{2}\right)^k, \qquad \varphi = \max(0.4, 2 - \rho)

    with k such that the mean over the day is 1. Up to a peak of 1.6 this is a plain raised cosine, :math:`\rho = 1` a
    flat day; the least hour of a service that the whole world uses is taken to be 0.4 of the mean.

    Errors: :class:`InputError` for a peak below the mean.
    """
    if not 1 <= peak_to_mean <= 100:
        raise InputError("--peak-to-mean", peak_to_mean, "write a number from 1 to 100")
    night = max(_NIGHT, 2 - peak_to_mean)
    if night >= 1:
        return np.ones(_HOURS)
    low, high = 0.0, 1e5
    for _ in range(200):
        k = (low + high) / 2
        if _mean_of_power(k) * (peak_to_mean - night) > 1 - night:
            low = k
        else:
            high = k
    angles = 2 * np.pi * np.arange(_HOURS) / _HOURS
    shape = night + (peak_to_mean - night) * ((1 + np.cos(angles - np.pi)) / 2) ** ((low + high) / 2)
    # Sampled by the hour, the mean of a broken power is off by a quarter of a per cent.
    return shape / shape.mean()


def _mean_of_power(k: float) -> float:
    """Mean of ((1 + cos t) / 2)^k over a turn: a ratio of gamma functions."""
    return exp(lgamma(k + 0.5) - lgamma(k + 1) - log(pi) / 2)


def fleet(
    system: System,
    *,
    tokens_per_second: float,
    unit_tokens_per_second: float,
    unit_gpus: float,
    peak_to_mean: float,
    headroom: float,
    cooling: float,
    price: float | None,
    bill: RackCost | None,
) -> DayFleet:
    """Size a fleet for its peak.

    Parameters
    ----------
    tokens_per_second : float
        Mean of all users. [tokens/s]
    unit_tokens_per_second, unit_gpus : float
        Of one deployment, from a plan. [tokens/s], [accelerators]
    peak_to_mean, headroom : float
        Daily peak over the mean; capacity over the peak. [1]
    cooling : float
        Power of the data centre over that of accelerators. [1]
    price : float, optional
        Rent of one accelerator. [USD/s]
    bill : RackCost, optional
        What a rack costs.

    Errors: :class:`InputError` for loads and factors out of range.
    """
    for option, value, low, high in (
        ("--tokens-per-second", tokens_per_second, 1e-9, MOST_TOKENS),
        ("--headroom", headroom, 1.0, 100.0),
        ("--cooling", cooling, 1.0, 10.0),
    ):
        if not low <= value <= high:
            raise InputError(option, value, f"write a number from {low:g} to {high:g}")
    hours = day(peak_to_mean)
    replicas = ceil(tokens_per_second * peak_to_mean * headroom / unit_tokens_per_second * (1 - 1e-12))
    gpus = ceil(replicas * unit_gpus)
    capacity = replicas * unit_tokens_per_second
    of_rack = bill.accelerators if bill else system.domain
    racks = ceil(gpus / of_rack)
    billed_gpus = racks * of_rack if system.domain > 1 else gpus
    power = system.chip.power
    capital = None if bill is None else (racks * bill.price[0], racks * bill.price[1])
    return DayFleet(
        replicas=replicas,
        gpus=gpus,
        racks=racks,
        megawatts=float("nan") if power is None else gpus * power * cooling / 1e6,
        utilisation=tokens_per_second / capacity,
        capital=capital,
        memory_capital=None
        if bill is None or capital is None
        else (capital[0] * bill.memory_share[0], capital[1] * bill.memory_share[1]),
        usd_per_million=None if price is None else billed_gpus * price / tokens_per_second * 1e6,
        hours=hours * tokens_per_second / capacity,
    )
