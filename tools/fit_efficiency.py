"""Fit the factor between the ideal bound and published measurements; write data/efficiency.toml.

    python tools/fit_efficiency.py ../shared/measured/public.csv

One factor per phase, its median and its 5th and 95th percentile: no more than an
honest width for estimates until the fidelity work models what separates the two.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import numpy as np

from rackmath import catalogue
from rackmath.engine import Layout, estimate
from rackmath.errors import RackmathError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise

OUT = Path(__file__).parent.parent / "src/rackmath/data/efficiency.toml"

MODELS = {
    "DeepSeek-R1": "deepseek-r1",
    "DeepSeek-V3.1": "deepseek-v3",
    "DeepSeek-V4-Pro": "deepseek-v4-pro",
    "GLM-5": "glm-5",
    "Kimi-K2.5": "kimi-k2.5",
    "Llama-2-70B": "llama-2-70b",
    "Llama-3-8B": "llama-3.1-8b",
    "Llama-3-70B": "llama-3.1-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-405B": "llama-3.1-405b",
    "Llama-3.3-70B": "llama-3.1-70b",
    "MiniMax-M2.5": "minimax-m2.5",
    "Mixtral-8x7B": "mixtral-8x7b",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "gpt-oss-120b": "gpt-oss-120b",
}
SYSTEMS = {
    "A100-PCIe-80GB": "a100-pcie",
    "A100-SXM-80GB": "a100-sxm",
    "B200-SXM": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "GB200-NVL72": "gb200-nvl72",
    "GB300-NVL72": "gb300-nvl72",
    "Gaudi3": "gaudi-3",
    "H100-PCIe-80GB": "h100-pcie",
    "H100-SXM-80GB": "h100-sxm",
    "H200-SXM-141GB": "h200-sxm",
    "L40S": "l40s",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
    "RTX-3090": "rtx-3090",
    "RTX-4090": "rtx-4090",
}


def main() -> None:
    """Read the rows, compare, write the file."""
    factors: dict[str, list[float]] = {"decode": [], "prefill": []}
    left_out = 0
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found = _factor(row)
            if found is None:
                left_out += 1
            else:
                factors[found[0]].append(found[1])
    text = ["# Measured time over this package's ideal bound. Generated: python tools/fit_efficiency.py PUBLIC.csv"]
    for phase, values in factors.items():
        low, mid, high = np.quantile(values, [0.05, 0.5, 0.95])
        text += [
            "",
            f"[{phase}]",
            f"low = {max(low, 1):.3g}",
            f"mid = {mid:.3g}",
            f"high = {high:.3g}",
            f'basis = "{len(values)} published {phase} measurements"',
            f"below_bound = {sum(v < 1 for v in values)}",
        ]
    OUT.write_text("\n".join(text) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"), f"{left_out} rows left out")


def _factor(row: dict[str, str]) -> tuple[str, float] | None:
    """Phase and measured over ideal time of one row, or None where it says too little."""
    if row["model"] not in MODELS or row["hardware"] not in SYSTEMS or not row["value"]:
        return None
    if re.search(r"spec=(?!none)", row["notes"]) or "disagg" in row["parallelism"]:
        return None
    system = catalogue.system(SYSTEMS[row["hardware"]])
    model = _model(row)
    try:
        if row["metric"] in ("tpot_mean", "tpot_median"):
            return _decode(row, model, system)
        if row["metric"] == "prefill_speed" and row["n_gpus"] == "1":
            return _prefill(row, model, system)
    except RackmathError:
        return None
    return None


def _model(row: dict[str, str]) -> Architecture:
    model = catalogue.model(MODELS[row["model"]])
    named = row["precision_weights"].split("(")[0].strip().lower()
    forms = {
        "fp8": "fp8",
        "fp4": "nvfp4",
        "nvfp4": "nvfp4",
        "bf16": "bf16",
        "f16": "bf16",
        "q4_k_m": "int4",
        "int4": "int4",
    }
    # gpt-oss is published at 4 bit for its experts only; "fp4" says no more than that.
    if named in forms and row["model"] != "gpt-oss-120b":
        model = requantise(model, weights=weight_format(forms[named]))
    return requantise(model, cache=cache_format("fp8")) if row["precision_kv"].startswith("fp8") else model


def _decode(row: dict[str, str], model: Architecture, system: System) -> tuple[str, float] | None:
    if not row["batch_or_concurrency"] or not row["input_len"] or not row["output_len"]:
        return None
    gpus = int(float(row["n_gpus"]))
    layout = _layout(row["parallelism"], gpus)
    if layout is None:
        return None
    context = float(row["context_len"] or float(row["input_len"]) + float(row["output_len"]) / 2)
    step = estimate(model, system, layout, batch=float(row["batch_or_concurrency"]), context=context)
    scale = {"ms": 1e-3, "s": 1.0}[row["unit"]]
    return "decode", float(row["value"]) * scale / float(step.time)


def _prefill(row: dict[str, str], model: Architecture, system: System) -> tuple[str, float] | None:
    if row["precision_weights"].lower() not in ("f16", "q4_k_m") or not row["input_len"]:
        return None
    step = estimate(model, system, Layout(), batch=1, context=float(row["input_len"]), phase="prefill")
    return "prefill", float(step.tokens) / float(row["value"]) / float(step.time)


def _layout(text: str, gpus: int) -> Layout | None:
    """Layout of one replica, where the row states it."""
    said = dict(re.findall(r"(\w+)=(\d+)", text))
    if "tp" not in said:
        return Layout() if gpus == 1 else None
    tensor = int(said["tp"])
    data = int(said.get("attention_dp", 1))
    expert = int(said.get("moe_ep", said.get("ep", 1)))
    if said.get("dp_attention") == "1":
        tensor, data = 1, tensor
    return Layout(tensor=tensor, expert=max(expert, 1), data=data) if tensor * data == gpus else None


if __name__ == "__main__":
    main()
