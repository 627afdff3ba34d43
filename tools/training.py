"""Hold training runs that papers and vendors published against ``train``'s steps.

python tools/training.py ../shared    # seconds

Writes docs/accuracy-of-training.md. Megatron-Bridge's runs are in the table that the constants were fitted on, the
others are not; rows of that table are taken as predicted without their (model, chip), from docs/generated/left_out.csv.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.timer import engine_timer
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.training import TrainingRun, step_time
from rackmath.training.activations import repeated

ROOT = Path(__file__).parent.parent
NAMES = {
    "GPT OSS 120B": "gpt-oss-120b", "Qwen3_30B_a3B": "qwen3-30b-a3b", "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "LLAMA3.1_405B": "llama-3.1-405b", "DeepSeekV3": "deepseek-v3", "Kimi_K2": "kimi-k2",
    "Nemotron_3_Nano": "nemotron-3-nano", "Nemotron_3_Super": "nemotron-3-super",
    "Nemotron_3_Ultra": "nemotron-3-ultra",
}  # fmt: skip
SYSTEMS = {
    "DGX-GB200": "gb200-nvl72", "DGX-GB300": "gb300-nvl72", "DGX-B300": "b300-sxm", "DGX-H100": "h100-sxm",
}  # fmt: skip


_LARGE = (
    ("530B", 20_480, 128, 105, 35, 280, 3, (("full", 49.05), ("sp+selective", 37.83))),
    ("1T", 25_600, 160, 128, 64, 512, 1, (("full", 94.42), ("sp+selective", 71.49))),
)
"""Korthikanti et al. 2022, table 5, beside the four rows of the shared table: hidden width, heads, layers, stages,
batch, chunks, times of an iteration in seconds. Layouts as in calculon's validation (Isaev et al. 2023)."""
CALCULON = 0.0365
"""Mean error that calculon states for the eight rows of that table."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A published run and what it took."""

    group: str
    name: str
    model: Architecture
    system: System
    run: TrainingRun
    year: float
    framework: str
    measured: float
    """Time of a step. [s]"""
    stage: str = ""
    """balanced where routing was made even (see :class:`~rackmath.engine.constants.EngineVersion`)."""


def main() -> None:
    """Predict, compare, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with (Path(sys.argv[1]) / "training/validation.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[tuple[Case, float, float, float]]] = defaultdict(list)
    for case in cases(rows):
        found[case.group].append((case, *predicted(case)))
    with (Path(sys.argv[1]) / "measured/rows.csv").open(encoding="utf-8") as file:
        measured = {
            row["id"]: float(row["value"])
            for row in csv.DictReader(file)
            if row["value"] and row["phase"] == "training"
        }
    with (ROOT / "docs/generated/left_out.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    apart = [float(row["model on chip"]) / measured[row["id"]] - 1 for row in rows if row["id"] in measured]
    (ROOT / "docs/accuracy-of-training.md").write_text(report(found, apart), encoding="utf-8")


def cases(rows: list[dict[str, str]]) -> Iterator[Case]:
    """Runs that the table states in full."""
    for row in rows:
        said = dict(part.split("=", 1) for part in row["config"].split(";") if "=" in part)
        value = float(row["value"])
        if row["kind"] == "megatron-bridge-pretrain" and row["metric"] == "tokens_per_s_per_gpu":
            yield bridge(said, value)
        elif row["kind"] == "iteration-time":
            yield korthikanti(said, value)
        elif row["kind"] == "megatron-weak-scaling" and row["metric"] == "tflops_per_gpu":
            yield weak_scaling(said, value)
        elif row["kind"] == "zb-throughput" and said["schedule"] in ("1F1B", "1F1B-I"):
            yield zero_bubble(said, value)
        elif row["kind"] == "llama3-mfu" and row["metric"] == "tflops_per_gpu":
            yield llama(said, value)
    for model, hidden, heads, layers, stages, batch, chunks, times in _LARGE:
        for way, value in times:
            said = {"model": model, "hidden": hidden, "heads": heads, "layers": layers, "seq": 2048, "tp": 8}
            said |= {"pp": stages, "global_batch": batch, "microbatch": 1, "interleave": chunks, "recompute": way}
            yield korthikanti({key: str(one) for key, one in said.items()}, value)


def gpt(said: dict[str, str], vocabulary: int) -> Architecture:
    """A GPT of Megatron's kind."""
    return read_config(
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": int(said["hidden"]),
            "n_layer": int(said["layers"]),
            "n_head": int(said["heads"]),
            "n_positions": int(said["seq"]),
            "vocab_size": vocabulary,
            "torch_dtype": "bfloat16",
        },
        said.get("model", f"GPT {said.get('params_b')}B"),
    )


def bridge(said: dict[str, str], value: float) -> Case:
    """Megatron-Bridge: everything is stated."""
    gpus, batch, length = int(said["gpus"]), float(said["gbs"]), float(said["seq"])
    tensor, stages = int(said["tp"]), int(said["pp"])
    expert = 1 if said["ep"] == "n/a" else int(said["ep"])
    form = {"MXFP8": "fp8", "FP8": "fp8", "NVFP4": "nvfp4"}[said["precision"]]
    return Case(
        group="Megatron-Bridge " + said["release"],
        name=f"{said['model']} on {gpus} x {said['system']}, {said['precision']}",
        model=requantise(catalogue.model(NAMES[said["model"]]), weights=weight_format(form)),
        system=catalogue.system(SYSTEMS[said["system"]]),
        run=TrainingRun(
            layout=Layout(tensor=tensor, expert=expert, pipeline=stages, data=gpus // tensor // stages),
            chunks=1.0 if said["vp"] == "n/a" else float(said["vp"]),
            microbatch=float(said["mbs"]),
            sequences=batch,
            length=length,
        ),
        year=2000 + float(said["release"][:2]) + (float(said["release"][3:]) - 0.5) / 12,
        framework="megatron",
        measured=batch * length / gpus / value,
        # Its performance recipes force even routing.
        stage="balanced",
    )


def korthikanti(said: dict[str, str], value: float) -> Case:
    """Time of an iteration on A100, with full or selective recomputation."""
    tensor, stages, batch = int(said["tp"]), int(said["pp"]), float(said["global_batch"])
    model, way = gpt(said, 51_200), "full" if said["recompute"] == "full" else "selective"
    return Case(
        group="Korthikanti 2022",
        name=f"GPT {said['model']}, {said['recompute']}",
        model=model,
        system=catalogue.system("a100-sxm"),
        run=TrainingRun(
            layout=Layout(tensor=tensor, pipeline=stages),
            chunks=float(said["interleave"]),
            microbatch=float(said["microbatch"]),
            sequences=batch,
            length=float(said["seq"]),
            recompute=repeated(model, way, float(said["seq"])),
        ),
        year=2022.5,
        framework="megatron",
        measured=value,
    )


def weak_scaling(said: dict[str, str], value: float) -> Case:
    """Megatron 2021: TFLOP/s count the recomputed forward pass; micro-batch taken as 1, or what divides."""
    gpus, tensor, stages, batch = int(said["gpus"]), int(said["tp"]), int(said["pp"]), float(said["batch"])
    hidden, layers, length = float(said["hidden"]), float(said["layers"]), float(said["seq"])
    # Narayanan et al. 2021, equation 3: four passes, attention and logits.
    flops = 96 * batch * length * layers * hidden**2
    flops *= 1 + length / 6 / hidden + float(said["vocab"]) / 16 / layers / hidden
    data = gpus // tensor // stages
    return Case(
        group="Megatron 2021",
        name=f"GPT {said['params_b']}B on {gpus} x A100",
        model=gpt(said, int(said["vocab"])),
        system=catalogue.system("a100-sxm"),
        run=TrainingRun(
            layout=Layout(tensor=tensor, pipeline=stages, data=data),
            microbatch=4.0 if stages == 1 and batch / data >= 4 else 1.0,
            sequences=batch,
            length=length,
            recompute=1.0,
        ),
        year=2021.3,
        framework="megatron",
        measured=flops / gpus / value / 1e12,
    )


def zero_bubble(said: dict[str, str], value: float) -> Case:
    """The paper's own runs with 1F1B, plain and interleaved."""
    stages, micro = int(said["gpus"]), float(said["microbatch"])
    batch = float(said["m"]) * micro
    return Case(
        group="Zero bubble 2024",
        name=f"GPT {said['model']}, {said['schedule']}, m {said['m']}",
        model=gpt(said, 50_257),
        system=catalogue.system("a100-sxm"),
        run=TrainingRun(
            layout=Layout(pipeline=stages),
            chunks=3.0 if said["schedule"] == "1F1B-I" else 1.0,
            microbatch=micro,
            sequences=batch,
            length=float(said["seq"]),
        ),
        year=2023.9,
        framework="megatron",
        measured=batch / stages / value,
    )


def llama(said: dict[str, str], value: float) -> Case:
    """Llama 3 405B; chunks are not stated, 4 assumed."""
    gpus, tensor, stages = int(said["gpus"]), int(said["tp"]), int(said["pp"])
    model, length = catalogue.model("llama-3.1-405b"), float(said["seq"])
    batch = float(round(16 * 2**20 / length))
    # Their MFU counts 6 N and the whole square of attention.
    flops = 6 * 405.85e9 + 12 * 126 * 16_384 * length / 2
    return Case(
        group="Llama 3 2024",
        name=f"405B on {gpus} x H100",
        model=model,
        system=catalogue.system("h100-sxm"),
        run=TrainingRun(
            layout=Layout(tensor=tensor, pipeline=stages, data=gpus // tensor // stages),
            chunks=4.0,
            microbatch=1.0,
            sequences=batch,
            length=length,
        ),
        year=2024.3,
        framework="other",
        measured=batch * length * flops / gpus / value / 1e12,
    )


def predicted(case: Case) -> tuple[float, float, float]:
    """Time of a step with its range. [s]"""
    year = max(case.year, constants_file.FIRST_YEAR)
    engine = replace(constants_file.framework_of(case.model, case.system, case.framework, year), stage=case.stage)
    known = constants_file.constants()
    timer = engine_timer(case.model, case.system, constants_file.losses_of(case.system, engine, "training"), 1.0)
    step = float(step_time(case.model, case.system, case.run, timer, known.value("exposed", engine)))
    low, high = known.range("training", engine, case.system.chip.name, "training")
    return step, step * low, step * high


def report(found: dict[str, list[tuple[Case, float, float, float]]], apart: list[float]) -> str:
    """The page of the documents; ``apart`` are errors of the public table's rows, each without its (model, chip)."""
    lines = [
        "# Accuracy of training runs",
        "",
        "Generated by `python tools/training.py ../shared`; do not edit.",
        "",
        "Steps that `rackmath train` predicts for published runs in their own layouts, by constants fitted on the",
        "training rows of rows.csv (docs/accuracy.md). Megatron-Bridge's runs are in that table, the others",
        "are not. Errors are predicted over measured time, less one.",
        "",
        "| source | runs | median error | largest | bias | in 90 % range |",
        "|---|---|---|---|---|---|",
    ]
    everything = [one for group in found.values() for one in group]
    for name, group in [*found.items(), ("all", everything)]:
        errors = np.array([step / case.measured - 1 for case, step, _, _ in group])
        inside = np.mean([low <= case.measured <= high for case, _, low, high in group])
        lines.append(
            f"| {name} | {len(group)} | {np.median(np.abs(errors)):.1%} | {np.abs(errors).max():.0%} | "
            f"{np.median(errors):+.1%} | {inside:.0%} |"
        )
    eight = np.array([step / case.measured - 1 for case, step, _, _ in found["Korthikanti 2022"]])
    lines += [
        "",
        f"On the {len(eight)} rows of Korthikanti et al., table 5, on which calculon was validated, the mean error is "
        f"{np.abs(eight).mean():.1%}; calculon states {CALCULON:.2%} on the same rows.",
    ]
    unseen = [
        step / case.measured - 1 for case, step, _, _ in everything if not case.group.startswith("Megatron-Bridge")
    ]
    median, largest = (float(np.quantile(np.abs([*unseen, *apart]), part)) for part in (0.5, 0.9))
    lines += [
        "",
        f"No fit has seen {len(unseen)} of these runs. Together with the public table's {len(apart)} rows of training,",
        f"each predicted without its (model, chip), their median error is {median:.1%} and their 90th percentile",
        f"{largest:.0%}; at the median the former alone are {np.median(np.abs(unseen)):.1%} off, the latter "
        f"{np.median(np.abs(apart)):.1%}.",
    ]
    lines += ["", "| run | measured step | predicted | error |", "|---|---|---|---|"]
    for case, step, low, high in everything:
        lines.append(
            f"| {case.group}: {case.name} | {case.measured:.3g} s | {step:.3g} s ({low:.3g} to {high:.3g}) | "
            f"{step / case.measured - 1:+.1%} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
