"""Hold answers against services that we ran ourselves: writes docs/accuracy-of-own-serving.md.

    python tools/device_serving.py MODELS OUT      # on the accelerator; lines of OUT/results.jsonl are the data
    python tools/own_serving.py                    # writes the README's line too

Each line of the data is one load of one server: what was asked, what ``vllm bench serve`` wrote of it, and, added by
hand from the server's log, what disturbed it. It is read as ``rackmath evidence add`` reads such a file, and simulated
as ``rackmath predict --explain`` says. No measurement near them is asked; what was chosen with them in sight, the page
says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headline import write_headline
from rackmath.api.memory import MemoryRequest, run_memory
from rackmath.api.predict import PredictRequest, run_prediction
from rackmath.api.simulated_rows import mean_of, request_of
from rackmath.api.simulation.result import run_simulation
from rackmath.units import counted
from rackmath.validation.bench_json import rows_of
from rackmath.validation.simulated import simulation_fields

RUNS, PAGE = Path("tests/data/h200_serving.jsonl"), Path("docs/accuracy-of-own-serving.md")
SYSTEM = "h200-sxm"
STARTS = (
    ("llama-3.1-8b", 15.0, 112.28, 919_824),
    ("qwen3-30b-a3b", 56.88, 68.18, 744_672),
    ("gpt-oss-20b", 13.03, 111.90, 2_676_951),
)
"""Of vLLM's log at the start: GiB of weights and of the cache, tokens of the cache."""
STEADY = 10.0
"""Seconds of a load from which its readings of power are those of the load, rather than of its start."""
VERSION, LONGEST = 0.26, 20_000
NUMBERS = {
    "end to end, mean": ("mean_e2el_ms", "latency", "mean", 1e-3),
    "per token, mean": ("mean_tpot_ms", "time_per_output_token", "mean", 1e-3),
    "per token, p50": ("p50_tpot_ms", "time_per_output_token", "p50", 1e-3),
    "per token, p99": ("p99_tpot_ms", "time_per_output_token", "p99", 1e-3),
    "first token, mean": ("mean_ttft_ms", "time_to_first_token", "mean", 1e-3),
    "first token, p50": ("p50_ttft_ms", "time_to_first_token", "p50", 1e-3),
    "first token, p99": ("p99_ttft_ms", "time_to_first_token", "p99", 1e-3),
}
"""What is compared: the key of the benchmark, that of the simulation, the statistic, and seconds in its unit."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """One load of one server, measured and simulated. Times in seconds, rates per second, power in watts."""

    name: str
    disturbed: str
    measured: Mapping[str, float]
    simulated: Mapping[str, float]
    inside: Mapping[str, bool]
    """Whether the measured time is in the range of the simulated one."""
    predicted: Mapping[str, float]
    """What ``predict`` says of the rows that ``evidence add`` makes of the file."""


def main() -> None:
    """Compare, write."""
    loads = [load_of(json.loads(line)) for line in RUNS.read_text(encoding="utf-8").splitlines()]
    PAGE.write_text("\n".join(page(loads)) + "\n", encoding="utf-8")
    clean = [load for load in loads if not load.disturbed]
    name = next(iter(NUMBERS))
    errors = np.abs([load.simulated[name] / load.measured[name] - 1 for load in clean])
    inside = np.mean([load.inside[name] for load in clean])
    shown = f"{len(clean)} | {np.median(errors):.1%} | {np.quantile(errors, 0.9):.0%} | {inside:.0%}"
    write_headline("own serving", shown)


def load_of(line: Mapping[str, Any]) -> Load:
    """One line of the data."""
    asked, result = line["asked"], line["result"]
    rows = rows_of(result, {"hardware": SYSTEM})
    query = mean_of(rows[0], 2)
    fields = simulation_fields(query)
    assert fields is not None, "one pool of equal replicas"
    facts = run_simulation(request_of(query, fields)).to_dict()
    measured = {name: result[key] * unit for name, (key, _, _, unit) in NUMBERS.items()}
    simulated = {name: facts[key][statistic] for name, (_, key, statistic, _) in NUMBERS.items()}
    ranges = {name: facts[key][f"{statistic}_range"] for name, (_, key, statistic, _) in NUMBERS.items()}
    predictions = run_prediction(PredictRequest(rows=rows, no_evidence=True)).predictions
    predicted = {
        f"{p.row.metric} {p.row.statistic}": p.predicted / p.row.value
        for p in predictions
        if p.row and p.row.value and p.predicted
    }
    users = counted(asked["users"], "user") if "users" in asked else f"{asked['rate']:g} a second"
    return Load(
        name=f"{line['model']}, {users}, {asked['input']:,} + {asked['output']} tokens, {asked['requests']} requests",
        disturbed=line.get("disturbed", ""),
        measured=measured
        | {"requests": result["request_throughput"]}
        | {"power": result["power"] if result["duration"] >= STEADY else np.nan},
        simulated=simulated
        | {"requests": facts["requests_per_second"], "power": facts["energy_kwh"] * 3.6e6 / facts["span"]},
        inside={name: low <= measured[name] <= high for name, (low, high) in ranges.items()},
        predicted=predicted,
    )


def page(loads: Sequence[Load]) -> Iterator[str]:
    """Lines of the page."""
    clean = [load for load in loads if not load.disturbed]
    yield from (
        "# Answers against services of our own",
        "",
        f"{len(loads)} loads of vLLM 0.26 on one NVIDIA H200 of 27 November 2026, with random weights and prompts:",
        "Llama 3.1 8B and Qwen3-30B-A3B in 16 bits, gpt-oss-20b in MXFP4, each server with its defaults, each load",
        "sent and timed by `vllm bench serve` on the same machine. Neither the machine nor the version stands in any",
        "table that constants were fitted to. Yet they are not unseen: one constant (`frontend`) has the prior of this",
        "server's own clocks, and how a burst is received was chosen with these loads in sight (29 November 2026,",
        "`docs/trials.md`). FlashInfer and DeepGEMM were not installed. Loads that were disturbed are shown, and left",
        "out of the first table.",
        "Written by `python tools/own_serving.py` from tests/data/h200_serving.jsonl (`tools/device_serving.py`).",
        "",
        f"## Simulated by physics alone, {len(clean)} loads",
        "",
        "| what | median error | largest | simulated over measured | inside the range |",
        "|---|---|---|---|---|",
    )
    for name in (*NUMBERS, "requests", "power"):
        ratios = np.array([load.simulated[name] / load.measured[name] for load in clean])
        ratios = ratios[np.isfinite(ratios)]
        errors = np.abs(ratios - 1)
        inside = f"{np.mean([load.inside[name] for load in clean]):.0%}" if name in NUMBERS else "-"
        shown = {"requests": "requests per second", "power": "power"}.get(name, name)
        yield f"| {shown} | {np.median(errors):.1%} | {errors.max():.0%} | {np.median(ratios):.2f} | {inside} |"
    yield from (
        "",
        f"Power is compared where a load lasted {STEADY:g} s and more, without the first quarter of its readings.",
        "",
        "## Load by load: simulated over measured",
        "",
        "| load | end to end | per token | first token | requests per second | power |",
        "|---|---|---|---|---|---|",
    )
    for load in loads:
        cells = [
            "-" if np.isnan(load.measured[name]) else f"{load.simulated[name] / load.measured[name]:.2f}"
            for name in ("end to end, mean", "per token, mean", "first token, mean", "requests", "power")
        ]
        yield f"| {load.name}{' *' if load.disturbed else ''} | {' | '.join(cells)} |"
    yield ""
    for reason in dict.fromkeys(load.disturbed for load in loads if load.disturbed):
        yield f"\\* {reason}."
    yield from lone_prompts(loads)
    yield from predicted_lines(clean)
    yield from memory_lines()


def lone_prompts(loads: Sequence[Load]) -> Iterator[str]:
    """Prompts of the mixture by themselves and eight together."""
    first = "first token, p50"
    single, eight = (
        next(x for x in loads if x.name.startswith(f"qwen3-30b-a3b, {counted(n, 'user')}, 1,000")) for n in (1, 8)
    )
    yield from (
        "",
        f"Where prompts of the mixture come one by one, each takes {1e3 * single.measured[first]:.0f} ms, and "
        f"{1e3 * single.simulated[first]:.0f} are said: outside of graphs the host",
        "starts the kernels of experts one after the other, and this machine's processor takes twice as long as those",
        f"of the published rows. Eight together hide it ({1e3 * eight.measured[first] / 8:.0f} ms a prompt).",
    )


def predicted_lines(clean: Sequence[Load]) -> Iterator[str]:
    """What ``predict`` says of the same files."""
    yield from (
        "",
        "## As rows of `predict`, by physics alone",
        "",
        "First tokens of closed loops of equal lengths are simulated; the other numbers are those of a steady state.",
        "",
        "| row | loads | median error | predicted over measured |",
        "|---|---|---|---|",
    )
    for name in dict.fromkeys(name for load in clean for name in load.predicted):
        ratios = np.array([load.predicted[name] for load in clean if name in load.predicted])
        yield f"| {name.strip()} | {len(ratios)} | {np.median(np.abs(ratios - 1)):.1%} | {np.median(ratios):.2f} |"


def memory_lines() -> Iterator[str]:
    """What the same servers said of their memory."""
    yield from (
        "",
        "## Memory after the start",
        "",
        f"`rackmath memory MODEL --on {SYSTEM} --engine-version {VERSION} --max-model-len {LONGEST}`:",
        "",
        "| model | weights | said | cache | said | tokens | said | error |",
        "|---|---|---|---|---|---|---|---|",
    )
    for model, weights, cache, tokens in STARTS:
        request = MemoryRequest(model=model, on=SYSTEM, engine_version=VERSION, max_model_len=LONGEST)
        facts = run_memory(request).facts
        said = facts["weights_bytes"] / 2**30, facts["cache_bytes"] / 2**30
        yield (
            f"| {model} | {weights:.2f} GiB | {said[0]:.2f} | {cache:.2f} GiB | {said[1]:.2f} | {tokens:,} | "
            f"{facts['cache_tokens']:,.0f} | {facts['cache_tokens'] / tokens - 1:+.1%} |"
        )


if __name__ == "__main__":
    main()
