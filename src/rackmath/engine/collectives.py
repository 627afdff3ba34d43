"""Seconds of collectives: bytes over bandwidth plus a latency.

``size`` is the payload S that one rank holds before the collective, ``ranks`` its
width. Ranks fill a scale-up domain before they spill over the scale-out network.
Every argument broadcasts.
"""

from __future__ import annotations

import numpy as np

from rackmath.hardware import System
from rackmath.models.numbers import Number, above_one, maximum, minimum


def all_reduce(size: Number, ranks: Number, system: System) -> Number:
    r"""Time to sum ``size`` bytes over ``ranks``. [s]

    Inside a domain the faster of one step, where each rank reads all others
    (:math:`(n-1) S / \beta`), and two, reduce-scatter and all-gather
    (:math:`2 (n-1)/n \cdot S / \beta`); a switch that sums does
    :math:`(n+1)/n \cdot S / \beta`. Across domains: reduce-scatter inside, all-reduce of
    the parts between, all-gather inside.

    Source: nccl-tests doc/PERFORMANCE.md; architectures.md section 6.
    """
    up_bandwidth, up_latency = _scale_up(system)
    inner, outer = _spread(ranks, system)
    two_shot = 2 * (inner - 1) / inner * size / up_bandwidth
    one_shot = (inner - 1) * size / up_bandwidth
    inside = minimum(one_shot, two_shot)
    if system.fabric == "switch":
        inside = minimum(inside, above_one(inner) * (inner + 1) / inner * size / up_bandwidth)
    inside = inside + up_latency * above_one(inner) * _growth(inner)
    out_bandwidth, out_latency = _scale_out(system)
    between = 2 * (outer - 1) / outer * (size / inner) / out_bandwidth + out_latency * above_one(outer)
    return inside + between


def all_gather(size: Number, ranks: Number, system: System) -> Number:
    """Time to give every rank the ``size`` bytes that all hold together. [s]"""
    up_bandwidth, up_latency = _scale_up(system)
    inner, outer = _spread(ranks, system)
    out_bandwidth, out_latency = _scale_out(system)
    inside = (inner - 1) / inner * size / up_bandwidth + up_latency * above_one(inner)
    return inside + (outer - 1) / outer * (size / inner) / out_bandwidth + out_latency * above_one(outer)


def all_to_all(size: Number, ranks: Number, system: System, crossing: Number | None = None) -> Number:
    r"""Time for each rank to send ``size`` bytes, evenly to all ranks. [s]

    Of the bytes, (n-1)/n leave the rank, and with D domains (D-1)/D leave the domain;
    the two networks work at once. ``crossing`` are the bytes that cross between domains
    where copies for one domain travel once and are spread inside it: then all bytes
    take the scale-up network.

    Source: lecture chapter 2.
    """
    up_bandwidth, up_latency = _scale_up(system)
    inner, outer = _spread(ranks, system)
    leaving = size * (1 - 1 / outer) if crossing is None else crossing * (1 - 1 / outer)
    staying = size * (1 - 1 / inner) * (1 / outer if crossing is None else 1.0)
    out_bandwidth, out_latency = _scale_out(system)
    wire = maximum(staying / up_bandwidth, leaving / out_bandwidth)
    return wire + up_latency * above_one(inner) + out_latency * above_one(outer)


def many_to_many(size: Number, crossing: Number, senders: Number, receivers: Number, system: System) -> Number:
    r"""Time in which ``senders`` send ``size`` bytes each, evenly to ``receivers`` that are other accelerators. [s]

    .. math:: t = m S / (\min(m, n) \beta) + \alpha

    for m senders and n receivers: links of the smaller pool carry all bytes. It is the time of the way back as well.
    Pools that fill more than one domain together stand in domains of their own: ``crossing`` bytes of each sender
    cross between them, and all bytes are spread over the receivers inside their domains; the two networks work at
    once.

    Source: M2N communication of MegaScale-Infer (Zhu et al. 2025, arXiv:2504.02263).
    """
    up_bandwidth, up_latency = _scale_up(system)
    out_bandwidth, out_latency = _scale_out(system)
    outside = above_one((senders + receivers) / system.domain)
    lanes = minimum(senders, receivers)
    near = senders * size / lanes / up_bandwidth
    far = maximum(senders * crossing / lanes / out_bandwidth, senders * size / receivers / up_bandwidth)
    return near + outside * (far - near) + up_latency + outside * out_latency


def send(size: Number, stage: Number, stages: Number, system: System) -> Number:
    """Time to hand ``size`` bytes to the next of ``stages`` stages of ``stage`` accelerators. [s]"""
    up_bandwidth, up_latency = _scale_up(system)
    out_bandwidth, out_latency = _scale_out(system)
    near = size / up_bandwidth + up_latency
    far = size / out_bandwidth + out_latency
    outside = above_one(stage * stages / system.domain)
    return (near + outside * (far - near)) * above_one(stages)


def distinct_ranks(experts: int, active: float, ranks: Number) -> Number:
    r"""Expected distinct ranks that the experts of one token sit on. [ranks]

    .. math:: R \left(1 - \binom{E - E/R}{k} / \binom{E}{k}\right)

    Source: architectures.md section 6 (DeepSeek-V3: 5.29, 6.52, 7.27, 7.68 for 8 to 64).
    """
    per_rank = experts / ranks
    miss_chance: Number = 1.0
    for i in range(int(active)):
        miss_chance = miss_chance * maximum(1 - per_rank / (experts - i), 0.0)
    distinct: Number = ranks * (1.0 - miss_chance)
    return minimum(distinct, float(active))


def domains(ranks: Number, system: System) -> Number:
    """Scale-up domains that ``ranks`` fill. [domains]"""
    return _spread(ranks, system)[1]


def _growth(ranks: Number) -> Number:
    """Latency of a reduction over that over 8 ranks: more ranks, more signals to wait for.

    0.6, 0.8 and 1 for 2, 4 and 8 ranks; NCCL's small reductions take 9, 11 and 15
    microseconds on A100 (aiconfigurator's kernel timings).
    """
    return 0.4 + 0.2 * np.log2(maximum(ranks, 2.0))


def _spread(ranks: Number, system: System) -> tuple[Number, Number]:
    """Ranks inside one domain, and domains that they fill."""
    inner = minimum(ranks, float(system.domain))
    return inner, ranks / inner


def _scale_up(system: System) -> tuple[float, float]:
    if system.scale_up is None:
        return float("inf"), 0.0
    return system.scale_up.bandwidth, system.scale_up.latency


def _scale_out(system: System) -> tuple[float, float]:
    # Callers have checked that whatever leaves a domain has a network to leave by.
    if system.scale_out is None:
        return float("inf"), 0.0
    return system.scale_out.bandwidth, system.scale_out.latency
