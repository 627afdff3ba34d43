"""Score ``rackmath memory`` on published starts of vLLM: writes docs/accuracy-of-memory.md.

python tools/memory.py ../shared/measured/vllm_memory_startup.csv
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headline import write_headline
from rackmath.engine.layout import Layout
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.cache_pools import cache_pools
from rackmath.models.config import read_config
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.startup.memory import EngineStart, Startup, start

GIB = 2**30
PAGE = Path("docs/accuracy-of-memory.md")
SGLANG = Path("tests/data/sglang_memory.csv")
"""Starts of SGLang 0.5.15 with DeepSeek V4 Pro on eight MI355X: part of the memory, cache, and tokens of its pools."""
SGLANG_WINDOWS, SGLANG_SEQUENCES = 0.15, 64.0
"""``--swa-full-tokens-ratio`` of these starts, and requests that may run on each data-parallel rank."""

_LLAMA = {"model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
_GEMMA = {"model_type": "gemma2", "torch_dtype": "bfloat16", "head_dim": 256, "sliding_window": 4096,
          "vocab_size": 256000, "max_position_embeddings": 8192}  # fmt: skip
CONFIGS: dict[str, str | dict[str, Any]] = {
    "codellama/CodeLlama-7b-hf": {**_LLAMA, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32016, "max_position_embeddings": 16384},
    "google/gemma-2-2b-it": {**_GEMMA, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4},
    "ibm-granite/granite-3.3-8b-instruct": {**_LLAMA, "hidden_size": 4096, "intermediate_size": 12800,
        "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49159,
        "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "microsoft/phi-2": {"model_type": "phi", "torch_dtype": "float16", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 51200, "partial_rotary_factor": 0.4,
        "max_position_embeddings": 2048, "tie_word_embeddings": False},
    "Qwen/Qwen1.5-MoE-A2.7B": {"model_type": "qwen2_moe", "torch_dtype": "bfloat16", "hidden_size": 2048,
        "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "vocab_size": 151936, "max_position_embeddings": 8192, "tie_word_embeddings": False,
        "use_sliding_window": False, "decoder_sparse_step": 1},
    "Qwen/Qwen2.5-72B-Instruct": {"model_type": "qwen2", "torch_dtype": "bfloat16", "hidden_size": 8192,
        "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 152064, "max_position_embeddings": 32768, "tie_word_embeddings": False,
        "use_sliding_window": False},
    "google/gemma-2-27b-it": "gemma-2-27b",
    "google/gemma-2-9b-it": "gemma-2-9b",
    "google/gemma-3-4b-it": "gemma-3-4b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "microsoft/phi-4": "phi-4",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "redhatai/Llama-3.3-70B": "llama-3.1-70b",
    "RedHatAI/Mistral-Small-3.1-24B": "mistral-small-3.2-24b",
    "RedHatAI/Meta-Llama-3.1-8B": "llama-3.1-8b",
    "RedHatAI/Qwen2.5-7B": "qwen2.5-7b",
}  # fmt: skip
"""Configs of the models that started, by the beginning of their name: fields of their ``config.json`` on Hugging Face,
or the model of the catalogue that has them."""
FORMATS = {"fp8": "fp8-channel", "fp8-dynamic": "fp8-channel", "w8a8": "int8", "w4a16": "gptq"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One start and what its log said. [GiB], tokens."""

    name: str
    model: Architecture
    layout: Layout
    server: EngineStart
    measured: Mapping[str, float]

    def predicted(self) -> Startup:
        """The account of its memory."""
        return start(self.model, catalogue.system("h100-sxm").chip, self.layout, self.server)


LINES = {
    "weight_memory": "weights",
    "activation_memory": "pass and sampling",
    "non_torch_forward": "outside PyTorch",
    "cuda_graph_actual": "graphs",
    "kv_cache_memory": "cache",
    "kv_cache_tokens": "cache, in tokens",
}


def main() -> None:
    """Predict, compare, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    starts = list(cases(Path(sys.argv[1])))
    PAGE.write_text(report(starts), encoding="utf-8")
    errors = [abs(values(case)["kv_cache_tokens"][0] / case.measured["kv_cache_tokens"] - 1) for case in starts]
    write_headline("memory", f"{len(starts)} | {np.median(errors):.2%} | {np.quantile(errors, 0.9):.2%}")


def cases(path: Path) -> Iterator[Case]:
    """Starts of the table, each with its lines of the log."""
    starts: defaultdict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["model"], row["path"], row["precision"], row["input_len"], row["notes"])
            starts[key][row["metric"]] = float(row["value"])
    for (model, _, precision, length, notes), measured in starts.items():
        said = dict(part.split("=", 1) for part in notes.split(";") if "=" in part)
        element, quantised, cache = (part.strip() for part in precision.split(";"))
        layout = Layout(tensor=int(said["tp"]), pipeline=int(said["pp"]))
        seats = 1024.0 if "up to 1024" in notes else None
        yield Case(
            name=f"{model}, tp{said['tp']}pp{said['pp']}, {precision}, {length.split()[0]} tokens",
            model=architecture(model, element, quantised, cache),
            layout=layout,
            server=EngineStart(
                family="vllm", version=0.19, fraction=float(said["gpu_memory_utilization"]), sequences=seats
            ),
            measured=measured,
        )


def architecture(name: str, element: str, quantised: str, cache: str) -> Architecture:
    """A model as it was started."""
    said = next(config for key, config in CONFIGS.items() if name.lower().startswith(key.lower()))
    model = catalogue.model(said) if isinstance(said, str) else read_config(said, name)
    ending = next((form for key, form in FORMATS.items() if name.endswith(key) or quantised == key), None)
    if ending is not None:
        model = requantise(model, weights=weight_format(ending))
    if element == "float32":
        model = replace(model, format=weight_format("fp32"), cache_format=cache_format("fp32"))
    return requantise(model, cache=cache_format("fp8")) if cache.endswith("fp8") else model


def values(case: Case) -> dict[str, tuple[float, float, float]]:
    """Predicted lines with their ranges, in units of the log."""
    said = case.predicted()
    tokens = said.cached_tokens(8192.0)
    lines = {
        "weight_memory": said.weights,
        "activation_memory": said.activations,
        "non_torch_forward": said.outside,
        "cuda_graph_actual": said.graphs,
        "kv_cache_memory": said.cache,
    }
    scaled = {name: (line.value / GIB, line.low / GIB, line.high / GIB) for name, line in lines.items()}
    return {**scaled, "kv_cache_tokens": (tokens.value, tokens.low, tokens.high)}


def sglang(path: Path) -> Iterator[tuple[dict[str, float], int, int, Startup]]:
    """Each start of SGLang as measured, tokens of both pools by its own cache, and our account of the start."""
    model = catalogue.model("deepseek-v4-pro")
    pools = cache_pools(model, lambda parts: 1.0, SGLANG_SEQUENCES)
    assert pools is not None
    pools = replace(pools, window_ratio=SGLANG_WINDOWS)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            measured = {name: float(value) for name, value in row.items()}
            tokens = pools.count(measured["cache_gib"] * GIB)
            windows = int(SGLANG_WINDOWS * tokens) // pools.page * pools.page
            server = EngineStart(family="sglang", fraction=measured["fraction"], sequences=SGLANG_SEQUENCES)
            layout = Layout(expert=8, data=8)
            yield measured, tokens, windows, start(model, catalogue.system("mi355x").chip, layout, server)


def sglang_lines(path: Path) -> list[str]:
    """The table of SGLang's starts."""
    return [
        "",
        "## SGLang on MI355X",
        "",
        "Five starts of SGLang 0.5.15 with DeepSeek V4 Pro, attention in data parallel on eight MI355X, 64 requests a",
        "rank, `--swa-full-tokens-ratio 0.15` (a report of July 2026 in a public repository; tests/data/",
        "sglang_memory.csv). Pools of compressed entries, of windows and of what waits to be compressed are cut by the",
        "engine's own rules: they follow from the cache that its log prints, which has two decimals. The cache itself",
        "comes out a tenth too large: constants are of vLLM on H100, and weights took 6 % more than their bytes.",
        "",
        "| part of the memory | tokens of full attention | by the printed cache | of windows | cache | computed, GiB |",
        "|---|---|---|---|---|---|",
        *(
            f"| {measured['fraction']:.2f} | {measured['tokens']:,.0f} "
            f"| {tokens:,} ({tokens / measured['tokens'] - 1:+.3%}) "
            f"| {measured['window_tokens']:,.0f} ({windows:,}) | {measured['cache_gib']:.2f} "
            f"| {account.cache.value / GIB:.1f} ({account.cache.low / GIB:.1f} to {account.cache.high / GIB:.1f}) |"
            for measured, tokens, windows, account in sglang(path)
        ),
    ]


def report(starts: list[Case]) -> str:
    """The page."""
    said = [values(case) for case in starts]
    lines = [
        "# Accuracy of memory at the start",
        "",
        f"{len(starts)} starts of vLLM 0.19 on H100 (jgchn/llm-d-planner at 3c876c8a), of "
        f"{len({case.name.split(',')[0] for case in starts})} models. Rules are the engine's own; constants of working",
        "memory (docs/commands/memory.md) were chosen with these starts in sight, so that this is no test of them on",
        "other engines, versions or accelerators. Written by",
        "`python tools/memory.py ../shared/measured/vllm_memory_startup.csv`.",
        "",
        "| line | starts | median error | 90th percentile | largest | in 90 % range |",
        "|---|---|---|---|---|---|",
    ]
    for metric, title in LINES.items():
        pairs = [(case.measured[metric], row[metric]) for case, row in zip(starts, said, strict=True)]
        errors = np.array([abs(value / measured - 1) for measured, (value, _, _) in pairs])
        inside = np.mean([low <= measured <= high for measured, (_, low, high) in pairs])
        lines.append(
            f"| {title} | {len(pairs)} | {np.median(errors):.2%} | {np.quantile(errors, 0.9):.2%} "
            f"| {errors.max():.1%} | {inside:.0%} |"
        )
    lines += ["", "| start | weights | pass | outside | graphs | cache | tokens |", "|---|---|---|---|---|---|---|"]
    for case, row in zip(starts, said, strict=True):
        cells = [f"{row[metric][0]:.2f} ({case.measured[metric]:.2f})" for metric in list(LINES)[:-1]]
        tokens, measured = row["kv_cache_tokens"][0], case.measured["kv_cache_tokens"]
        lines.append(f"| {case.name} | {' | '.join(cells)} | {tokens:,.0f} ({tokens / measured - 1:+.1%}) |")
    lines += ["", "Predicted, and in brackets measured, in GiB; tokens with their error.", *sglang_lines(SGLANG), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
