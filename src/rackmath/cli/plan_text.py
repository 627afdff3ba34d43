"""A plan as text: the best point, the frontier, why others lose, how to launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rackmath.api.summary import plan_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import energy_text
from rackmath.figures.pictures import frontier_figure
from rackmath.units import show

_ROWS = 14


def _range(point: Mapping[str, Any], name: str, unit: str = "") -> str:
    value, low, high = (point[name + end] for end in ("", "_low", "_high"))
    if value is None:
        return "unknown: give --usd-per-gpu-hour"
    return show(value, unit) + ("" if low == high else f" ({show(low, unit)} to {show(high, unit)})")


def show_plan(facts: Mapping[str, Any], explain: bool) -> None:
    """Print a plan; ``explain`` adds the equations and where accelerator time goes."""
    rows, best = facts["frontier"], facts["best"]
    render.show_note(f"plan: {facts['evaluated']:,} configurations in {facts['seconds']:.2f} s")
    render.show_title(
        f"{facts['model']} on up to {facts['gpus']} x {facts['system']}: {facts['evaluated']:,} configurations, "
        f"{facts['fitting']:,} fit and have a steady state"
    )
    if best is None:
        render.show_lines("no deployment keeps the limits", [facts["reason"]])
    else:
        render.show_lines("in short", plan_summary(facts))
        _show_best(best, facts["energy"])
    shown_rows = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).round().astype(int))]
    render.show_table(
        "frontier (fastest first)",
        [">tok/s/GPU", ">tok/s/user", ">TTFT", ">$/M out", ">batch", ">draft", "weights,kv", "bound by", "deployment"],
        [
            (
                f"{r['tokens_per_second_per_gpu']:.0f}",
                f"{r['tokens_per_second_per_user']:.1f}",
                show(r["time_to_first_token"], "s"),
                "-" if r["usd_per_million_output_tokens"] is None else f"{r['usd_per_million_output_tokens']:.2f}",
                f"{r['batch']:.0f}",
                f"{r['draft_tokens']:.0f}",
                f"{r['weights']},{r['kv']}",
                r["bound_by"],
                _deployment(r),
            )
            for r in shown_rows
        ],
    )
    render.show_sketch(frontier_figure(facts, panels=1))
    if best is not None:
        _show_choice(facts, explain)
    render.show_lines("assumed", facts["assumptions"])


def _deployment(point: Mapping[str, Any]) -> str:
    """Workers of a point, and the accelerators that encode images for them."""
    encoders = point.get("encoders")
    return f"{point['units']:.0f} x ({point['layout']})" + (f" + {encoders:.0f} encode" if encoders else "")


def _show_choice(facts: Mapping[str, Any], explain: bool) -> None:
    """Why this one, how to launch it, and where its accelerator time goes."""
    render.show_table(
        "why others lose under the limits",
        [">behind", "spends more accelerator time on (parts of the best's)", "stopped by", "deployment"],
        [
            (
                f"{x['behind']:.1%}",
                x["spends_more_on"],
                x["stopped_by"],
                f"{_deployment(x)} {x['weights']},{x['kv']} draft {x['draft_tokens']:.0f}",
            )
            for x in facts["runners_up"]
        ],
    )
    _show_launch(facts["launch"], facts["engine"])
    if explain:
        _explain(facts)


def _show_best(best: Mapping[str, Any], energy: Mapping[str, Any] | None) -> None:
    render.show_pairs(
        "best under the limits",
        [
            ("deployment", f"{_deployment(best)}, {best['gpus']:.0f} GPUs"),
            ("formats", f"weights {best['weights']}, cache {best['kv']}"),
            (
                "batch",
                f"{best['batch']:.0f} sequences per worker, {best['concurrency']:.0f} requests in all; "
                f"chunk {_chunk(best)}, {best['draft_tokens']:.0f} draft tokens",
            ),
            ("tokens/s per GPU", _range(best, "tokens_per_second_per_gpu")),
            ("tokens/s per user", _range(best, "tokens_per_second_per_user")),
            ("time to first token", _range(best, "time_to_first_token", "s")),
            ("time per output token", _range(best, "time_per_output_token", "s")),
            ("requests per second", f"{best['requests_per_second']:.3g}"),
            ("$ per million output", _range(best, "usd_per_million_output_tokens")),
            *([("energy", energy_text(energy))] if energy is not None else []),
            ("stopped by", f"{best['stopped_by']}, {best['used']:.0%} used"),
        ],
    )


def _chunk(point: Mapping[str, Any]) -> str:
    """Tokens of a pass at most; of two pools where they differ."""
    prefill, decode = point["chunk"], point["decode_chunk"]
    return f"{prefill:.0f}" if prefill == decode else f"{prefill:.0f} in prefill and {decode:.0f} in decode"


_COMMANDS = {"vllm": ("vllm", "sglang"), "sglang": ("sglang", "vllm")}
"""Engines whose commands are printed in full, by the engine that is planned."""
_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


def _show_launch(launch: Mapping[str, Any], engine: str | None) -> None:
    """Commands of the planned engine; vLLM's and SGLang's stand beside each other."""
    whole = [name for name in _COMMANDS.get(engine or "vllm", (engine or "vllm",)) if name in launch]
    for name in whole:
        render.show_script(f"launch with {name}", launch[name])
    for name, title in _NAMES.items():
        if name in launch and name not in whole:
            render.show_title(f"with {title}: see launch.{name} with --json")
    if "kubernetes" in launch:
        render.show_title("as a Kubernetes resource: see launch.kubernetes with --json")
    render.show_lines("what the flags do not say", launch["notes"])


def _explain(facts: Mapping[str, Any]) -> None:
    render.show_bars("accelerator time per output token of the best", facts["spent"], lambda v: show(v, "s"))
    render.show_lines(
        "how",
        (
            "time per output token = step / accepted + prompts met per token x what one adds to a step",
            "users C = B (answer + first) / answer; first = arrival + prompt + step + prompts met meanwhile",
            "throughput = units x B / (output x time per output token), per accelerator in use",
            "two pools: writers at batch B need B / (output x tpot) prompts per second; readers must keep up",
        ),
    )


_BENCHMARKS = {
    "vllm": ("measure it under vLLM", "measure it with vLLM's benchmark"),
    "sglang": ("measure it under SGLang", ""),
    "guidellm": ("or with guidellm, under either", "or with guidellm"),
}
"""Titles where vLLM and SGLang are launched, and where another engine is."""


def show_verification(facts: Mapping[str, Any]) -> None:
    """Print the benchmarks that check a plan, what to expect of them, and how to keep what they measure."""
    under_either = "sglang" in facts
    for name, (title, elsewhere) in _BENCHMARKS.items():
        if name in facts:
            render.show_script(title if under_either else elsewhere, facts[name])
    render.show_table(
        "what to expect",
        ["metric", ">expected", ">from", ">to"],
        [(row["metric"], *(f"{row[key]:.4g}" for key in ("value", "low", "high"))) for row in facts["expected"]],
    )
    render.show_lines("of what", [facts["expected_of"]])
    render.show_script("then see whether it is so, and keep it", facts["keep"])
    render.show_script("and plan again with it", facts["again"])
