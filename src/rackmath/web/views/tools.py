"""Estimate and plan: one pass, and every deployment of a model on a budget of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan_question import PlanRequest
from rackmath.figures import COLOURS, Figure, Panel, Series
from rackmath.figures.plotly import whiskers
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.models.formats import CACHE_FORMATS, FORMATS
from rackmath.units import show
from rackmath.web.inputs import (
    Model,
    OtherEngineInputs,
    System,
    asking,
    choice,
    named,
    number,
    slider,
    text,
    ticked,
    values_of,
)
from rackmath.web.shown import PageContent, Table, View, answered, drawn

_FORMATS, _CACHES = ("", *FORMATS), ("", *CACHE_FORMATS)


@asking(EstimateRequest, own_fields=("picture",))
class EstimateInputs(OtherEngineInputs):
    """One decode or prefill pass."""

    model: Model = named("deepseek-v3", "model", "model")
    on: System = named("h200-sxm", "system", "system")
    gpus: float = slider(8, 1, 1152, "accelerators", whole=True)
    layout: str = text("", "layout, or the fastest that fits", hint="tp8,ep8,pp1,dp1")
    batch: float = slider(64, 1, 65_536, "sequences", whole=True)
    context: float = slider(8192, 128, 1e6, "context or prompt", unit="tokens", whole=True)
    phase: Literal["decode", "prefill"] = choice("decode", "phase")
    weights: Literal[_FORMATS] = choice("", "weights, or the config's")  # type: ignore[valid-type]
    kv: Literal[_CACHES] = choice("", "cache, or the config's")  # type: ignore[valid-type]
    engine: Literal[FAMILIES] = choice(DEFAULT_ENGINE, "engine")  # type: ignore[valid-type]
    year: float = slider(NOW, 2022, 2027, "when its version is from", log=False)
    draft_tokens: float = slider(0, 0, 8, "draft tokens of a step", log=False, whole=True)
    ideal: bool = ticked(False, "the pure bound")
    picture: Literal["batch", "step", "rack", "roofline", "memory"] = choice("batch", "picture")


def estimate(i: EstimateInputs) -> PageContent:
    """Time with its range, what binds, memory, cost."""
    fields = ["model", "on", "gpus", "layout", "batch", "context", "phase", "weights", "kv", "engine", "year", "ideal"]
    if i.phase == "decode":
        fields.append("draft_tokens")
    answer = answered("estimate", EstimateRequest(**values_of(i, *fields)))
    f = answer.facts
    return PageContent(
        figures=[*drawn(answer.result.picture(i.picture)), _parts("where the time goes", {**f["terms"], **f["lost"]})],
        pairs=[
            ("layout", f["layout"]),
            *(_speed(f) if f["fits"] else ()),
            ("memory", _memory(f)),
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f["assumptions"],
    )


def _speed(f: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost = f["usd_per_million_tokens"]
    return [
        ("time of a pass", f"{show(f['time'], 's')}, {show(f['time_low'], 's')} to {show(f['time_high'], 's')}"),
        ("the bound alone", show(f["time_ideal"], "s")),
        ("what binds", f["bound_by"]),
        ("tokens/s", f"{f['tokens_per_second']:,.0f}; {f['tokens_per_second_per_gpu']:,.0f} per accelerator"),
        ("cost", "no price is known" if cost is None else _range(f, "usd_per_million_tokens", "$ per million tokens")),
    ]


def _memory(f: Mapping[str, Any]) -> str:
    m = f["memory"]
    parts = ", ".join(f"{name} {show(m[name], 'B')}" for name in ("weights", "cache", "activations"))
    return f"{'fits' if f['fits'] else 'does not fit'}: {parts} of {show(m['capacity'], 'B')}"


def _range(f: Mapping[str, Any], key: str, unit: str) -> str:
    return f"{f[key]:.3g} {unit}, {f[f'{key}_low']:.3g} to {f[f'{key}_high']:.3g}"


def _parts(title: str, parts: Mapping[str, float]) -> dict[str, Any]:
    positive_parts = sorted(((name, value) for name, value in parts.items() if value > 0), key=lambda pair: pair[1])
    return {
        "title": title,
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [value * 1e3 for _, value in positive_parts],
                "y": [name for name, _ in positive_parts],
                "marker": {"color": COLOURS[0]},
                "showlegend": False,
                "name": "ms",
            }
        ],
        "layout": {"xaxis": {"title": {"text": "ms"}}, "yaxis": {"automargin": True}},
    }


@asking(PlanRequest)
class PlanInputs(OtherEngineInputs):
    """A budget of accelerators, requests, limits."""

    model: Model = named("deepseek-v3", "model", "model")
    on: System = named("h200-sxm", "system", "system")
    gpus: float = slider(32, 1, 144, "accelerators at most", whole=True)
    input: float = slider(4000, 16, 200_000, "tokens of a prompt", whole=True)
    output: float = slider(1000, 1, 50_000, "tokens of an answer", whole=True)
    ttft: float | None = number(2.0, 0.01, 600, "limit of the time to the first token", unit="s")
    tpot: float | None = number(0.05, 0.001, 10, "limit of the time per token", unit="s")
    cached_prefix: float = slider(0, 0, 0.99, "part of a prompt that is cached", log=False)
    weights: Literal[_FORMATS] = choice("", "weights, or what the chip has")  # type: ignore[valid-type]
    kv: Literal[_CACHES] = choice("", "cache, or what the chip has")  # type: ignore[valid-type]
    engine: Literal["vllm", "sglang", "trtllm"] = choice(DEFAULT_ENGINE, "engine")
    one_pool: bool = ticked(False, "one pool only")


def plan(i: PlanInputs) -> PageContent:
    """Frontier, the best under limits, launch commands."""
    fields = (
        "model",
        "on",
        "gpus",
        "input",
        "output",
        "ttft",
        "tpot",
        "cached_prefix",
        "weights",
        "kv",
        "engine",
        "one_pool",
    )
    answer = answered("plan", PlanRequest(**values_of(i, *fields)))
    f = answer.facts
    best = f["best"]
    pairs = [
        ("configurations", f"{f['evaluated']:,}, of which {f['fitting']:,} fit; searched in {show(f['seconds'], 's')}")
    ]
    if best is None:
        pairs.append(("best under the limits", f["reason"]))
    else:
        pairs += [
            (
                "best under the limits",
                f"{best['units']:.0f} x ({best['layout']}), batch {best['batch']:.0f}, {best['weights']}",
            ),
            ("tokens/s per accelerator", _plain_range(best, "tokens_per_second_per_gpu")),
            ("tokens/s of a user", _plain_range(best, "tokens_per_second_per_user")),
            ("time to the first token", show(best["time_to_first_token"], "s")),
            ("stopped by", str(best.get("stopped_by", ""))),
        ]
    # Where nothing keeps the limits there is a frontier without points, and no cost.
    speed, *cost = drawn(answer.result.picture())
    speed["points"] = f["frontier"]
    # A speed is one over the time per token, which the field holds.
    speed["limit"] = None if i.tpot is None else {"field": "tpot", "at": 1 / i.tpot, "inverse": True}
    return PageContent(
        figures=[speed, _first_tokens(f, i.ttft), *cost],
        pairs=pairs,
        tables=[_runners(f)] if f["runners_up"] else [],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f["assumptions"],
    )


def _plain_range(point: Mapping[str, Any], key: str) -> str:
    return f"{show(point[key])}, {show(point[f'{key}_low'])} to {show(point[f'{key}_high'])}"


def _first_tokens(f: Mapping[str, Any], limit: float | None) -> dict[str, Any]:
    """Deployments of the frontier by the time that a user waits for the first token."""
    points = f["frontier"]
    waits = [point["time_to_first_token"] for point in points]
    deployments = Series(
        name="deployments",
        x=waits,
        y=[point["tokens_per_second_per_gpu"] for point in points],
        kind="points",
        labels=[f"{point['units']:.0f} x ({point['layout']}), batch {point['batch']:.0f}" for point in points],
        colour=1,
    )
    panel = Panel(across="time to the first token [s]", up="output tokens/s per GPU", series=[deployments])
    (figure,) = drawn(Figure(title=panel.up, panels=[panel]))
    low, high = ([point[f"time_to_first_token_{end}"] for point in points] for end in ("low", "high"))
    figure["data"][0]["error_x"] = whiskers(waits, low, high)
    figure["layout"]["xaxis"]["rangemode"] = "tozero"
    figure["points"] = points
    figure["limit"] = None if limit is None else {"field": "ttft", "at": limit, "inverse": False}
    return figure


def _runners(f: Mapping[str, Any]) -> Table:
    return Table(
        title="why others lose",
        columns=["deployment", ">behind", "spends more on", "stopped by"],
        rows=[
            (
                f"{runner['units']:.0f} x ({runner['layout']})",
                f"{runner['behind']:.0%}",
                runner["spends_more_on"],
                runner["stopped_by"],
            )
            for runner in f["runners_up"]
        ],
    )


def views() -> list[View]:
    """Estimate, plan."""
    return [
        View(
            name="estimate",
            title="One pass",
            about="Time, what binds, memory and cost of one pass, with ranges.",
            inputs=EstimateInputs,
            answer=estimate,
            uploads="config",
        ),
        View(
            name="plan",
            title="A deployment",
            about="Drag the dashed lines: they are the limits of the time per token and to the first one.",
            inputs=PlanInputs,
            answer=plan,
            heavy=True,
            uploads="config",
        ),
    ]
