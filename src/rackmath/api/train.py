"""A training run: days, dollars, MFU and memory in the layout that is quickest of those that fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rackmath.api.adapters import targets_of
from rackmath.api.energy import energy_of_run
from rackmath.api.plain import to_plain
from rackmath.api.shown import Shown
from rackmath.api.subjects import Cluster, load_model, system_of
from rackmath.api.summary import training_summary
from rackmath.api.train_request import PRECISIONS, TrainRequest
from rackmath.api.training_steps import step_spans
from rackmath.engine import Layout, parse_layout
from rackmath.errors import InputError
from rackmath.figures import Figure, pictures
from rackmath.figures.plotly import plotly_figure
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.training.activations import repeated
from rackmath.training.frozen import Frozen, frozen, with_one_adapter
from rackmath.training.memory import TrainingMemory, training_memory
from rackmath.training.options import Options, Recipe, all_options, divisible, options_of
from rackmath.training.run import model_flops, reliability

_DAY = 86_400.0
_ENERGY = ("power_per_gpu", "energy_mwh", "energy_mwh_range", "kg_co2")
_PARTS = ("weights", "gradients", "optimizer", "activations", "logits")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TrainResult(Shown):
    """A training run; where nothing fits there are no days and no dollars."""

    request: TrainRequest
    facts: dict[str, Any]
    """What ``rackmath train --json`` prints."""

    @property
    def fits(self) -> bool:
        """Whether any layout fits."""
        return self.facts["fits"]

    @property
    def days(self) -> float | None:
        """Time of the run, failures included. [days]"""
        return self.facts["days"]

    @property
    def days_range(self) -> tuple[float, float] | None:
        """90 % range of the time. [days]"""
        span = self.facts["days_range"]
        return None if span is None else (span[0], span[1])

    @property
    def usd(self) -> float | None:
        """Cost; None without a price. [USD]"""
        return self.facts["usd"]

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation. [1]"""
        return self.facts["mfu"]

    @property
    def layout(self) -> str:
        """Layout of the quickest that fits, or of the one that needs least memory."""
        return self.facts["layout"]

    @property
    def summary(self) -> list[str]:
        """The answer in sentences: time and dollars, how well products run, what failures cost."""
        return training_summary(self.facts)

    @property
    def assumptions(self) -> list[str]:
        """What a reader has to know of the numbers."""
        return list(self.facts["assumptions"])

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath train --json`` prints."""
        return to_plain(self.facts)

    def picture(self) -> Figure:
        """Memory of an accelerator by kind, as data."""
        return pictures.training_memory_figure(self.facts)

    def figure(self) -> Any:
        """Memory of an accelerator by kind, as a figure of Plotly."""
        return plotly_figure(self.picture())

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        return [("training run", self.to_dict())]


def train(
    model: str | Architecture, system: str | System | Cluster, *, tokens: float | str, **more: Any
) -> TrainResult:
    """Days, dollars, MFU and memory of a training run, as ``rackmath train`` says them.

    Parameters
    ----------
    model, system
        Names, paths, or what :func:`load_model` and :func:`load_system` return.
    tokens
        Of the run. [tokens]
    **more
        Other fields of :class:`TrainRequest`, among them ``gpus`` where the system is a name.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    fields: dict[str, Any] = {"model": model, "on": system_of(system), "tokens": tokens}
    if isinstance(system, Cluster):
        fields["gpus"] = system.gpus
    elif "gpus" not in more:
        raise InputError("gpus", None, "say how many, as in load_system(name, gpus=2048)")
    return run_training(TrainRequest(**(fields | more)))


def run_training(r: TrainRequest) -> TrainResult:
    """Answer a request.

    Errors: as of :func:`train`.
    """
    architecture = requantise(load_model(r.model), weights=weight_format(PRECISIONS[r.precision]))
    system = system_of(r.on)
    run_at = system.chip.runs_at(r.precision)
    if run_at != r.precision:
        raise InputError("--precision", r.precision, f"{system.chip.name} runs it at {run_at}")
    recipe = Recipe(
        sequences=divisible(r.batch_tokens / r.length),
        length=r.length,
        recompute=(r.recompute,) if r.recompute else Recipe.__dataclass_fields__["recompute"].default,
        sharded=(r.sharded,) if r.sharded else Recipe.__dataclass_fields__["sharded"].default,
        stored=weight_format(r.base_weights),
    )
    if r.lora_rank is not None:
        architecture = with_one_adapter(architecture, r.lora_rank, targets_of(r.lora_target_modules))
    frozen_parts = frozen(architecture, r.length, recipe.stored)
    system.require_network(r.gpus)
    choices = _options(architecture, system, r, recipe)
    facts = _facts(architecture, system, choices, recipe, r)
    overhead = reliability(r.gpus, r.checkpoint_time, r.restart_time)
    facts.update(_bill(facts, system, r, overhead.useful))
    facts["checkpoint_interval"] = overhead.interval
    facts["useful"] = overhead.useful
    facts["trained_params"] = frozen_parts.trained_part * total_params(architecture)
    facts["assumptions"] = [
        *catalogue.price_note(system, r.usd_per_gpu_hour),
        f"{r.precision} products, {_precision(r)}, gradients and optimizer at 32; sequence parallelism beside tensor's",
        *_of_adapters(architecture, frozen_parts),
        "the bound, without losses"
        if r.ideal
        else f"framework: {r.framework}, of {r.year:g}; range: rows left out, docs/accuracy.md",
        f"steps of {recipe.sequences:,.0f} sequences, {recipe.sequences * r.length / 1e6:.3g} M tokens",
        f"failures as in Llama 3's run; a checkpoint takes {r.checkpoint_time:g} s, a failure {r.restart_time:g} s",
    ]
    return TrainResult(request=r, facts=facts)


def _precision(r: TrainRequest) -> str:
    return "weights at 16 bit" if r.lora_rank is None else f"frozen weights at {r.base_weights}"


def _of_adapters(architecture: Architecture, frozen_work: Frozen) -> tuple[str, ...]:
    """What a reader has to know of a run with adapters; nothing where the model itself is trained."""
    if architecture.adapters is None:
        return ()
    params = frozen_work.trained_part * total_params(architecture)
    line = (
        f"adapters of rank {architecture.adapters.rank} on {', '.join(architecture.adapters.targets)}: "
        f"{params / 1e6:,.4g} M parameters, {frozen_work.trained_part:.2%} of the model's; "
        f"gradients of frozen weights, {frozen_work.part:.0%} of a forward pass, are not computed"
    )
    expansion = (
        ("weights are expanded to 16 bit before each product, as bitsandbytes does",) if frozen_work.expansion else ()
    )
    return (line, *expansion)


def _options(architecture: Architecture, system: System, r: TrainRequest, recipe: Recipe) -> Options:
    """All ways to spread the run, or those of one layout."""
    gpus, context, microbatch, chunks = r.gpus, r.context_parallel, r.microbatch, r.chunks
    if r.layout is None:
        options = all_options(architecture, system, gpus, recipe)
    else:
        ranks = context or 1
        if gpus % ranks or recipe.length < ranks:
            raise InputError("--context-parallel", ranks, f"divides neither {gpus} accelerators nor a sequence")
        options = options_of(architecture, [(parse_layout(r.layout, gpus // ranks, architecture), ranks)], recipe)
    keep = np.ones(len(options), dtype=bool)
    if context is not None:
        keep &= options.context == context
    if microbatch is not None:
        keep &= options.microbatch == microbatch
    if chunks is not None:
        keep &= options.chunks == chunks
    if not keep.any():
        ways = "change --batch-tokens, --layout, --context-parallel, --microbatch or --chunks (1, 2, 4, 8)"
        raise InputError("--batch-tokens", recipe.sequences, f"sequences do not divide so: {ways}")
    return _taken(options, np.flatnonzero(keep))


def _taken(options: Options, at: Any) -> Options:
    return replace(
        options,
        layouts=[options.layouts[i] for i in at],
        context=options.context[at],
        microbatch=options.microbatch[at],
        chunks=options.chunks[at],
        recompute=[options.recompute[i] for i in at],
        sharded=[options.sharded[i] for i in at],
    )


def _facts(
    architecture: Architecture,
    system: System,
    options: Options,
    recipe: Recipe,
    r: TrainRequest,
) -> dict[str, Any]:
    """The quickest option that fits; where none does, the one that needs least memory."""
    memory_use = training_memory(architecture, system, options, recipe)
    fits = np.broadcast_to(memory_use.fits, (len(options),))
    candidates = _taken(options, np.flatnonzero(fits)) if fits.any() else options
    framework = None if r.ideal else r.framework
    spans = step_spans(architecture, system, candidates, recipe, framework=framework, year=r.year)
    best = int(spans.time.argmin()) if fits.any() else int(memory_use.total.argmin())
    at = int(np.flatnonzero(fits)[best]) if fits.any() else best
    step = float(spans.time[best])
    flops = model_flops(architecture, recipe.length)
    layout: Layout = options.layouts[at]
    rate = recipe.sequences * recipe.length / step
    again = repeated(architecture, options.recompute[at], recipe.length)
    peak = system.chip.rate(system.chip.runs_at(architecture.format.compute))
    accelerators = float(layout.gpus) * float(options.context[at])
    return {
        "model": architecture.name,
        "system": system.name,
        "fits": bool(fits.any()),
        "layout": layout.text(),
        "context_parallel": float(options.context[at]),
        "microbatch": float(options.microbatch[at]),
        "chunks": float(options.chunks[at]),
        "recompute": options.recompute[at],
        "sharded": options.sharded[at],
        "options": len(options),
        "step_time": step,
        "tokens_per_second": rate,
        "flops_per_token": flops,
        "tflops_per_gpu": rate * flops / accelerators / 1e12,
        "mfu": rate * flops / accelerators / peak,
        "hfu": rate * flops * (1 + again / 3) / accelerators / peak,
        "seconds": r.tokens / rate,
        "range": [float(spans.low[best]) / step, float(spans.high[best]) / step],
        **_memory(memory_use, at),
    }


def _memory(memory_use: TrainingMemory, at: int) -> dict[str, Any]:
    parts = {name: float(np.broadcast_to(getattr(memory_use, name), memory_use.total.shape)[at]) for name in _PARTS}
    return {"memory_per_gpu": sum(parts.values()), "memory": parts, "capacity": memory_use.capacity}


def _bill(facts: dict[str, Any], system: System, r: TrainRequest, useful: float) -> dict[str, Any]:
    """Days, dollars and energy, failures included; the range is that of the step, of energy that of the power.

    What memory traffic adds to the power of training is not known and left out.
    """
    if not facts["fits"]:
        return dict.fromkeys(("days", "days_range", "gpu_hours", "usd", *_ENERGY))
    seconds, price = facts["seconds"] / useful, catalogue.price_of(system, r.usd_per_gpu_hour)
    low, high = facts["range"]
    gpu_seconds = seconds * r.gpus
    energy = energy_of_run(gpu_seconds, 0.0, facts["hfu"] * gpu_seconds, system.chip, r.grid)
    return {
        "days": seconds / _DAY,
        "days_range": [seconds * low / _DAY, seconds * high / _DAY],
        "gpu_hours": gpu_seconds / 3600,
        "usd": None if price is None else gpu_seconds * price,
        "power_per_gpu": energy and energy["power_per_gpu"],
        "energy_mwh": energy and energy["kwh"] / 1000,
        "energy_mwh_range": energy and [kwh / 1000 for kwh in energy["kwh_range"]],
        "kg_co2": energy and energy["kg_co2"],
    }
