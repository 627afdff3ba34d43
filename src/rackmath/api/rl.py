"""A loop of reinforcement learning: rollouts that are written, and training on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api import kinds, options
from rackmath.api.energy import NOTE, energy_of_run
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.api.training_rates import read_token
from rackmath.api.training_rates import trained as training_rate
from rackmath.engine import estimate
from rackmath.engine.constants import EngineVersion
from rackmath.engine.layout import Layout, stack_layouts
from rackmath.engine.timer import engine_timer
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, FRAMEWORKS, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16
from rackmath.serving.engines import default_max_num_seqs, engine_layouts
from rackmath.serving.load import CHUNK
from rackmath.serving.startup.held import held_as_launched
from rackmath.serving.startup.memory import EngineStart
from rackmath.serving.variants import as_read
from rackmath.training.options import Recipe, divisible
from rackmath.training.rollouts import Loop, LoopCost, Servers, StepTime, loop_cost
from rackmath.training.run import model_flops
from rackmath.units import show


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRequest:
    """A loop of reinforcement learning."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int, options.GPUS.but(help="Accelerators together.", kind=kinds.whole(1, 1000000))]
    steps: Annotated[int, Option(help="Steps of the optimizer.", kind=kinds.whole(1, 10**9))] = 1000
    rollouts: Annotated[float, Option(help="Answers written for a step.", kind=kinds.NUMBER)] = 4096.0
    prompt: Annotated[float, Option(help="Mean tokens of a prompt.", kind=kinds.NUMBER)] = 512.0
    answer: Annotated[float, Option(help="Mean tokens of an answer.", kind=kinds.NUMBER)] = 8000.0
    training_share: Annotated[
        float,
        Option(help="Part of rollouts that is trained on.", kind=kinds.NUMBER, names=("--training-share", "--trained")),
    ] = 1.0
    lag: Annotated[
        int,
        Option(
            help="Steps that rollouts may be old: 0 alternates writing and training, 1 overlaps them one step off.",
            kind=kinds.whole(),
        ),
    ] = 0
    straggler_ratio: Annotated[
        float,
        Option(
            help="Length of the longest answer of a step over the mean.",
            kind=kinds.NUMBER,
            names=("--straggler-ratio", "--straggle"),
        ),
    ] = 2.0
    rollout_gpus: Annotated[
        int, Option(help="Accelerators of one server that writes answers.", kind=kinds.whole(1, 100000))
    ] = 8
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    weights: Annotated[str | None, options.WEIGHTS.but(help="Format of the weights that servers read.")] = None
    kv: Annotated[str | None, options.CACHE] = None
    framework: Annotated[str, Option(help="Family of the training framework.", kind=kinds.choice(*FRAMEWORKS))] = (
        "megatron"
    )
    year: Annotated[float, options.YEAR] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_rl(r: RlRequest) -> Result:
    """Tokens, days and dollars of reinforcement learning, and what its rollouts cost beside its training.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    loop = _loop(r)
    architecture, system = load_model(r.model), system_of(r.on)
    system.require_network(r.gpus)
    server_model, notes = as_read(architecture, r.engine, r.weights, r.kv)
    layouts = engine_layouts(server_model, r.rollout_gpus, r.engine)
    version = constants_file.engine_of(system, r.engine, r.year)
    prompt_seconds = read_token(server_model, system, r.rollout_gpus, prompt=r.prompt, engine=r.engine, year=r.year)
    steps_of = constants_file.range_of(system, version, "time per token")
    recipe = Recipe(sequences=divisible(r.rollouts * r.training_share), length=r.prompt + r.answer)
    train = training_rate(architecture, system, r.gpus, recipe, framework=r.framework, year=r.year)
    refresh = _refresh(architecture, system, r.gpus, r.rollout_gpus)
    flops = model_flops(architecture, r.prompt + r.answer)
    sequences = _sequences(server_model, system, layouts, loop, r.engine)
    step = _steps(server_model, system, layouts, version)
    cost, quick, late = (
        loop_cost(
            loop,
            r.gpus,
            Servers(gpus=r.rollout_gpus, step=_slower(step, factor), sequences=sequences, read=row / r.rollout_gpus),
            train=t,
            refresh=refresh,
            flops_read=flops / 3,
            flops_train=flops,
        )
        for factor, row, t in zip((1.0, *steps_of), prompt_seconds, train, strict=True)
    )
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    facts = {
        "model": architecture.name,
        "system": system.name,
        "step_time": cost.time,
        "step_time_range": [quick.time, late.time],
        "generation_time": cost.generation_time,
        "training_time": cost.training_time,
        "refresh_time": cost.refresh_time,
        "days": r.steps * cost.time / 86_400,
        "days_range": [r.steps * state.time / 86_400 for state in (quick, late)],
        "gpu_hours": r.steps * cost.time * r.gpus / 3600,
        "usd": None if price is None else r.steps * cost.time * r.gpus * price,
        "energy": _energy(server_model, system, r, loop, layouts[cost.layout], cost, version, flops),
        "tokens_written": r.steps * r.rollouts * r.answer,
        "tokens_trained": r.steps * r.rollouts * r.training_share * (r.prompt + r.answer),
        "server_layout": layouts[cost.layout].text(),
        "cost": cost,
        "assumptions": [
            *notes,
            *catalogue.price_note(system, r.usd_per_gpu_hour),
            f"answers by {r.engine} of {r.year:g} on servers of {r.rollout_gpus} as {layouts[cost.layout].text()}, the"
            f" soonest of {len(layouts)} layouts; lengths spread so that the longest has {r.straggler_ratio:g} times"
            " the mean",
            f"training by {r.framework} in the quickest layout of all accelerators that fits, at 16 bit",
            f"new weights reach the servers in {show(refresh, 's')} per step, at the network's bandwidth",
            _overlap(r.lag),
            NOTE,
        ],
    }
    return Result(request=r, facts=facts, details=cost)


def _energy(
    architecture: Architecture,
    system: System,
    r: RlRequest,
    loop: Loop,
    layout: Layout,
    cost: LoopCost,
    version: EngineVersion,
    flops: float,
) -> dict[str, Any] | None:
    """Energy of all accelerators over all steps; an accelerator that waits is taken to be running.

    ``flops`` of a token that is trained on; reading or writing it takes a third.
    """
    step = estimate(
        architecture,
        system,
        layout,
        batch=cost.at_once,
        context=loop.prompt + loop.answer / 2,
        losses=constants_file.losses_of(system, version, "time per token"),
    )
    streaming = float(step.memory_time / step.time) * cost.servers * r.rollout_gpus * cost.writing_time
    tokens = loop.rollouts * (loop.prompt + loop.answer)
    multiplying = tokens * flops * (1 / 3 + loop.training_share) / system.chip.rate("bf16")
    return energy_of_run(r.steps * cost.time * r.gpus, r.steps * streaming, r.steps * multiplying, system.chip, r.grid)


def _overlap(lag: int) -> str:
    if not lag:
        return "writing and training alternate on the same accelerators: no overlap"
    if lag == 1:
        return "one step off: the next step's answers are written while this step's are trained on"
    return f"answers of {lag} steps are in flight together and up to {lag} steps old when they are trained on"


def _loop(r: RlRequest) -> Loop:
    return Loop(
        rollouts=r.rollouts,
        answer=r.answer,
        prompt=r.prompt,
        training_share=r.training_share,
        lag=r.lag,
        straggler_ratio=r.straggler_ratio,
    )


def _sequences(
    architecture: Architecture, system: System, layouts: list[Layout], loop: Loop, engine: str
) -> NDArray[np.float64]:
    """Answers that a server runs at once in each layout: what fits, and what its engine takes. (layouts,)"""
    server = EngineStart(family=engine)
    fitting, longest = (
        held_as_launched(architecture, system, layouts, [CHUNK], server, loop.prompt + answer)[:, 0]
        for answer in (loop.answer, loop.answer * loop.straggler_ratio)
    )
    most = default_max_num_seqs(engine, system.chip) * np.asarray(stack_layouts(layouts).data)
    sequences = np.where(longest >= 1, np.minimum(fitting, most), 0.0)
    if not sequences.any():
        raise DoesNotFit(
            f"{architecture.name} and one answer of {loop.answer * loop.straggler_ratio:,.0f} tokens on a server of "
            f"{layouts[0].gpus} x {system.chip.name}",
            "use more --rollout-gpus or shorter answers",
        )
    return sequences


def _steps(architecture: Architecture, system: System, layouts: list[Layout], version: EngineVersion) -> StepTime:
    """Time of a decode step in every layout of a server."""
    timer = engine_timer(architecture, system, constants_file.losses_of(system, version, "time per token"))
    wide = stack_layouts(layouts, 2)
    return lambda batch, context: np.asarray(timer("decode", wide, batch, context, 0.0))


def _slower(step: StepTime, factor: float) -> StepTime:
    return lambda batch, context: factor * step(batch, context)


def _refresh(architecture: Architecture, system: System, gpus: int, rollout_gpus: int) -> float:
    """Time in which every accelerator of a server takes its part of new weights, all servers at once. [s]

    Servers pass weights on, so that no sender is the bottleneck; beyond a domain they take the scale-out network.
    """
    link = system.scale_up if gpus <= system.domain else system.scale_out
    if link is None:
        return 0.0
    return total_params(architecture) * BF16.bits / 8 / rollout_gpus / link.bandwidth + link.latency
