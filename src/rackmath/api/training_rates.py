"""Accelerator time of a token that is read, written or trained on: what ``budget`` and ``rl`` ask of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rackmath.api.training_steps import step_spans
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16
from rackmath.models.requantise import requantise
from rackmath.serving.contexts import cost_against_context
from rackmath.serving.engines import engine_layouts
from rackmath.serving.token_costs import reading
from rackmath.training.budget import READ, TRAIN
from rackmath.training.memory import training_memory
from rackmath.training.options import Recipe, all_options, divisible
from rackmath.training.run import model_flops

Span = tuple[float, float, float]
"""A time and the ends of its 90 % range."""

_LENGTH, _BATCH = 8192.0, 4e6
"""Tokens of a sequence and of a step in the run whose utilisation :func:`efficiency` asks for."""
_SLOWEST = 10.0
"""Time per token that a batch may take. [s]"""
_BATCHES = np.unique(np.round(2 ** (np.arange(0, 56) / 2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTimes:
    """Accelerator time of serving. [GPU s/token]"""

    read: Span
    write: Span
    bandwidth: float
    """Part of the peak bandwidth that writing uses. [1]"""


def served(
    architecture: Architecture, system: System, gpus: int, *, prompt: float, answer: float, engine: str, year: float
) -> ServingTimes:
    """Cheapest layout and batch of ``gpus`` accelerators, at the mean context of an answer.

    Errors: :class:`DoesNotFit` where no layout holds the model.
    """
    version = constants_file.engine_of(system, engine, year)
    answer_costs = cost_against_context(
        architecture,
        system,
        gpus,
        np.array([prompt + answer / 2]),
        slowest=_SLOWEST,
        batches=_BATCHES,
        losses=constants_file.losses_of(system, version, "time per token"),
        family=engine,
    )
    return ServingTimes(
        read=read_token(architecture, system, gpus, prompt=prompt, engine=engine, year=year),
        write=(float(answer_costs.gpu_seconds[0]), float(answer_costs.low[0]), float(answer_costs.high[0])),
        bandwidth=float(answer_costs.memory_time[0] / answer_costs.gpu_seconds[0]),
    )


def read_token(
    architecture: Architecture, system: System, gpus: int, *, prompt: float, engine: str, year: float
) -> Span:
    """Accelerator time of a token of a prompt in filled passes, in the best layout of a server. [GPU s/token]"""
    version = constants_file.engine_of(system, engine, year)
    read = reading(
        architecture,
        system,
        engine_layouts(architecture, gpus, engine),
        np.array([prompt]),
        np.ones(1),
        losses=constants_file.losses_of(system, version, "prompt pass"),
    )
    return float(read.seconds[0]), float(read.low[0]), float(read.high[0])


def trained(
    architecture: Architecture, system: System, gpus: int, recipe: Recipe, *, framework: str, year: float
) -> Span:
    """Accelerator time of a token at 16 bit, in the quickest layout of all accelerators that fits. [GPU s/token]

    Errors: :class:`DoesNotFit` where none does.
    """
    plain = requantise(architecture, weights=BF16)
    options = all_options(plain, system, gpus, recipe)
    fits = np.broadcast_to(training_memory(plain, system, options, recipe).fits, (len(options),))
    if not fits.any():
        raise DoesNotFit(f"training {architecture.name} on {gpus} x {system.chip.name}", "use more --gpus")
    spans = step_spans(plain, system, options, recipe, framework=framework, year=year)
    best = int(np.where(fits, spans.time, np.inf).argmin())
    gpus_per_token = gpus / (recipe.sequences * recipe.length)
    seconds, low, high = (float(ends[best]) * gpus_per_token for ends in (spans.time, spans.low, spans.high))
    return seconds, low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Utilisation of training, and that of serving over it. [1]"""

    mfu: float
    decode: float
    prefill: float
    bandwidth: float | None
    """Part of the peak bandwidth that writing uses; None where no model says it."""
    note: str

    def replaced(self, **values: float | None) -> Efficiency:
        """Replace what a caller knows better."""
        return replace(self, **{name: value for name, value in values.items() if value is not None})


PLAIN = Efficiency(mfu=0.4, decode=1.0, prefill=1.0, bandwidth=None, note="")
"""Where nobody says: serving as good as training."""


def efficiency(
    architecture: Architecture, system: System, *, gpus: int, serving_gpus: int, prompt: float, answer: float
) -> Efficiency:
    """What the engine says of a model, against a law's 6 N per token that is trained on and 2 N of others.

    Errors: :class:`InputError` for lengths out of range, :class:`DoesNotFit` as in :func:`trained`.
    """
    for field, value in (("--prompt", prompt), ("--answer", answer)):
        if not 1 <= value <= 1e9:
            raise InputError(field, value, "write a number from 1 to 1e9")
    for count in (gpus, serving_gpus):
        system.require_network(count)
    recipe = Recipe(sequences=divisible(_BATCH / _LENGTH), length=_LENGTH)
    train = trained(architecture, system, gpus, recipe, framework="megatron", year=NOW)[0]
    rates = served(architecture, system, serving_gpus, prompt=prompt, answer=answer, engine=DEFAULT_ENGINE, year=NOW)
    per = READ / TRAIN
    return Efficiency(
        mfu=model_flops(architecture, _LENGTH) / train / system.chip.rate("bf16"),
        decode=per * train / rates.write[0],
        prefill=per * train / rates.read[0],
        bandwidth=rates.bandwidth,
        note=f"efficiencies of {architecture.name}: trained by megatron on {gpus} at 16 bit, {_LENGTH:,.0f} tokens a "
        f"sequence; served by vllm on {serving_gpus} at the cheapest batch, prompts of {prompt:,.0f} and answers of "
        f"{answer:,.0f} tokens, weights as published",
    )
