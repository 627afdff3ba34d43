"""Score attention-FFN disaggregation on published runs: writes docs/accuracy-of-afd.md.

python tools/afd.py tests/data/afd_runs.csv
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rackmath.engine import Estimate, Layout, estimate
from rackmath.engine.pass_time import APART_UNMEASURED
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.models.config import read_config
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise

PAGE = Path("docs/accuracy-of-afd.md")
SYSTEMS = ("h800-sxm", "h200-sxm")
"""The report says Hopper, and states bandwidths of H800 elsewhere."""
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """A published run, and the step of it as the engine computes it."""

    row: Row
    measured: float
    """Time of a step, from throughput: every sequence gains a token. [s]"""
    step: Estimate


def run_of(row: Row, system: System, folder: Path) -> Run:
    """The decode step of a row with losses of vLLM; the config lies in ``folder``."""
    config = json.loads((folder / row["model"]).read_text(encoding="utf-8"))
    model = requantise(
        read_config(config, "step3"), weights=weight_format(row["weights"]), cache=cache_format(row["kv"])
    )
    attention, ffn = int(row["attention_gpus"]), int(row["ffn_gpus"])
    layout = Layout(expert=ffn, data=attention, ffn=ffn, micro_batches=int(row["micro_batches"]))
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.5), "time per token")
    batch = float(row["batch"])
    step = estimate(model, system, layout, batch=batch, context=float(row["context"]), losses=losses)
    return Run(row, batch / (float(row["tokens_per_second_per_gpu"]) * (attention + ffn)), step)


def runs(path: Path, system: str) -> list[Run]:
    """All rows of a file on a system of the catalogue."""
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return [run_of(row, catalogue.system(system), path.parent) for row in rows]


def _line(run: Run, system: str) -> str:
    row, step = run.row, run.step
    ms = [1e3 * float(t) for t in (step.time_ideal, step.time_low, step.time, step.time_high)]
    busy = ", ".join(f"{seconds / float(step.time):.0%}" for seconds in step.busy.values())
    off = float(step.time) / run.measured - 1
    return (
        f"| {row['attention_gpus']} + {row['ffn_gpus']} x {system} | {row['batch']} | {row['context']} | {row['kv']} | "
        f"{1e3 * run.measured:.1f} | {ms[2]:.1f} ({off:+.0%}) | {ms[1]:.0f} to {ms[3]:.0f} | {ms[0]:.1f} | {busy} |"
    )


def page(path: Path) -> str:
    """The page."""
    low, high = APART_UNMEASURED
    lines = [
        "# Accuracy of attention apart from experts",
        "",
        "Steps of Step-3 (316 B parameters, 48 experts) with attention and experts on accelerators of their own, as",
        "StepFun's report publishes them for the best minute of a run, in milliseconds. Nothing was fitted to these",
        "three; they were looked at when the range was chosen, which is that of vLLM's steps",
        f"times {low:g} below and times {high:g} above. Busy are attention, dispatch, experts and combine, of a step.",
        "",
        "| accelerators | batch | context | cache | measured | computed | range | bound | busy |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(run, system) for system in SYSTEMS for run in runs(path, system)),
        "",
        "The computed steps are those of vLLM on its published kernels; StepFun runs kernels of its own, broadcasts",
        "tokens instead of dispatching them, and holds shared experts and the first layers' feed-forward with the",
        "routed experts, where vLLM's plugin (and this model) leaves them with attention. The report says Hopper and",
        "not which: both are shown. On eight accelerators over PCIe, steps that the host starts kernel by kernel,",
        "the plugin's authors measured no difference between both ways (98.9 and 100.1 ms per token, Qwen3.5-122B).",
        "Sources:",
        "",
        "- https://github.com/stepfun-ai/Step3, Step3-Sys-Tech-Report.pdf, table 8 and section 7.3",
        "- https://github.com/vllm-project/afd-plugin/pull/274",
        "",
        "Written by `python tools/afd.py tests/data/afd_runs.csv`.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1])), encoding="utf-8")
