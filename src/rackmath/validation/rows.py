"""One published measurement as a record: what its columns say, nothing assumed.

The columns are those of a table of measurements (docs/measurements.md): SI units, one metric a
row, empty where the source does not say. Free text decides nothing: ``notes`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement, typed. Text that the row does not state is empty, numbers are None."""

    id: str = ""
    run_id: str = ""
    """Rows of one run are left out together."""
    source: str = ""
    date: str = ""
    """Year, month or day of the run, as 2026-05."""
    model: str = ""
    model_hf: str = ""
    hardware: str = ""
    n_gpus: float | None = None
    engine: str = ""
    """Family: vllm, sglang, trtllm, llama.cpp, megatron, ..."""
    topology: str = ""
    """aggregated, or disaggregated into a pool for prompts and one for answers."""
    tp: float | None = None
    pp: float | None = None
    dp: float | None = None
    dp_kind: str = ""
    """attention: ranks of one engine with data-parallel attention; replica: copies."""
    ep: float | None = None
    cp: float | None = None
    moe_tp: float | None = None
    replicas: float | None = None
    prefill_workers: float | None = None
    prefill_gpus: float | None = None
    prefill_tp: float | None = None
    prefill_ep: float | None = None
    prefill_dp: float | None = None
    decode_workers: float | None = None
    decode_gpus: float | None = None
    decode_tp: float | None = None
    decode_ep: float | None = None
    decode_dp: float | None = None
    weights: str = ""
    expert_weights: str = ""
    kv: str = ""
    speculative: str = ""
    draft_tokens: float | None = None
    arrivals: str = ""
    """closed, poisson, constant, all_at_once, static_batch, single, offline or server."""
    concurrency: float | None = None
    request_rate: float | None = None
    num_requests: float | None = None
    batch: float | None = None
    input_mean: float | None = None
    output_mean: float | None = None
    length_cv: float | None = None
    shared_prefix_tokens: float | None = None
    max_num_seqs: float | None = None
    max_num_batched_tokens: float | None = None
    gpu_memory_utilization: float | None = None
    scheduler_interval: float | None = None
    context: float | None = None
    phase: str = ""
    """decode or prefill (a pass without a service), serving, or training."""
    metric: str = ""
    statistic: str = ""
    per: str = ""
    value: float | None = None
    global_batch: float | None = None
    sequence_length: float | None = None
    micro_batch: float | None = None
    virtual_stages: float | None = None
    pipeline_schedule: str = ""
    recompute: str = ""
    zero_stage: float | None = None
    framework_precision: str = ""
    task: str = ""
    benchmark: str = ""
    scenario: str = ""
    power_cap_w: float | None = None
    elapsed_s: float | None = None
    confidence: str = ""
    flags: str = ""

    @property
    def family(self) -> str:
        """Family of the engine, or other."""
        return _ALIASES.get(self.engine, self.engine) or "other"

    @property
    def publisher(self) -> str:
        """Who published it: the repository or site of its source, whatever the revision."""
        return self.source.partition("@")[0].partition(" (")[0]

    @property
    def when(self) -> float:
        """Date of the run, the middle of what it leaves open. [years]"""
        match = re.match(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?", self.date)
        if not match:
            return _UNDATED
        year, month, day = match.groups()
        if not month:
            return int(year) + 0.5
        return int(year) + (int(month) - 1 + (int(day) / 31 if day else 0.5)) / 12

    @property
    def gpus(self) -> int:
        """Accelerators, at least one."""
        return max(1, int(self.n_gpus or 1))

    @property
    def load(self) -> float | None:
        """Sequences at once in the whole deployment, as concurrency or as a fixed batch."""
        return self.concurrency if self.concurrency is not None else self.batch

    @property
    def stage(self) -> str:
        """Immature or balanced where flagged as an early run or as routed evenly, else empty."""
        if self.flag("balanced_routing"):
            return "balanced"
        return "immature" if self.flag("immature") else ""

    def flag(self, name: str) -> bool:
        """Whether the row is flagged so; what follows a colon is a reason."""
        return any(part.partition(":")[0].strip() == name for part in self.flags.split(";"))


_UNDATED = 2025.5
"""Date of a row that states none: the middle of those of the table. [years]"""

_ALIASES = {"nim": "trtllm", "llm-foundry": "foundry", "ollama": "llama.cpp", "lmstudio": "llama.cpp"}
"""Engines that are another one inside."""

COLUMNS = tuple(f.name for f in fields(Row))
"""Columns that are read; a table may have more, and may lack all but ``NEEDED``."""

NEEDED = ("model", "hardware", "metric")
"""Columns that no question can do without."""

NUMBERS = frozenset(f.name for f in fields(Row) if "float" in str(f.type))


_LARGEST = {"n_gpus": 1e7, "replicas": 1e7}
"""Accelerators and copies beyond which a row is a slip."""
_LARGEST_OF_ALL = 1e15
"""The same for any other number of a row, SI."""


def read_row(cells: Mapping[str, str], line: int) -> Row:
    """Type the cells of one row.

    Errors: :class:`InputError` names line and column of a cell that is no number, is not
    finite or is negative.
    """
    values: dict[str, str | float | None] = {}
    for name in COLUMNS:
        text = (cells.get(name) or "").strip()
        values[name] = _number(text, name, line) if name in NUMBERS else text
    values["id"] = values["id"] or f"line-{line}"
    return Row(**values)  # pyright: ignore[reportArgumentType]


def _number(text: str, name: str, line: int) -> float | None:
    if not text:
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InputError(f"{name} in line {line}", text, "write a finite number of at least 0, or leave it empty")
    if value > _LARGEST.get(name, _LARGEST_OF_ALL):
        largest = _LARGEST.get(name, _LARGEST_OF_ALL)
        raise InputError(f"{name} in line {line}", text, f"write a number of at most {largest:g}, or leave it empty")
    return value


def checked_columns(columns: Mapping[str, str], subject: str) -> None:
    """Refuse columns that do not exist, and a file of which nobody says the hardware.

    Errors: :class:`InputError`, with ``subject`` as what leaves the hardware out.
    """
    for name in columns:
        if name not in COLUMNS:
            raise InputError("--set", name, f"is no column; use one of {', '.join(COLUMNS)}")
    if "hardware" not in columns:
        raise InputError("--set", "hardware", f"{subject} does not say it: add --set hardware=...")
