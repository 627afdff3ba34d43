"""Run aiconfigurator on the closed-loop rows that it covers: its predictions beside the rows' ids.

    python -m venv SCRATCH && SCRATCH/bin/pip install aiconfigurator==0.12.0
    SCRATCH/bin/python tools/peers_aiconfigurator.py ../shared/measured/rows.csv OUT.csv

Each row is one call of its single-point estimate with the row's model, chip, engine, layout, lengths and formats, with
its newest tables of that engine, as a user would ask it. What it refuses is left out, and counted.
"""

from __future__ import annotations

import csv
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

SYSTEMS = {"h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm", "gb200-nvl72": "gb200"}
ENGINES = ("vllm", "sglang", "trtllm")
PRODUCTS = {"bf16": "bfloat16", "nvfp4": "nvfp4"}
EXPERTS = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
METRICS = {"tpot": "tpot", "itl": "tpot", "ttft": "ttft"}
ONE_OF = 3
"""Configurations of which one is predicted, by a number of its words: each takes seconds."""
VERSION = "aiconfigurator 0.12.0"


def main(rows: Path, out: Path) -> None:
    """Predict all rows that it covers."""
    logging.disable(logging.CRITICAL)
    from aiconfigurator.cli.api import cli_estimate  # pyright: ignore[reportMissingImports]

    with rows.open(newline="") as file:
        covered = [row for row in csv.DictReader(file) if _covered(row)]
    chosen = [row for row in covered if crc32(repr(sorted(_words(row))).encode()) % ONE_OF == 0]
    refused: Counter[str] = Counter()
    known: dict[tuple[tuple[str, Any], ...], Any] = {}
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "predictor", "value"])
        for number, row in enumerate(chosen):
            words = dict(_words(row))
            key = tuple(sorted(words.items()))
            if key not in known:
                try:
                    known[key] = cli_estimate(**words)
                except Exception as error:
                    known[key] = None
                    refused[f"{type(error).__name__}: {str(error)[:100]}"] += 1
            answer = known[key]
            value = getattr(answer, METRICS[row["metric"]], None)
            if value:
                writer.writerow([row["id"], VERSION, repr(float(value) / 1e3)])
            print(f"\r{number + 1} of {len(chosen)} rows, of {len(covered)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    for reason, count in refused.most_common():
        print(f"{count} refused: {reason}", file=sys.stderr)


def _covered(row: dict[str, str]) -> bool:
    """Closed loops of one unit without drafts, whose layout is stated."""
    return (
        row["arrivals"] == "closed"
        and row["topology"] == "aggregated"
        and row["metric"] in METRICS
        and row["statistic"] in ("mean", "p50")
        and row["hardware"] in SYSTEMS
        and row["engine"] in ENGINES
        and row["speculative"] in ("", "none")
        and row["replicas"] in ("", "1")
        and bool(row["tp"] and row["concurrency"] and row["input_mean"] and row["output_mean"])
    )


def _words(row: dict[str, str]) -> Iterator[tuple[str, Any]]:
    dp = int(row["dp"] or 1) if row["dp_kind"] == "attention" else 1
    yield "model_path", row["model_hf"].replace("/Llama-3.1", "/Meta-Llama-3.1")
    yield "system_name", SYSTEMS[row["hardware"]]
    yield "backend_name", row["engine"]
    yield "isl", round(float(row["input_mean"]))
    yield "osl", max(round(float(row["output_mean"])), 2)
    yield "batch_size", max(round(float(row["concurrency"]) / dp), 1)
    yield "tp_size", int(row["tp"])
    yield "pp_size", int(row["pp"] or 1)
    yield "attention_dp_size", dp
    if float(row["active_params_b"] or 0) < 0.9 * float(row["total_params_b"] or 0):
        experts = int(row["ep"] or 1)
        yield "moe_ep_size", experts
        yield "moe_tp_size", int(row["moe_tp"] or max(int(row["tp"]) * dp // experts, 1))
    if row["weights"] in PRODUCTS:
        yield "gemm_quant_mode", PRODUCTS[row["weights"]]
    elif row["weights"] == "fp8" and "llama" in row["model"]:
        yield "gemm_quant_mode", "fp8"
    if row["expert_weights"] in EXPERTS:
        yield "moe_quant_mode", EXPERTS[row["expert_weights"]]
    elif not row["expert_weights"] and row["weights"] == "nvfp4":
        yield "moe_quant_mode", "nvfp4"
    if row["kv"] in ("fp8", "bf16"):
        yield "kvcache_quant_mode", {"fp8": "fp8", "bf16": "bfloat16"}[row["kv"]]
    if row["shared_prefix_tokens"]:
        yield "prefix", round(float(row["shared_prefix_tokens"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
