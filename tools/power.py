"""Fit and score the power of accelerators: writes docs/accuracy-of-power.md.

    python tools/power.py ../shared/measured

Profiles of Splitwise (A100, pass by pass) and services of the ML.ENERGY leaderboard (vLLM on H100 and B200,
tests/data/ml_energy.csv). Splitwise's rows whose mean power is zero were not measured (all of H100's); its prompts of
8,192 tokens on Llama 2 70B report less than a quarter of the rated power, as idle accelerators do, and are left out.
Servers of MLPerf Power (tests/data/mlperf_power.csv: means of ``spl.txt`` between ``power_begin`` and ``power_end``)
are measured at the wall: they are held against the law of caps, and say what a server takes beside its accelerators.
What ML.ENERGY does not publish is the length of its prompts: ``PROMPTS`` are assumed.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import rackmath as rm
from headline import write_headline
from rackmath.errors import InputError
from rackmath.hardware import Chip
from rackmath.hardware.changes import changed_system
from rackmath.hardware.power import BYTE_ENERGY, COMPUTE_SHARE, STATIC_SHARE, capped_clock
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import multiplied_params, weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.operator import Pass
from rackmath.models.operators import operators
from rackmath.models.requantise import requantise

PAGE = Path("docs/accuracy-of-power.md")
SERVICES = Path("tests/data/ml_energy.csv")
SERVERS = Path("tests/data/mlperf_power.csv")
IDLE_SERVER = 2390.0
"""Power at the wall before and after these runs: eight idle H200 and their host. [W]"""
NAMES = {"llama-2-70b": "llama-2-70b", "bigscience/bloom": "bloom"}
PROMPTS = {"lm-arena-chat": 120.0, "gpqa": 250.0, "sourcegraph-fim": 2500.0}
"""Tokens of a prompt by task. [tokens]"""
CAPPED = {350: 9893, 300: 9326, 250: 8436, 200: 5941, 150: 2549}
"""Speed of prompts by the limit of an RTX 3090's power. Source: llmgarage.ai/power-limit-tokens-per-second-benchmark.
[tokens/s] by [W]"""
IDLE = 0.25
"""Part of the rated power below which accelerators stood still."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One profile or service: what it reads, part of the peak rate in use, part of the rated power that it takes."""

    chip: str
    model: str
    ranks: int
    memory: float
    """Bytes per second over the rated power. [B/J]"""
    compute: float
    measured: float


Grouping = Callable[[Run], object]

Array = NDArray[np.float64]


def main() -> None:
    """Fit, score, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    every = profiles(Path(sys.argv[1])) + services(SERVICES)
    PAGE.write_text(report(every), encoding="utf-8")
    left = left_out(every, lambda r: r.chip)
    write_headline("power", f"{len(every):,} | {np.median(left):.0%} | {np.quantile(left, 0.9):.0%}")


def profiles(folder: Path) -> list[Run]:
    """Splitwise's profiles on A100 with power and times."""
    times: defaultdict[str, dict[str, float]] = defaultdict(dict)
    with (folder / "rows.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"].startswith("Mutinifni/splitwise"):
                times[row["run_id"]][row["metric"]] = float(row["value"])
    with (folder / "other.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "power_mean_over_peak" and float(r["value"]) > IDLE]
    return [profile(row, times[row["run_id"]]) for row in rows if {"ttft", "tpot"} <= times[row["run_id"]].keys()]


def profile(row: dict[str, str], times: dict[str, float]) -> Run:
    """Bytes and FLOPs of a profile over what its time at peak rates would carry."""
    model, chip = catalogue.model(NAMES[row["model"]]), catalogue.system(row["hardware"]).chip
    ranks, batch, prompt, answer = (float(row[name]) for name in ("tp", "batch", "input_mean", "output_mean"))
    weights = sum(weight_bytes(model).values())
    cache = batch * float(cache_bytes(model, prompt + answer / 2))
    flops = 2 * multiplied_params(model) * batch
    total = times["ttft"] + (answer - 1) * times["tpot"]
    return Run(
        chip=chip.name,
        model=model.name,
        ranks=int(ranks),
        memory=((answer - 1) * (weights + cache) + weights) / ranks / total / (chip.power or np.nan),
        compute=(answer - 1 + prompt) * flops / ranks / chip.rate("bf16") / total,
        measured=float(row["value"]),
    )


def services(path: Path) -> list[Run]:
    """ML.ENERGY's services."""
    with path.open(encoding="utf-8") as file:
        return [service(row) for row in csv.DictReader(file)]


def service(row: dict[str, str]) -> Run:
    """Bytes and FLOPs of a step of decoding, and of the prompts that come in meanwhile, over those of its time."""
    chip = catalogue.system(row["system"]).chip
    model = catalogue.model(row["model"])
    if row["weights"] != "mxfp4":
        model = requantise(model, weights=weight_format(row["weights"]))
    names = ("gpus", "batch", "output_mean", "tokens_per_second", "watts")
    gpus, batch, answer, speed, watts = (float(row[name]) for name in names)
    prompt = PROMPTS[row["task"]]
    step = Pass(phase="decode", sequences=batch, new_tokens=1.0, context=prompt + answer / 2)
    read = Pass(phase="prefill", sequences=1.0, new_tokens=prompt, context=prompt)
    time = gpus * batch / speed
    return Run(
        chip=chip.name,
        model=model.name,
        ranks=int(gpus),
        memory=moved(model, step) / time / (chip.power or np.nan),
        compute=(multiplied(model, step, chip) + multiplied(model, read, chip) * batch / answer) / time,
        measured=watts / gpus / (chip.power or np.nan),
    )


def moved(model: Architecture, work: Pass) -> float:
    """Bytes of weights and caches that a pass reads and writes; fused kernels keep activations on chip. [B]"""
    parts = ("weight_bytes", "cache_read", "cache_written")
    return sum(float(np.sum(o.count * getattr(o, part))) for o in operators(model, work) for part in parts)


def multiplied(model: Architecture, work: Pass, chip: Chip) -> float:
    """Seconds at the peak rates of a pass on one accelerator. [s]"""
    return sum(float(np.sum(o.count * o.flops)) / chip.rate(o.compute) for o in operators(model, work))


def fitted(every: list[Run]) -> Array:
    """Least squares of the relative error, each accelerator counted alike: running, reading, multiplying."""
    known = np.array([[1.0, r.memory, np.sqrt(r.compute)] for r in every])
    measured = np.array([r.measured for r in every])
    chips = [r.chip for r in every]
    weight = np.array([chips.count(c) for c in chips]) ** -0.5 / measured
    return np.linalg.lstsq(known * weight[:, None], measured * weight, rcond=None)[0].astype(np.float64)


def share(constants: Array, r: Run) -> float:
    """Part of the rated power by these constants."""
    return min(1.0, float(constants @ [1.0, r.memory, np.sqrt(r.compute)]))


def left_out(every: list[Run], group: Grouping) -> Array:
    """Absolute errors of all runs, each with its group left out of the fit. (runs,)"""
    constants = {g: fitted([r for r in every if group(r) != g]) for g in {group(r) for r in every}}
    return np.array([abs(share(constants[group(r)], r) / r.measured - 1) for r in every])


def clock(watts: float) -> str:
    """Clock of an RTX 3090 at a cap, where the law holds."""
    chip = catalogue.system("rtx-3090").chip
    try:
        return f"{capped_clock(chip, watts):.2f}"
    except InputError:
        return "refused"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A run of MLPerf Power on eight H200 under a cap."""

    model: str
    scenario: str
    cap: float
    """Of each accelerator. [W]"""
    output: float
    speed: float
    uncapped: float
    """[tokens/s]"""
    wall: float
    """[W]"""

    @property
    def beside(self) -> float:
        """Power of a server beside accelerators that take their cap, over each of them. [W]"""
        return self.wall / 8 - self.cap


def servers(path: Path) -> list[Server]:
    """MLPerf Power's runs, closed division of round 4.1."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("cap_w", "output_mean", "tokens_per_second", "uncapped_tokens_per_second", "wall_w")
    return [
        Server(
            model=row["model"], scenario=row["scenario"], cap=cap, output=output, speed=speed, uncapped=most, wall=wall
        )
        for row in rows
        for cap, output, speed, most, wall in [[float(row[name]) for name in names]]
    ]


def slowed(run: Server) -> str:
    """Speed under the cap as a part of that without, by physics, or why nothing is said."""
    row = {
        "id": "capped",
        "model": run.model,
        "n_gpus": 8,
        "tp": 1,
        "replicas": 8,
        "engine": "trtllm",
        "date": "2024-07",
        "weights": "fp8",
        "kv": "fp8",
        "arrivals": "offline",
        "output_mean": run.output,
        "phase": "serving",
        "metric": "output_throughput",
        "per": "system",
        "value": run.speed,
        "benchmark": "mlperf-inference-v4.1",
        "scenario": "offline",
    }
    try:
        changed_system(catalogue.system("h200-sxm"), "power_cap", run.cap)
    except InputError:
        return "refused"
    full, capped = (
        rm.predict([row | {"hardware": f"h200-sxm{change}"}]).to_dict()["computed"]["bias"]
        for change in ("", f"[power_cap={run.cap:g}W]")
    )
    # Without the length of its prompts a service is declined.
    return "prompts not published" if full is None else f"{(1 + capped) / (1 + full):.2f}"


def server_lines(runs: list[Server]) -> list[str]:
    """The table of servers at the wall."""
    beside = [run.beside for run in runs]
    return [
        "## Servers at the wall",
        "",
        "MLPerf Inference v4.1, closed division with power: eight H200 of 700 W in one air-cooled server, limited to",
        "500 W (GPT-J: 350 W), TensorRT-LLM, the whole server measured at the wall while the test ran",
        "(mlcommons/inference_results_v4.1 at 198fc467, H200-SXM-141GBx8_TRT_MaxQ; tests/data/mlperf_power.csv). Where",
        "accelerators take their limit, the rest of the server (CPUs, fans, switches, network, losses of supplies)",
        f"takes {min(beside):.0f} to {max(beside):.0f} W for each of them; idle, the whole takes",
        f"{IDLE_SERVER / 1000:.1f} kW. Our energies are those of accelerators alone.",
        "Speeds are parts of those of the same server without limits. A",
        "service under a limit is slower than by the law, which leaves to what multiplies all but the power of",
        "waiting: memory that is read at the same time has its part first.",
        "",
        "| model | scenario | limit | wall | beside each accelerator | J per token at the wall | speed | by the law |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {run.model} | {run.scenario} | {run.cap:.0f} W | {run.wall:,.0f} W | {run.beside:.0f} W "
            f"| {run.wall / run.speed:.3f} | {run.speed / run.uncapped:.2f} | {slowed(run)} |"
            for run in runs
        ),
        "",
    ]


def report(every: list[Run]) -> str:
    """The page."""
    constants = "{:.3f}, {:.3g} J/B, {:.3f}".format(*fitted(every))
    used = np.array([STATIC_SHARE, BYTE_ENERGY, COMPUTE_SHARE])
    ways: list[tuple[str, Array]] = [
        ("the accelerator left out of the fit", left_out(every, lambda r: r.chip)),
        ("the model left out of the fit", left_out(every, lambda r: r.model)),
        ("as shipped", np.array([abs(share(used, r) / r.measured - 1) for r in every])),
    ]
    profiled = sum("A100" in r.chip for r in every)
    lines = [
        "# Accuracy of power",
        "",
        f"{profiled} profiles of Llama 2 70B and BLOOM on A100 (Mutinifni/splitwise-sim at 8f99e7d), of prompts from",
        f"128 to 8,192 tokens and batches from 1 to 16, and {len(every) - profiled} services of vLLM on H100 and B200",
        f"(ml-energy/leaderboard at 0cd52da, tests/data/ml_energy.csv): {len({r.model for r in every})} models,",
        "batches from 1 to 1,500. Running takes a part of the rated power, reading an energy per byte, multiplying a",
        "part of the rated power that grows as the root of the part of the peak in use; bytes and FLOPs a second come",
        f"from the measured times. Least squares gives running, reading, multiplying: {constants};",
        f"used are {STATIC_SHARE}, {BYTE_ENERGY:.3g} J/B, {COMPUTE_SHARE}.",
        "Written by `python tools/power.py ../shared/measured`.",
        "",
        "| | median error | 90th percentile | largest | within 25 % |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {np.median(e):.1%} | {np.quantile(e, 0.9):.1%} | {e.max():.1%} | {np.mean(e < 0.25):.0%} |"
            for name, e in ways
        ),
        "",
        "| accelerator | runs | measured | as shipped | median error, it left out | 90th percentile |",
        "|---|---|---|---|---|---|",
    ]
    for chip in sorted({r.chip for r in every}):
        here = np.array([r.chip == chip for r in every])
        runs = [r for r in every if r.chip == chip]
        said, seen = [share(used, r) for r in runs], [r.measured for r in runs]
        errors = ways[0][1][here]
        lines.append(
            f"| {chip} | {len(runs)} | {min(seen):.2f} to {max(seen):.2f} | {min(said):.2f} to {max(said):.2f} "
            f"| {np.median(errors):.1%} | {np.quantile(errors, 0.9):.1%} |"
        )
    lines += [
        "",
        "ML.ENERGY does not publish how long its prompts are; assumed are "
        + ", ".join(f"{n:,.0f} tokens ({task})" for task, n in PROMPTS.items())
        + ".",
        "Other generations have no rows: their ranges are wider. All ranges end at the rated power.",
        "",
        "## Caps",
        "",
        "`--set power_cap=250W` lowers the clock of what multiplies; memory keeps its own. Prompts of MiniMax-M2.5 on",
        "six RTX 3090 by llama.cpp at lowered limits (llmgarage.ai, February 2026), as parts of the speed at 350 W.",
        "Below 0.7 of the rated power the clock falls faster than the law, so such caps are refused.",
        "",
        "| cap | measured | law |",
        "|---|---|---|",
        *(f"| {watts} W | {speed / CAPPED[350]:.2f} | {clock(watts)} |" for watts, speed in CAPPED.items()),
        "",
        *server_lines(servers(SERVERS)),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
