"""Cost to hold a token's cache in each tier, to bring it back, or to compute it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from rackmath.errors import InputError
from rackmath.hardware import MemoryTier, System

RECOMPUTE = "rematerialise"
HBM = "hbm"
LIFETIME = 4 * 365.25 * 86_400.0
"""Years over which a device is written off. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCost:
    """One place where a token's cache can wait."""

    name: str
    drain_time: float
    """Time to read all of the tier once; 0 for computing again. [s]"""
    hold: float
    """Of one token. [USD/s]"""
    retrieve: float
    """Of one token. [USD]"""
    wait: float
    """Of a user, for one token of his prefix. [s]"""
    accelerator_seconds: float
    """Of all accelerators that are kept from other work, for one token. [GPU s]"""

    def cost(self, hold_time: float) -> float:
        """Of one token that waits ``hold_time`` seconds and is used once. [USD]"""
        return self.retrieve + (self.hold * hold_time if self.hold else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Hold times at which one tier is the cheapest."""

    tier: str
    start: float
    """[s]"""
    stop: float
    """[s]"""


def tier_costs(
    system: System,
    tiers: Iterable[MemoryTier],
    *,
    kv_bytes: float,
    prefill_time: float,
    price: float,
    prefill_wait: float | None = None,
    link_bytes: float | None = None,
    group: float = 1.0,
    overlap: bool = True,
    remote: bool = False,
    lifetime: float = LIFETIME,
) -> list[TierCost]:
    r"""Cost of every tier, of the accelerator's own memory, and of computing again.

    .. math:: \mathrm{hold} = \frac{kv}{H} \, p_H, \qquad \mathrm{retrieve} = t \, (p_H + n p_G), \qquad
        t = \max\left(\frac{kv}{\beta}, \frac{kv_1}{\beta_1}\right)

    with the rent :math:`p_H` of a device (its price over its lifetime), its size H and bandwidth :math:`\beta`, the
    part :math:`kv_1` of the fullest accelerator and its link :math:`\beta_1` to the host, and the rent :math:`p_G`
    of n accelerators where they wait for the bytes. Source: lecture chapter 5.

    Parameters
    ----------
    kv_bytes : float
        Of one token, all layers. [B/token]
    prefill_time : float
        Accelerator time to compute one token again. [GPU s]
    prefill_wait : float, optional
        What a user waits for it; by default the same. [s]
    link_bytes : float, optional
        Of one token, on the fullest accelerator of a group; by default all of it. [B/token]
    group : float
        Accelerators that hold one prompt together. [accelerators]
    price : float
        Rent of the accelerator. [USD/s]
    overlap : bool
        Whether bytes arrive while the accelerator does other work.
    remote : bool
        Whether devices stand behind the scale-out network.

    Errors: :class:`InputError` for numbers that are not positive, and for devices behind a
    network that the system does not have.
    """
    for field, value in (("kv bytes", kv_bytes), ("prefill time", prefill_time), ("price", price)):
        if not 0 < value < inf:
            raise InputError(field, value, "write a positive finite number")
    if not 0 < lifetime < inf:
        raise InputError("--years", lifetime, "write a positive number of years")
    if remote and system.scale_out is None:
        raise InputError("--remote", system.name, "has no network between domains")
    chip = system.chip
    link = system.host_link or inf
    link_size = kv_bytes if link_bytes is None else link_bytes
    network = system.scale_out.bandwidth if remote and system.scale_out else inf
    costs = [
        TierCost(
            name=RECOMPUTE,
            drain_time=0.0,
            hold=0.0,
            retrieve=prefill_time * price,
            wait=prefill_time if prefill_wait is None else prefill_wait,
            accelerator_seconds=prefill_time,
        ),
        TierCost(
            name=HBM,
            drain_time=chip.drain_time,
            hold=kv_bytes / chip.memory_capacity * price,
            retrieve=0.0,
            wait=0.0,
            accelerator_seconds=0.0,
        ),
    ]
    for tier in tiers:
        rent = tier.price * tier.capacity / lifetime
        wait = max(kv_bytes / min(tier.bandwidth, network), link_size / link)
        wait_time = 0.0 if overlap else wait * group
        costs.append(
            TierCost(
                name=tier.name,
                drain_time=tier.drain_time,
                hold=kv_bytes / tier.capacity * rent,
                retrieve=wait * rent + wait_time * price,
                wait=wait,
                accelerator_seconds=wait_time,
            )
        )
    return costs


def cheapest(costs: Sequence[TierCost]) -> list[Stay]:
    """Which tier is cheapest at which hold time: the lower envelope of lines, from 0 on."""
    stays: list[Stay] = []
    start = 0.0
    # At 0 the least retrieval wins, of equals the cheaper to hold.
    current = min(costs, key=lambda c: (c.retrieve, c.hold))
    while True:
        flatter = [c for c in costs if c.hold < current.hold]
        meets = [((c.retrieve - current.retrieve) / (current.hold - c.hold), c.hold, c) for c in flatter]
        if not meets:
            stays.append(Stay(tier=current.name, start=start, stop=inf))
            return stays
        stop, _, following = min(meets, key=lambda m: (m[0], m[1]))
        if stop > start:
            stays.append(Stay(tier=current.name, start=start, stop=stop))
        start, current = max(stop, start), following


def by_drain_time(costs: Sequence[TierCost], hold_time: float) -> str:
    """Tier whose drain time is nearest to a hold time, by ratio: the lecture's rule."""
    devices = [c for c in costs if c.drain_time > 0]
    return min(devices, key=lambda c: max(c.drain_time / hold_time, hold_time / c.drain_time)).name


def prompt_cost(recompute: float, retrieve: float, cached_prefix: float) -> float:
    """Cost of a token of a prompt of which a part is cached. [USD]"""
    if not 0 <= cached_prefix <= 1:
        raise InputError("cached prefix", cached_prefix, "write a number from 0 to 1")
    return (1 - cached_prefix) * recompute + cached_prefix * retrieve
