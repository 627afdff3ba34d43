"""For which models, chips or conditions a claim holds that does not hold for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rackmath.io import catalogue, law_files
from rackmath.lecture import real
from rackmath.lecture.verdicts import LARGEST_FACTOR, Value, off_by
from rackmath.models.counts import active_params, total_params
from rackmath.training.budget import split
from rackmath.training.scaling_laws import law

_MIXTURES = ("deepseek-v3", "kimi-k2", "gpt-oss-120b", "qwen3-235b-a22b", "glm-4.7", "llama-4-scout", "mixtral-8x7b")
_OVER_TRAINED = (2, 5, 7, 10, 20, 100)


def _ratios() -> dict[str, Value]:
    return dict(zip(real.FLAGSHIPS, real.ratios(real.FLAGSHIPS), strict=True))


def _balance_batches() -> dict[str, Value]:
    ratio = real.rack().chip.ratio("fp8")
    models = {name: catalogue.model(name) for name in _MIXTURES}
    return {name: ratio * total_params(m) / active_params(m) for name, m in models.items()}


def _drain_times() -> dict[str, Value]:
    return {name: real.drain_times((name,))[0] * 1e3 for name in real.LISTED}


def _overtraining() -> dict[str, Value]:
    return {run.model: run.tokens / run.active / 20 for run in law_files.trained()}


def _splits() -> dict[str, Value]:
    return {f"{x} times over-trained": split(law("besiroglu"), float(x)) for x in _OVER_TRAINED}


CASES: Mapping[str, Callable[[], Mapping[str, Value]]] = MappingProxyType(
    {
        "batch-ratio": _ratios,
        "batch-ratio-stable": _ratios,
        "batch-optimum": _balance_batches,
        "drain-stable": _drain_times,
        "pipeline-weights-shrink": lambda: {"layers": "1/P", "embedding and head": "whole on one stage"},
        "equal-costs": _splits,
        "overtrained": _overtraining,
        "cache-hit": lambda: {"most providers": 0.1, "some (0.05 and 0.025)": 0.05, "DeepSeek": 0.02},
        "tier-match": lambda: {"five minutes": "flash; disk", "one hour": "a large flash drive"},
    }
)
"""Claims whose real value differs by case, and the value of each case."""


def split_cases(name: str, expected: Value) -> tuple[list[str], list[str]]:
    """Cases for which a claim holds within a factor of 1.5, and those for which not; none where it has no cases."""
    if name not in CASES:
        return [], []
    cases = CASES[name]()
    holding = [case for case, value in cases.items() if off_by(expected, value) <= LARGEST_FACTOR]
    return holding, [case for case in cases if case not in holding]


SOURCES: Mapping[str, str] = MappingProxyType(
    {
        name: source
        for source, names in {
            "data sheets of the chips: `rackmath systems --explain`": (
                "batch-ratio batch-ratio-stable drain-rubin drain-stable hopper-memory blackwell-memory "
                "scaleup-bandwidth train-worst-wait five-t-fits tier-hbm"
            ),
            "configs of the models (Hugging Face) and data sheets": (
                "batch-optimum goldilocks-2x sparse-sqrt trillion-fits kv-plausible attention-millions context-wall "
                "pipeline-kv-cancels pipeline-weights-shrink moe-experts-per-gpu"
            ),
            "the engine's bound over true configs and data sheets": (
                "batch-one-penalty throughput-rack share-of-gemini moe-two-racks-slowdown pipeline-ratio "
                "pipeline-latency output-input tokens-equal"
            ),
            "the engine fitted on published measurements: docs/accuracy.md": "batch-practice fast-mode slow-mode",
            "arithmetic": "moe-two-racks tokens-two-months tokens-one-model",
            "Clark and others 2022, arXiv:2202.01169": "routed-64x",
            "schedules executed slot by slot: `rackmath train pipeline`": "pipeline-bubble",
            "Besiroglu and others 2024, arXiv:2404.10102": "equal-costs chinchilla-tokens",
            "budgets that developers published: data/token_budgets.csv": "overtrained",
            "price pages of November 2026 (genai-prices) and configs": "kv-from-cliff cache-hit",
            "data sheets of the devices: data/tiers.toml": "tier-ddr tier-flash tier-disk tier-match",
            "computed here: lecture/ciphers.py": "feistel-inverts avalanche",
            "counts, and `rackmath lab revnet` on the machine at hand": "revnet-memory revnet-compute",
            "published bills of materials: data/bills.toml": "memory-capex",
        }.items()
        for name in names.split()
    }
)
"""Where the real value of each claim comes from."""
