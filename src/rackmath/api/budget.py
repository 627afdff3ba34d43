"""Size and tokens of least cost over a model's life, beside the lecture's equal costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds, options
from rackmath.api.energy import NOTE, energy_of_parts, energy_of_run
from rackmath.api.fields import Option, read_fields, refuse_without
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.api.training_rates import PLAIN, Efficiency, efficiency
from rackmath.errors import InputError
from rackmath.figures.budget import budget_figure
from rackmath.hardware import System
from rackmath.io import law_files
from rackmath.models.architecture import Architecture
from rackmath.training.budget import READ, TRAIN, Budget, Life, at_equal_cost, budget, cheapest, equal_costs, split
from rackmath.training.scaling_laws import LAWS, LossLaw, critical_overhead, law

_AT = (0.05, 0.5, 0.95)
_FIELDS = ("params", "tokens", "overtraining", "cost_pretrain", "cost_rl", "cost_inference")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRequest:
    """A loss to reach, and what a model is used for in its life."""

    law: Annotated[str, Option(help="Law of loss against parameters and tokens.", kind=kinds.choice(*LAWS))] = (
        "besiroglu"
    )
    loss: Annotated[float | None, Option(help="Loss to reach, in the law's nats per token.", kind=kinds.NUMBER)] = None
    params: Annotated[
        float | None, Option(help="Size of a model whose loss is to be reached, as 70B.", kind=kinds.NUMBER)
    ] = None
    tokens: Annotated[
        float | None, Option(help="Tokens that this model was trained on, as 1.4T.", kind=kinds.NUMBER)
    ] = None
    inference_tokens: Annotated[
        float, Option(help="Tokens that the model writes in its life, as 10T.", kind=kinds.NUMBER)
    ] = 0.0
    prompt_tokens: Annotated[float, Option(help="Tokens that the model reads in its life.", kind=kinds.NUMBER)] = 0.0
    decode_efficiency: Annotated[
        float | None,
        Option(help="Efficiency of writing, over training's (default: 1, or --model's).", kind=kinds.NUMBER),
    ] = None
    prefill_efficiency: Annotated[
        float | None, Option(help="Efficiency of reading prompts (default: 1, or --model's).", kind=kinds.NUMBER)
    ] = None
    model: Annotated[
        str | Architecture | None,
        Option(help="Model whose efficiencies the engine gives, with --on.", kind=kinds.SUBJECT, metavar="MODEL"),
    ] = None
    gpus: Annotated[int, options.GPUS.but(help="Accelerators that train it.", kind=kinds.whole(1, 1000000))] = 512
    serving_gpus: Annotated[int, Option(help="Accelerators of one server.", kind=kinds.whole(1, 100000))] = 8
    prompt: Annotated[float, Option(help="Mean tokens of a prompt that it is served.", kind=kinds.NUMBER)] = 2000.0
    answer: Annotated[float, Option(help="Mean tokens of an answer.", kind=kinds.NUMBER)] = 500.0
    rl_share: Annotated[float, Option(help="Cost of RL over pre-training's.", kind=kinds.NUMBER)] = 0.0
    success: Annotated[float, Option(help="Chance that the model is used at all.", kind=kinds.NUMBER)] = 1.0
    published_models: Annotated[
        bool,
        Option(
            help="Over-training of published models under the law instead.",
            kind=kinds.FLAG,
            names=("--published-models", "--known"),
        ),
    ] = False
    on: Annotated[
        str | System | None,
        Option(help="System whose accelerator hours and dollars are counted.", kind=kinds.SUBJECT, metavar="SYSTEM"),
    ] = None
    mfu: Annotated[
        float | None, Option(help="Utilisation of training, with --on (default: 0.4, or --model's).", kind=kinds.NUMBER)
    ] = None
    grid: Annotated[float | None, options.GRID] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_budget(r: BudgetRequest) -> Result:
    """Parameters and tokens of least cost at a fixed loss, beside the lecture's equal costs; over-training.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    scaling_law = law(r.law)
    if r.published_models:
        return Result(request=r, facts=published(scaling_law))
    system = None if r.on is None else system_of(r.on)
    use = PLAIN
    if r.model is None:
        refuse_without(r, "--model", "gpus", "serving_gpus", "prompt", "answer")
    else:
        if system is None:
            raise InputError("--model", r.model, "name the accelerators as well: --on SYSTEM")
        use = efficiency(
            load_model(r.model), system, gpus=r.gpus, serving_gpus=r.serving_gpus, prompt=r.prompt, answer=r.answer
        )
    use = use.replaced(mfu=r.mfu, decode=r.decode_efficiency, prefill=r.prefill_efficiency)
    life = Life(
        prompt_tokens=r.prompt_tokens,
        answer_tokens=r.inference_tokens,
        decode_efficiency=use.decode,
        prefill_efficiency=use.prefill,
        rl_share=r.rl_share,
        success=r.success,
    )
    base = _base(scaling_law, r.loss, r.params, r.tokens)
    facts = _facts(scaling_law, base, life)
    facts["efficiency"] = {"decode": use.decode, "prefill": use.prefill}
    facts["assumptions"] = [use.note] if use.note else []
    if system is not None:
        facts["hardware"] = _hardware(system, use.mfu, facts)
        facts["hardware"]["energy"] = _energy(system, use, facts, life, r.grid)
        facts["assumptions"] += [NOTE, _written_note(use)] if facts["hardware"]["energy"] else []
    return Result(request=r, facts=facts, draw=lambda: budget_figure(scaling_law, facts, life))


def _base(law: LossLaw, loss: float | None, params: float | None, tokens: float | None) -> tuple[float, float]:
    """A model of the loss in question: the one that is given, or the compute optimum."""
    if (loss is None) == (params is None) or (params is None) != (tokens is None):
        raise InputError("--loss", loss, "give --loss, or --params and --tokens")
    if params is not None and tokens is not None:
        return params, tokens
    best = cheapest(law, float("nan") if loss is None else loss, Life())
    return best.params, best.tokens


def _facts(law: LossLaw, base: tuple[float, float], life: Life) -> dict[str, Any]:
    optimum = budget(law, *base, life)
    best = cheapest(law, optimum.loss, life)
    plain = cheapest(law, optimum.loss, Life())
    facts: dict[str, Any] = {
        "law": law.name,
        **_plain(best),
        "heuristic": None,
        "compute_optimal": _plain(budget(law, plain.params, plain.tokens, life)),
        "given": _plain(optimum),
        "inference_over_pretrain": best.cost_inference / best.cost_pretrain,
        "equal_cost_overtraining": at_equal_cost(law),
        "at_10x": split(law, 10.0),
        "at_100x": split(law, 100.0),
        "critical_part": _critical(law, TRAIN * plain.params * plain.tokens),
        "ranges": _ranges(law, base, life),
        "outside": list(best.outside),
        "warning": law.warning,
        "source": law.source,
    }
    if life.read > 0:
        try:
            facts["heuristic"] = _plain(equal_costs(law, optimum.loss, life))
            facts["heuristic"]["over_best"] = facts["heuristic"]["total"] / best.total
        except InputError as error:
            facts["heuristic_fails"] = error.way_out
    return facts


def _plain(budget: Budget) -> dict[str, Any]:
    return {**{field: getattr(budget, field) for field in (*_FIELDS, "loss")}, "total": budget.total}


def _critical(law: LossLaw, flops: float) -> float:
    """Part of the optimal size that costs twice the optimal compute."""
    low, high = 0.01, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if critical_overhead(law, flops, middle) > 1 else (low, middle)
    return high


def _ranges(law: LossLaw, base: tuple[float, float], life: Life) -> dict[str, Any] | None:
    """90 % ranges over resamples of the law's runs; None for laws whose runs are not at hand."""
    if law.name != law_files.RESAMPLED:
        return None
    resamples = [cheapest(law, float(law.loss(*base)), life) for law in law_files.resampled()]
    columns = {field: np.array([getattr(law, field) for law in resamples]) for field in _FIELDS}
    columns["inference_over_pretrain"] = columns["cost_inference"] / columns["cost_pretrain"]
    quantiles = {field: np.quantile(values, _AT) for field, values in columns.items()}
    return {
        field: {"low90": float(q[0]), "median": float(q[1]), "high90": float(q[2])} for field, q in quantiles.items()
    }


def _hardware(system: System, mfu: float, facts: dict[str, Any]) -> dict[str, Any]:
    """Accelerator hours and dollars."""
    if not 0 < mfu <= 1:
        raise InputError("--mfu", mfu, "write a part above 0 and at most 1")
    rate = system.chip.rate("bf16") * mfu
    hours = facts["total"] / rate / 3600
    return {
        "system": system.name,
        "mfu": mfu,
        "gpu_hours": hours,
        "usd": None if system.price is None else hours * 3600 * system.price,
    }


def _energy(
    system: System, use: Efficiency, facts: dict[str, Any], life: Life, grid: float | None
) -> dict[str, Any] | None:
    """Energy of training, reading and writing at the least cost, each at its own load of an accelerator."""
    chip = system.chip
    rate = chip.rate("bf16") * use.mfu
    flops = READ * facts["params"] * life.success

    def part(seconds: float, efficiency: float, bandwidth: float = 0.0) -> dict[str, Any] | None:
        return energy_of_run(seconds, bandwidth * seconds, use.mfu * efficiency * seconds, chip, grid)

    training_energy = part((facts["cost_pretrain"] + facts["cost_rl"]) / rate, 1.0)
    prompts = part(flops * life.prompt_tokens / use.prefill / rate, use.prefill)
    seconds = flops * life.answer_tokens / use.decode / rate
    ends = (0.0, 1.0) if use.bandwidth is None else (use.bandwidth, use.bandwidth)
    answers = part(seconds, use.decode, (ends[0] + ends[1]) / 2)
    least, most = (part(seconds, use.decode, end) for end in ends)
    if answers and least and most:
        answers["kwh_range"] = [least["kwh_range"][0], most["kwh_range"][1]]
    return energy_of_parts([training_energy, prompts, answers])


def _written_note(use: Efficiency) -> str:
    """What the energy of writing goes by."""
    if use.bandwidth is None:
        return (
            "writing is taken to use half of the memory's bandwidth, and between none and all of it in the range of "
            "the energy: name a --model to know it"
        )
    return f"writing uses {use.bandwidth:.0%} of the memory's bandwidth"


def published(law: LossLaw) -> list[dict[str, Any]]:
    """Over-training of published models under a law."""
    return [
        {
            "model": run.model,
            "date": run.date,
            "active": run.active,
            "tokens": run.tokens,
            "per_param": run.tokens / run.active,
            "overtraining": run.tokens / law.optimal_tokens(run.active),
            "inference_over_pretrain": split(law, run.tokens / law.optimal_tokens(run.active)),
            "source": run.source,
        }
        for run in law_files.trained()
    ]
