"""Open loops of vLLM 0.15 that others measured: writes tests/data/open_loops.csv and tests/data/open_loops_peers.csv.

    git clone https://github.com/inference-sim/sim-to-real-accuracy-validation SCRATCH
    python tools/open_loops_data.py SCRATCH

The repository (commit dcec3fd, and ``results_iter36`` of its history before 0205ebd) holds what simulators predicted
for experiments of vLLM 0.15.1 on H100, A100 and L40S, each beside what was measured: means of first token, time per
token and whole answer. The rows have the columns of ``rackmath predict``; those that stand in ../shared/measured are
left out, and so are conversations of several turns, whose prompts' lengths are not published.

Rates are those of the load generator's profiles (general 8 and 20 requests/s, codegen 5 and 10, roleplay 6, the first
two for ten minutes each); those of general-lite, 2.5 and 6, follow from its peak of 6 and from the weights of the two
stages in the mean of both. An answer's length is (end to end - first token) / time per token + 1. A prompt's is that of
the same profile in ../shared/measured, where tokenisers differ by 1 %; all prompts repeat and are in the cache.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from peers_published import NAMES

SOURCE = "inference-sim/sim-to-real-accuracy-validation@dcec3fd"
FILES = (("0205ebd^", "results_iter36/error_records.csv"), ("dcec3fd", "results_trainval/error_records.csv"))
TABLE, PEERS = Path("tests/data/open_loops.csv"), Path("tests/data/open_loops_peers.csv")
MODELS = {
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "mistralai/Mixtral-8x22B-Instruct-v0.1": "mixtral-8x22b",
    "Qwen/Qwen3-14B": "qwen3-14b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "codellama/CodeLlama-34b-Instruct-hf": "codellama-34b",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo",
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": "llama-4-scout",
}
"""Models of the catalogue; Yi-34B is not among them."""
CHIPS = {"H100": "h100-sxm", "A100-80GB": "a100-80gb", "L40S": "l40s"}
RATES = {"general-lite": (2.5, 6), "general": (8, 20), "codegen": (5, 10), "roleplay": (6,)}
PROMPTS = {"general-lite": 574, "general": 574, "codegen": 592, "roleplay": 786}
KNOWN = ("2", "3", "6", "7", "9", "10", "11")
"""Experiments that stand in ../shared/measured/rows.csv."""
SEATS = 128
"""``max_num_seqs`` of the experiments. [sequences]"""
METRICS = {
    "ttft_mean": ("ttft", "mean"),
    "itl_mean": ("tpot", "mean"),
    "e2e_mean": ("e2e", "mean"),
    "ttft_p90": ("ttft", "p90"),
    "ttft_p99": ("ttft", "p99"),
}
"""Percentiles of whole answers are left out: how answers differ in length is not published."""
Stage = tuple[str, int]
Metric = tuple[str, str]
"""What was measured, and which statistic of it."""


def main(checkout: Path) -> None:
    """Read, write."""
    measured: dict[Stage, dict[Metric, float]] = defaultdict(dict)
    facts: dict[Stage, dict[str, str]] = {}
    predicted: dict[tuple[Stage, Metric, str], float] = {}
    for commit, path in FILES:
        text = subprocess.run(
            ["git", "-C", str(checkout), "show", f"{commit}:{path}"], capture_output=True, text=True, check=True
        ).stdout
        for record in csv.DictReader(io.StringIO(text)):
            experiment = record["experiment_folder"].rsplit("/", 1)[-1]
            stage = (experiment, int(record["stage_index"]))
            if record["metric_name"] not in METRICS or not _taken(stage, record["model"]):
                continue
            metric = METRICS[record["metric_name"]]
            facts[stage] = record
            measured[stage][metric] = float(record["actual"]) / 1e3
            if float(record["predicted"]) > 0:
                predicted[stage, metric, NAMES[record["simulator"]]] = float(record["predicted"]) / 1e3
    rows = [
        _row(stage, facts[stage], measured[stage], metric)
        for stage in sorted(measured, key=lambda s: (int(s[0].partition("-")[0]), s[1]))
        for metric in METRICS.values()
    ]
    _write(TABLE, rows)
    ids = {(row["experiment"], row["stage"], row["metric"], row["statistic"]): row["id"] for row in rows}
    peers: list[dict[str, object]] = [
        {"id": ids[*stage, *metric], "predictor": name, "value": f"{value:.6g}"}
        for (stage, metric, name), value in predicted.items()
    ]
    _write(PEERS, sorted(peers, key=lambda p: (str(p["predictor"]), str(p["id"]))))


def _taken(stage: Stage, model: str) -> bool:
    experiment, index = stage
    number = experiment.partition("-")[0]
    return index >= 0 and len(number) < 3 and number not in KNOWN and model in MODELS and "reasoning" not in experiment


def _row(stage: Stage, facts: dict[str, str], measured: dict[Metric, float], metric: Metric) -> dict[str, object]:
    (experiment, index), (name, statistic) = stage, metric
    profile = next(known for known in RATES if known in experiment)
    rate = RATES[profile][index]
    seconds = 600 if len(RATES[profile]) > 1 else 1200
    whole, first, step = (measured[of, "mean"] for of in ("e2e", "ttft", "tpot"))
    return {
        "id": f"loop-{experiment.partition('-')[0]}-{index}-{name}-{statistic}",
        "source": SOURCE,
        "experiment": experiment,
        "stage": index,
        "date": "2026-03-10",
        "model": MODELS[facts["model"]],
        "hardware": CHIPS[facts["hardware"]],
        "n_gpus": facts["tp"],
        "tp": facts["tp"],
        "engine": "vllm",
        "engine_version": "0.15.1",
        "topology": "aggregated",
        "weights": "fp8" if facts["precision"] == "FP8" else "",
        "arrivals": "constant",
        "request_rate": rate,
        "num_requests": round(rate * seconds),
        "input_mean": PROMPTS[profile],
        "output_mean": round(1 + (whole - first) / step, 2),
        "shared_prefix_tokens": PROMPTS[profile],
        "max_num_seqs": SEATS,
        "max_num_batched_tokens": facts["max_num_batched_tokens"],
        "phase": "serving",
        "metric": name,
        "statistic": statistic,
        "per": "request",
        "value": f"{measured[metric]:.6g}",
        "confidence": "high",
    }


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
