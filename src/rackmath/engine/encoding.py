"""Time of turning images or sound into tokens: a pass of an encoder, before the prompt that holds them is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rackmath.engine.layout import Layout
from rackmath.engine.losses import Losses, without_host
from rackmath.engine.ranged import ranged
from rackmath.engine.step import Estimate, estimate
from rackmath.hardware import System
from rackmath.models.architecture import Architecture, AudioEncoder, Encoder, Layer
from rackmath.models.numbers import Number, ceiling, maximum

MOVES = 78.0
"""Reads and writes of the hidden width that a layer of an encoder makes for each patch beside its products: rotary
positions, casts, activation, residual sums and copies of an encoder that runs kernel by kernel, as vLLM, SGLang and
TensorRT-LLM run it by default. Fitted with ``SETTING`` on encodes of an RTX 3090: docs/accuracy-of-encoders.md."""

SETTING = 7.8e-3
"""Time in which a pass makes its positions and tables and starts. [s]"""

COMPILED_MOVES = 39.0
"""The same as ``MOVES`` of an encoder that is compiled: SGLang after its optimisation, on the same images."""

UNMEASURED = 1.5
"""Time over that of the fit at the upper end of the range; the lower end is a compiled encoder without ``SETTING``."""

IMAGES, SOUND = "images", "sound"
"""What a pass spends on encoding images or sound."""

TP_MODES = ("weights", "data")
"""How ranks share an encoder (vLLM's --mm-encoder-tp-mode): each matrix is split, or each image is on one rank."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoding:
    """Time of one pass of an encoder. [s]"""

    time: Number
    low: Number
    high: Number
    """90 % range."""
    ideal: Number
    """Bound: products and attention at the peaks."""


NOTHING = Encoding(time=0.0, low=0.0, high=0.0, ideal=0.0)
"""Of a model that is asked without images."""


def encoding(
    architecture: Architecture, system: System, layout: Layout, prompts: Number, losses: Losses | None
) -> Encoding:
    r"""Time in which one group encodes the images of some prompts at once. [s]

    .. math:: t = t_0 + T_\text{tower}(n, p) + T_\text{projector}(n v) + L n p \mu \cdot 2 d / (0.7 M)

    with n images, p patches and v tokens of each (of sound n windows of p positions), L layers of width d, MOVES as mu,
    memory bandwidth M; the first and the last term only with losses. The encoder runs on the first stage of a pipeline.

    Parameters
    ----------
    architecture : Architecture
        A model whose requests hold images; without them nothing takes time.
    layout : Layout
        Of the workers; only its tensor groups matter.
    prompts : Number
        Prompts of one group. [requests]
    losses : Losses, optional
        What separates the engine from the bound; None for the bound.
    """
    images = architecture.images
    encoder = architecture.audio if images is not None and images.sound else architecture.encoder
    if images is None or encoder is None or not images.count:
        return NOTHING
    count = images.count * prompts
    ranks: Number = layout.tensor * 1.0
    if images.tp_mode == "data":
        # Each image runs on one rank: the one with most images takes longest.
        count, ranks = ceiling(np.asarray(count / ranks)), 1.0
    pieces = maximum(count * images.image.tiles, 1.0)
    plain = None if losses is None else _of_kernels(losses)
    wide = Layout(tensor=ranks)
    settings: dict[str, Any] = {"phase": "prefill", "losses": plain}
    tower = estimate(encoder.tower, system, wide, batch=pieces, context=float(images.image.patches), **settings)
    per_image = float(images.image.tokens)
    after = estimate(projector(encoder), system, wide, batch=maximum(count, 1.0), context=per_image, **settings)
    time, ideal = tower.time + after.time, tower.time_ideal + after.time_ideal
    if losses is None:
        return Encoding(time=ideal, low=ideal, high=ideal, ideal=ideal)
    stream = losses.kernels.curve("other").stream * system.chip.memory_bandwidth
    values = len(encoder.tower.layers) * pieces * images.image.patches * encoder.tower.hidden
    traffic = values * encoder.tower.format.bytes_per_element / stream
    typical = SETTING + time + MOVES * traffic
    return Encoding(time=typical, low=time + COMPILED_MOVES * traffic, high=UNMEASURED * typical, ideal=ideal)


def _of_kernels(losses: Losses) -> Losses:
    """Losses of kernels alone: host, remainder of an engine and what measurements say belong to passes over text."""
    return replace(without_host(losses), software=1.0, correction={}, low=1.0, high=1.0)


def projector(encoder: Encoder | AudioEncoder) -> Architecture:
    """The projection as a model of its own, which each token of an image or of a clip passes."""
    layer = Layer(extras=encoder.projector)
    return Architecture(name="projector", hidden=encoder.tower.hidden, vocabulary=0, layers=(layer,), head=False)


def timed_pass(architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any]) -> Estimate:
    """A pass as :func:`~rackmath.engine.estimate` with these settings; before prompts with images, their encoding."""
    step = estimate(architecture, system, layout, **settings)
    if architecture.images is None or settings["phase"] != "prefill":
        return step
    prompts = maximum(settings["batch"] / layout.data, 1.0)
    e = encoding(architecture, system, layout, prompts, settings["losses"])
    times = ("time", "time_low", "time_high", "time_ideal", "time_overlapped", "compute_time")
    amounts = (e.time, e.low, e.high, e.ideal, e.ideal, e.ideal)
    name = encoded(architecture)
    return replace(
        step,
        **{name: getattr(step, name) + more for name, more in zip(times, amounts, strict=True)},
        terms={**step.terms, name: e.ideal},
        lost={**step.lost, name: e.time - e.ideal},
    )


def timed_again(
    step: Estimate, architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any]
) -> Estimate:
    """A pass as :func:`timed_pass`, where one by losses of another correction and range is there already."""
    if architecture.images is None and architecture.adapters is None and settings["draft"] is None:
        return ranged(step, settings["losses"], settings["phase"])
    return timed_pass(architecture, system, layout, settings)


def encoded(architecture: Architecture) -> str:
    """What of a prompt is encoded: :data:`IMAGES` or :data:`SOUND`."""
    return SOUND if architecture.images is not None and architecture.images.sound else IMAGES
