"""Memory, fit and explore: what starts, which models run on what is there, and what an answer depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.explore import run_curve, run_elasticities
from rackmath.api.fit_request import FitRequest
from rackmath.api.fit_table import speed_table, speed_text
from rackmath.api.memory import MemoryRequest
from rackmath.hardware.changes import UNITS
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES
from rackmath.models.formats import CACHE_FORMATS, FORMATS, GGUF_FILES
from rackmath.units import show
from rackmath.web.inputs import (
    Model,
    Models,
    OtherEngineInputs,
    OtherNumbersInputs,
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

_GIB = 2**30
_MOST = 60
"""Lines of a table of what fits."""
_FORMATS, _CACHES = ("", *FORMATS), ("", *CACHE_FORMATS)
_FILES = ("", *GGUF_FILES, "fp8-channel", "nvfp4", "awq")
_NUMBERS = ("", *(name for name in UNITS if name != "domain"), "engine.host")


@asking(MemoryRequest)
class MemoryInputs(OtherNumbersInputs):
    """One start of an engine."""

    model: Model = named("llama-3.1-70b", "model", "model")
    on: System = named("h100-sxm", "system", "system")
    gpus: float | None = number(None, 1, 1024, "accelerators, or the fewest that hold it")
    layout: str = text("", "layout, or tensor parallel over all", hint="tp8,ep8,pp1,dp1")
    weights: Literal[_FORMATS] = choice("", "weights, or the config's")  # type: ignore[valid-type]
    kv: Literal[_CACHES] = choice("", "cache, or the config's")  # type: ignore[valid-type]
    engine: Literal["vllm", "sglang", "trtllm"] = choice("vllm", "engine")
    gpu_memory_utilization: float = slider(0.9, 0.3, 1, "part of the memory that it may take", log=False)
    max_model_len: float = slider(8192, 128, 1e6, "longest request", unit="tokens", whole=True)
    max_num_batched_tokens: float | None = number(None, 128, 131_072, "tokens of one pass, or the engine's own")
    max_num_seqs: float | None = number(None, 1, 4096, "sequences at once, or the engine's own")
    enforce_eager: bool = ticked(False, "capture no graphs")


_MEMORY = (
    ("what programs see", "visible_bytes"),
    ("the engine may take", "requested_bytes"),
    ("weights", "weights_bytes"),
    ("pass and sampling", "activation_bytes"),
    ("outside PyTorch", "other_bytes"),
    ("graphs", "graph_bytes"),
    ("cache", "cache_bytes"),
)


def memory(i: MemoryInputs) -> PageContent:
    """Parts of an accelerator's memory, tokens of cache, requests at once."""
    answer = answered("memory", MemoryRequest(**values_of(i, *MemoryInputs.__annotations__)))
    f = answer.facts
    tokens_low, tokens_high = f["cache_tokens_range"]
    least, most = f["concurrency_range"]
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=[
            ("layout", f"{f['layout']} on {f['gpus']} accelerators"),
            ("tokens of cache", f"{f['cache_tokens']:,.0f}, {tokens_low:,.0f} to {tokens_high:,.0f}"),
            ("requests of that length at once", f"{f['concurrency']:,.2f}, {least:,.2f} to {most:,.2f}"),
            ("blocks", f"{f['blocks']:,} of {f['block_size']} tokens"),
            *(() if f["fits"] else [("start", "less than one request fits: the engine does not start")]),
        ],
        tables=[
            Table(
                title="one accelerator, in GiB, as the engine's log counts it",
                columns=["", ">GiB", ">range"],
                rows=[(name, f"{f[key] / _GIB:.2f}", _gib(f[key + "_range"])) for name, key in _MEMORY],
            )
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f["assumptions"],
    )


def _gib(ends: Sequence[float]) -> str:
    low, high = (end / _GIB for end in ends)
    return f"{low:.2f} to {high:.2f}"


_OFTEN_RUN = "llama-3.1-8b, qwen3-4b, qwen3-8b, qwen3-14b, qwen3-32b, qwen3-30b-a3b, gpt-oss-20b, gemma-3-12b, phi-4"
"""Models that the page begins with: all of the catalogue in all formats take a dozen seconds."""


@asking(FitRequest)
class FitInputs(OtherEngineInputs):
    """What is there to run models on."""

    on: System = named("rtx-4090", "system", "system")
    gpus: float | None = number(None, 1, 1024, "accelerators, or one machine of them")
    models: Models = text(_OFTEN_RUN, "models; none for all of the catalogue", longest=400, hint="all of the catalogue")
    context: float = slider(8192, 128, 1e6, "tokens that each request holds", whole=True)
    batch: float = slider(1, 1, 1024, "requests at once", whole=True)
    tpot: float | None = number(None, 0.0001, 10, "limit of the time per token", unit="s")
    weights: Literal[_FILES] = choice("", "format, or those that the engine runs")  # type: ignore[valid-type]
    host_memory: float | None = number(None, 1, 100_000, "memory of the host that may hold weights", unit="GB")
    engine: Literal[("", *FAMILIES)] = choice("", "engine, or the one most measured there")  # type: ignore[valid-type]


def fit(i: FitInputs) -> PageContent:
    """Every model and format that fits, fastest first."""
    values = values_of(i, "on", "gpus", "models", "context", "batch", "tpot", "weights", "engine")
    if i.host_memory is not None:
        values["host_memory"] = f"{i.host_memory:g}GB"
    answer = answered("fit", FitRequest(**values))
    rows = answer.facts
    _, engine, left_out, notes = answer.result.details
    largest = max(rows, key=lambda row: (row["total_params"], row["tokens_per_second"]), default=None)
    pairs = [("engine", engine), ("combinations that fit", f"{len(rows)}; {len(left_out)} models do not")]
    if largest is not None:
        pairs += [("fastest", _speed_of(rows[0])), ("largest", _speed_of(largest))]
    return PageContent(
        figures=drawn(answer.result.picture()) if rows else [],
        pairs=pairs,
        tables=[_by_model(rows), _by_format(rows, i.batch)] if rows else [],
        facts=rows,
        command=answer.command,
        python=answer.python,
        notes=notes,
    )


def _speed_of(row: Mapping[str, Any]) -> str:
    return f"{row['model']} in {row['weights']}, {speed_text(row['tokens_per_second'])} tokens/s"


def _by_model(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = speed_table(rows, _MOST)
    title = f"{table.title}; *: a part of the weights stands on the host"
    return Table(title=title, columns=table.columns, rows=table.lines)


def _by_format(rows: Sequence[Mapping[str, Any]], batch: float) -> Table:
    first_rows = rows[:_MOST]
    return Table(
        title="each format" if len(first_rows) == len(rows) else f"the fastest {len(first_rows)} of {len(rows)}",
        columns=["model", "weights", ">tokens/s", ">90 % range", ">memory each", ">on the host", "evidence"],
        rows=[
            (
                row["model"],
                row["weights"],
                speed_text(row["tokens_per_second"]),
                f"{speed_text(batch / row['time_high'])} to {speed_text(batch / row['time_low'])}",
                show(row["memory"], "B"),
                show(row["offloaded_bytes"], "B") if row["offloaded_bytes"] else "",
                row["evidence"] or "",
            )
            for row in first_rows
        ],
    )


@asking(EstimateRequest, own_fields=("over", "low", "high"))
class ExploreInputs(OtherEngineInputs):
    """One decode or prefill pass, and the number whose effect is followed."""

    model: Model = named("llama-3.1-70b", "model", "model")
    on: System = named("h200-sxm", "system", "system")
    gpus: float = slider(4, 1, 1152, "accelerators", whole=True)
    layout: str = text("", "layout, or the fastest that fits", hint="tp8,ep8,pp1,dp1")
    batch: float = slider(64, 1, 65_536, "sequences", whole=True)
    context: float = slider(8192, 128, 1e6, "context or prompt", unit="tokens", whole=True)
    phase: Literal["decode", "prefill"] = choice("decode", "phase")
    weights: Literal[_FORMATS] = choice("", "weights, or the config's")  # type: ignore[valid-type]
    engine: Literal[FAMILIES] = choice(DEFAULT_ENGINE, "engine")  # type: ignore[valid-type]
    over: Literal[_NUMBERS] = choice("", "one number alone, or all")  # type: ignore[valid-type]
    low: float = slider(0.5, 0.05, 1, "from this part of it")
    high: float = slider(4, 1.1, 20, "to so many times it")


def explore(i: ExploreInputs) -> PageContent:
    """Elasticities of time, speed and cost, or their curves over one number."""
    fields = ("model", "on", "gpus", "layout", "batch", "context", "phase", "weights", "engine")
    request = EstimateRequest(**values_of(i, *fields))
    over = f"{i.over}={i.low:g}x..{i.high:g}x"
    run = partial(run_curve, over=over) if i.over else run_elasticities
    answer = answered("explore estimate", request, run)
    return PageContent(
        figures=drawn(answer.result.picture()),
        command=f"{answer.command} --over {over}" if i.over else answer.command,
        facts=answer.facts,
        **(_curve(answer.facts) if i.over else _strengths(answer.facts)),
    )


def _strengths(f: Mapping[str, Any]) -> dict[str, Any]:
    names = list(f["outcomes"])
    title = "relative change of the outcome over that of the number, the strongest first"
    rows = [
        (row["number"], *("" if row[name] is None else f"{row[name]:+.2f}" for name in names))
        for row in f["elasticities"]
    ]
    return {
        "pairs": [(name, _outcome(name, value)) for name, value in f["outcomes"].items() if value is not None],
        "tables": [Table(title=title, columns=["number", *(f">{name}" for name in names)], rows=rows)],
        "notes": [f"{row['number']}: {row['reason']}" for row in f["left_out"]],
    }


def _outcome(name: str, value: float) -> str:
    return show(value, "s") if name.startswith("time") else f"{value:.4g}"


def _curve(f: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in f["points"][0] if name not in ("value", "number")]
    rows = [
        (point["value"], *("" if point[name] is None else f"{point[name]:.4g}" for name in names))
        for point in f["points"]
    ]
    title = f"over {f['over']}"
    return {"tables": [Table(title=title, columns=[f">{f['over']}", *(f">{name}" for name in names)], rows=rows)]}


def views() -> list[View]:
    """Memory, fit, explore."""
    return [
        View(
            name="memory",
            title="What an engine leaves for the cache",
            about="Memory of each accelerator after a start, line by line, and the requests that the rest holds.",
            inputs=MemoryInputs,
            answer=memory,
            uploads="config",
        ),
        View(
            name="fit",
            title="Models and formats",
            about="Every model of the catalogue and every format that the accelerators hold, fastest first.",
            inputs=FitInputs,
            answer=fit,
            heavy=True,
        ),
        View(
            name="explore",
            title="Elasticities",
            about="An elasticity of -1 halves the outcome where the number doubles. One number alone has a curve.",
            inputs=ExploreInputs,
            answer=explore,
            heavy=True,
            uploads="config",
        ),
    ]
