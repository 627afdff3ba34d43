"""Handing a prompt's cache from the accelerators that read it to those that answer."""

from __future__ import annotations

from rackmath.engine.layout import Layout
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.models.numbers import Number, above_one, minimum


def transfer_time(
    architecture: Architecture, system: System, source: Layout, target: Layout, tokens: Number, gpus: Number
) -> Number:
    r"""Time to send the cache of one prompt from a group of ``source`` to a group of ``target``. [s]

    .. math:: t = \mathrm{bytes} / (n \beta) + \alpha

    with n the ranks of the smaller of both groups, each of which sends its part.

    Parameters
    ----------
    tokens : Number
        Tokens of the prompt. [tokens]
    gpus : Number
        Accelerators of both pools: where they fill more than one scale-up domain, the
        cache takes the scale-out network.
    """
    lanes = minimum(source.tensor * source.pipeline, target.tensor * target.pipeline)
    size = cache_bytes(architecture, tokens * 1.0) / lanes
    near, far = (
        0.0 if link is None else size / link.bandwidth + link.latency for link in (system.scale_up, system.scale_out)
    )
    outside = above_one(gpus / system.domain)
    return near * (1 - outside) + far * outside
