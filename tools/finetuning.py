"""Hold published fine-tuning runs with low-rank adapters against ``train --lora-rank``.

python tools/finetuning.py ../shared/measured/rows.csv    # seconds

Writes docs/accuracy-of-finetuning.md from tests/data/finetuning.csv and MLPerf's runs of Llama 2 70B LoRA.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.timer import engine_timer
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config
from rackmath.models.formats import BF16, weight_format
from rackmath.models.requantise import requantise
from rackmath.training import TrainingRun, step_time
from rackmath.training.frozen import frozen, with_one_adapter
from rackmath.training.memory import training_memory
from rackmath.training.options import Recipe, options_of
from rackmath.training.run import step_times

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "tests/data/finetuning.csv"
_QWEN = {"qwen-7b": (32, 4096, 32, 11_008, 151_936), "qwen-14b": (40, 5120, 40, 13_696, 152_064)}
"""Layers, hidden width, heads, width of the feed-forward block, vocabulary of models that the catalogue has not."""
CONVERGED = {8: 3168.0, 16: 4042.0, 32: 6000.0, 128: 11_270.0}
"""Sequences until Llama 2 70B has converged, by global batch: means of 20 runs each.
Source: mlcommons/logging, rcp_checker/training_5.0.0/rcps_llama2_70b_lora.json."""
_LENGTH = 8192.0
"""Tokens of a sequence there. Source: mlcommons/training, llama2_70b_lora/README.md."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A run, and what is said of it over what was measured."""

    group: str
    name: str
    seconds: float
    memory: float | None = None


def main() -> None:
    """Predict, compare, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with RUNS.open(encoding="utf-8") as file:
        compared = list(single(list(csv.DictReader(file))))
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        compared += list(mlperf([row for row in csv.DictReader(file) if row["task"] == "lora"]))
    (ROOT / "docs/accuracy-of-finetuning.md").write_text(report(compared), encoding="utf-8")


def single(rows: list[dict[str, str]]) -> Iterator[Compared]:
    """Runs on one accelerator, of which memory and time of a step are known."""
    for row in rows:
        rank, targets = int(row["lora_rank"]), tuple(row["lora_target_modules"].split(","))
        architecture = with_one_adapter(model(row["model"]), rank, targets)
        system = catalogue.system(row["system"])
        recipe = Recipe(
            sequences=float(row["sequences"]),
            length=float(row["length"]),
            recompute=(row["recompute"],),
            sharded=("none",),
            stored=weight_format(row["base_weights"]),
        )
        options = options_of(architecture, [(Layout(), 1)], recipe)
        place = int(np.flatnonzero(options.microbatch == float(row["microbatch"]))[0])
        engine = constants_file.engine_of(system, "torchtitan", 2024.0)
        timer = engine_timer(architecture, system, constants_file.losses_of(system, engine, "training"), 1.0)
        steps = step_times(architecture, system, options, recipe, timer, 0.0)
        held = training_memory(architecture, system, options, recipe).total
        method = "LoRA" if row["base_weights"] == "bf16" else "QLoRA"
        yield Compared(
            group=f"{row['source'].split(':')[0]}, {method}",
            name=f"{row['model']} on {row['system']}, {method}, {float(row['length']):,.0f} tokens",
            seconds=float(steps[place]) / float(row["seconds"]),
            memory=float(held[place]) / 1e9 / float(row["memory_gb"]),
        )


def mlperf(rows: list[dict[str, str]]) -> Iterator[Compared]:
    """Times to converge of MLPerf's runs that state their layout."""
    for row in rows:
        if row["metric"] != "time_to_train" or not (row["micro_batch"] and row["tp"] and row["framework_precision"]):
            continue
        system = catalogue.system(row["hardware"])
        form = {"fp8": "fp8", "nvfp4": "nvfp4"}[row["framework_precision"]]
        architecture = requantise(catalogue.model("llama-2-70b"), weights=weight_format(form))
        seconds = to_converge(with_one_adapter(architecture, 16, ("attention",)), system, row)
        yield Compared(
            group=f"MLPerf, {row['hardware']}",
            name=f"Llama 2 70B LoRA on {float(row['n_gpus']):,.0f} x {row['hardware']}, {form}",
            seconds=seconds / float(row["value"]),
        )


def to_converge(architecture: Architecture, system: System, row: dict[str, str]) -> float:
    """Time to train until converged, evaluations left out. [s]"""
    tensor, stages, context = (int(row[key] or 1) for key in ("tp", "pp", "cp"))
    batch, data = float(row["global_batch"]), int(float(row["n_gpus"])) // (tensor * stages * context)
    left = frozen(architecture, _LENGTH, BF16)
    run = TrainingRun(
        layout=Layout(tensor=tensor, pipeline=stages, data=data),
        context=context,
        microbatch=min(1.0, batch / data),
        sequences=batch,
        length=_LENGTH,
        frozen_part=left.part,
        trained_part=left.trained_part,
    )
    year, _, month = row["date"].partition("-")
    engine = constants_file.engine_of(system, "megatron", float(year) + (float(month) / 12 if month else 0.5))
    timer = engine_timer(architecture, system, constants_file.losses_of(system, engine, "training"), 1.0)
    step = float(step_time(architecture, system, run, timer, constants_file.constants().value("exposed", engine)))
    known = sorted(CONVERGED)
    sequences = np.exp(np.interp(np.log(batch), np.log(known), np.log([CONVERGED[size] for size in known])))
    return float(sequences) / batch * step


def model(name: str) -> Architecture:
    """A model of the catalogue, or one of Qwen's first generation."""
    if name not in _QWEN:
        return catalogue.model(name)
    layers, hidden, heads, width, vocabulary = _QWEN[name]
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": False}
    config |= {"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": width}
    config |= {"num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocabulary}
    return read_config(config, name)


def report(compared: list[Compared]) -> str:
    """The page of the documents."""
    lines = [
        "# Accuracy of fine-tuning with adapters",
        "",
        "Generated by `python tools/finetuning.py ../shared/measured/rows.csv`; do not edit.",
        "",
        "What `rackmath train --lora-rank` says of published runs, over what was measured. Memory has no constant",
        "that was fitted on them; times have one, the time in which 4-bit weights are expanded (QLoRA). All other",
        "constants are of pre-training, the software's of torchtitan and Megatron. MLPerf's times hold evaluations,",
        "which are left out here, and draws of how soon a run converges: they are taken at the mean of its reference",
        "runs. Torchtune's README does not say what is recomputed: all on 24 GB, nothing on 48 GB, is an inference.",
        "",
        "| runs | of | time, median | lowest | highest | memory, median | lowest | highest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in dict.fromkeys(run.group for run in compared):
        runs = [run for run in compared if run.group == group]
        lines.append(f"| {group} | {len(runs)} | {_ends([run.seconds for run in runs])} | "
                     f"{_ends([run.memory for run in runs if run.memory is not None])} |")  # fmt: skip
    lines += ["", "| run | time | memory |", "|---|---|---|"]
    for run in compared:
        memory = "" if run.memory is None else f"{run.memory:.2f}"
        lines.append(f"| {run.name} | {run.seconds:.2f} | {memory} |")
    return "\n".join(lines) + "\n"


def _ends(ratios: list[float]) -> str:
    if not ratios:
        return "| |"
    return f"{np.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f}"


if __name__ == "__main__":
    main()
