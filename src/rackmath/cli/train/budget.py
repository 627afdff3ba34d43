"""``train budget``: size and tokens of least cost over a model's life."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath import catalogue, law_files
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, Whole
from rackmath.cli.train.budget_text import equations, figure, show_budget, show_known
from rackmath.cli.train.rates import PLAIN, efficiency
from rackmath.errors import InputError
from rackmath.figures.write import check_picture
from rackmath.hardware import System
from rackmath.training.budget import TRAIN, Budget, Life, at_equal_cost, budget, cheapest, equal_costs, split
from rackmath.training.scaling_laws import LAWS, LossLaw, critical_overhead, law
from rackmath.units import parse

_AT = (0.05, 0.5, 0.95)
_FIELDS = ("params", "tokens", "overtraining", "cost_pretrain", "cost_rl", "cost_inference")


@click.command("budget", epilog="Example: rackmath train budget --law besiroglu --loss 2.0 --inference-tokens 1e13")
@click.option("--law", "name", default="besiroglu", show_default=True, help=f"One of {', '.join(LAWS)}.")
@click.option("--loss", type=NUMBER, help="Loss to reach, in the law's nats per token.")
@click.option("--params", help="Size of a model whose loss is to be reached, as 70B.")
@click.option("--tokens", help="Its tokens, as 1.4T.")
@click.option("--inference-tokens", default="0", show_default=True, help="That the model writes in its life, as 10T.")
@click.option("--prompt-tokens", default="0", show_default=True, help="That it reads.")
@click.option("--decode-efficiency", type=NUMBER, help="Of writing, over training's (default: 1, or --model's).")
@click.option("--prefill-efficiency", type=NUMBER, help="Of reading prompts (default: 1, or --model's).")
@click.option("--model", metavar="MODEL", help="With --on: take efficiencies from the engine, for a model like this.")
@click.option("--gpus", type=Whole(1, 1_000_000), default=512, show_default=True, help="That train it.")
@click.option("--serving-gpus", type=Whole(1, 100_000), default=8, show_default=True, help="Of one server.")
@click.option("--prompt", type=NUMBER, default=2000.0, show_default=True, help="Mean tokens of a prompt it is served.")
@click.option("--answer", type=NUMBER, default=500.0, show_default=True, help="Mean tokens of an answer.")
@click.option("--rl-share", type=NUMBER, default=0.0, show_default=True, help="Cost of RL over pre-training's.")
@click.option("--success", type=NUMBER, default=1.0, show_default=True, help="Chance that the model is used at all.")
@click.option("--known", is_flag=True, help="Over-training of published models under the law instead.")
@click.option("--on", "on", metavar="SYSTEM", help="Count accelerator hours and dollars on it.")
@click.option("--mfu", type=NUMBER, help="Utilisation of training, with --on (default: 0.4, or --model's).")
@click.option("--plot", metavar="FILE", help="Draw cost against size at this loss: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def budget_command(
    name: str,
    loss: float | None,
    params: str | None,
    tokens: str | None,
    inference_tokens: str,
    prompt_tokens: str,
    decode_efficiency: float | None,
    prefill_efficiency: float | None,
    model: str | None,
    gpus: int,
    serving_gpus: int,
    prompt: float,
    answer: float,
    rl_share: float,
    success: float,
    known: bool,
    on: str | None,
    mfu: float | None,
    plot: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Parameters and tokens of least cost at a fixed loss, beside the lecture's equal costs; over-training.

    The loss is given, or that of a model of --params trained on --tokens. Costs are FLOPs at training's utilisation.
    """
    drawn = check_picture(plot)
    found = law(name)
    if known:
        show_known(found, as_json)
        return
    system = None if on is None else catalogue.system(on)
    use = PLAIN
    if model is not None:
        if system is None:
            raise InputError("--model", model, "name the accelerators as well: --on SYSTEM")
        use = efficiency(
            catalogue.model(model), system, gpus=gpus, serving_gpus=serving_gpus, prompt=prompt, answer=answer
        )
    use = use.with_given(mfu=mfu, decode=decode_efficiency, prefill=prefill_efficiency)
    life = Life(
        prompt_tokens=parse(prompt_tokens, "1", "--prompt-tokens"),
        answer_tokens=parse(inference_tokens, "1", "--inference-tokens"),
        decode_efficiency=use.decode,
        prefill_efficiency=use.prefill,
        rl_share=rl_share,
        success=success,
    )
    base = _base(found, loss, params, tokens)
    facts = _facts(found, base, life)
    facts["efficiency"] = {"decode": use.decode, "prefill": use.prefill}
    facts["assumptions"] = [use.note] if use.note else []
    if system is not None:
        facts["hardware"] = _hardware(system, use.mfu, facts)
    if drawn is not None:
        save(figure(found, facts, life), drawn)
    if as_json:
        render.show_json(facts)
        return
    show_budget(found, facts)
    if explain:
        render.show_lines("equations", equations(found, facts))


def _base(found: LossLaw, loss: float | None, params: str | None, tokens: str | None) -> tuple[float, float]:
    """A model of the loss in question: the one that is given, or the compute optimum."""
    if (loss is None) == (params is None) or (params is None) != (tokens is None):
        raise InputError("--loss", loss, "give --loss, or --params and --tokens")
    if params is not None and tokens is not None:
        return parse(params, "1", "--params"), parse(tokens, "1", "--tokens")
    best = cheapest(found, float("nan") if loss is None else loss, Life())
    return best.params, best.tokens


def _facts(found: LossLaw, base: tuple[float, float], life: Life) -> dict[str, Any]:
    given = budget(found, *base, life)
    best = cheapest(found, given.loss, life)
    plain = cheapest(found, given.loss, Life())
    facts: dict[str, Any] = {
        "law": found.name,
        **_plain(best),
        "heuristic": None,
        "compute_optimal": _plain(budget(found, plain.params, plain.tokens, life)),
        "given": _plain(given),
        "inference_over_pretrain": best.cost_inference / best.cost_pretrain,
        "equal_cost_overtraining": at_equal_cost(found),
        "at_10x": split(found, 10.0),
        "at_100x": split(found, 100.0),
        "critical_part": _critical(found, TRAIN * plain.params * plain.tokens),
        "ranges": _ranges(found, base, life),
        "outside": list(best.outside),
        "warning": found.warning,
        "source": found.source,
    }
    if life.read > 0:
        try:
            facts["heuristic"] = _plain(equal_costs(found, given.loss, life))
            facts["heuristic"]["over_best"] = facts["heuristic"]["total"] / best.total
        except InputError as error:
            facts["heuristic_fails"] = error.way_out
    return facts


def _plain(one: Budget) -> dict[str, Any]:
    return {**{field: getattr(one, field) for field in (*_FIELDS, "loss")}, "total": one.total}


def _critical(found: LossLaw, flops: float) -> float:
    """Part of the optimal size that costs twice the optimal compute."""
    low, high = 0.01, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if critical_overhead(found, flops, middle) > 1 else (low, middle)
    return high


def _ranges(found: LossLaw, base: tuple[float, float], life: Life) -> dict[str, Any] | None:
    """90 % ranges over resamples of the law's runs; None for laws whose runs are not at hand."""
    if found.name != law_files.RESAMPLED:
        return None
    drawn = [cheapest(one, float(one.loss(*base)), life) for one in law_files.resampled()]
    columns = {field: np.array([getattr(one, field) for one in drawn]) for field in _FIELDS}
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
