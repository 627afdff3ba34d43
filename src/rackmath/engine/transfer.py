"""Handing a prompt's cache from the accelerators that read it to those that answer."""

from __future__ import annotations

from rackmath.engine.layout import Layout
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.models.formats import BF16
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
    return _sent(cache_bytes(architecture, tokens * 1.0) / lanes, system, gpus)


def embeddings_time(architecture: Architecture, system: System, gpus: Number) -> Number:
    r"""Time to send what an encoder makes of the images of a prompt to a server. [s]

    .. math:: t = 2 v d / \beta + \alpha

    with v tokens of images of the model's width d, in 16 bit.

    Parameters
    ----------
    gpus : Number
        Accelerators of encoders and servers: where they fill more than one scale-up domain, the scale-out network is
        taken.
    """
    tokens = 0.0 if architecture.images is None else architecture.images.tokens
    return _sent(tokens * architecture.hidden * BF16.bytes_per_element, system, gpus)


def _sent(size: Number, system: System, gpus: Number) -> Number:
    """Time in which bytes cross one link: of the domain, or between domains where the accelerators fill several. [s]"""
    near, far = (
        0.0 if link is None else size / link.bandwidth + link.latency for link in (system.scale_up, system.scale_out)
    )
    outside = above_one(gpus / system.domain)
    return near * (1 - outside) + far * outside
