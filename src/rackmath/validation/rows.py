"""One published measurement as a record: what its columns and notes say, nothing assumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from rackmath.engine.constants import REFERENCE_YEAR
from rackmath.errors import InputError

COLUMNS = (
    "id",
    "phase",
    "model",
    "total_params_b",
    "active_params_b",
    "hardware",
    "n_gpus",
    "parallelism",
    "precision_weights",
    "precision_kv",
    "batch_or_concurrency",
    "input_len",
    "output_len",
    "context_len",
    "metric",
    "value",
    "unit",
    "per",
    "engine",
    "year",
    "source",
    "confidence",
    "notes",
)
"""Columns of a table of measurements; ``value`` may be empty where only a prediction is wanted."""

NEEDED = ("model", "hardware", "metric", "unit")
"""Columns that no question can do without; a table may lack the others."""

_FAMILIES = (
    ("llama.cpp", r"llama\.cpp"),
    ("sglang", r"sglang"),
    ("trtllm", r"tensorrt|trt|nim\b"),
    ("vllm", r"vllm"),
    ("megatron", r"megatron|nemo"),
    ("maxtext", r"maxtext"),
    ("foundry", r"foundry|composer"),
    ("torchtitan", r"torchtitan"),
)


_EVEN = "megatron-bridge"
"""Whose published runs route evenly without saying so in every row: its performance recipes set
``moe_router_force_load_balancing``. Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance."""

_CONTAINER = re.compile(r"(?<![\d.])(2\d)\.(0[1-9]|1[0-2])(?!\d)")
"""Versions of NVIDIA's containers and of NeMo: year and month, as 26.04 or 26.04.01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement, typed. Numbers that the row does not state are None."""

    id: str
    phase: str
    model: str
    total_params: float | None
    hardware: str
    gpus: int
    parallelism: str
    weights: str
    cache: str
    load: float | None
    """Batch, concurrency, or sequences of a training step. [sequences]"""
    input: float | None
    output: float | None
    context: float | None
    metric: str
    value: float | None
    unit: str
    per: str
    engine: str
    year: int | None
    source: str
    confidence: str
    notes: str

    @property
    def family(self) -> str:
        """Family of the engine: vllm, sglang, trtllm, llama.cpp, ..., or other."""
        text = self.engine.lower()
        return next((name for name, pattern in _FAMILIES if re.search(pattern, text)), "other")

    @property
    def date(self) -> float:
        """When the software was run: by the notes, else by NVIDIA's container, else the middle of the year. [years]"""
        found = re.match(r"(\d{4})-(\d{2})", self.note("date") or "")
        if found:
            return int(found.group(1)) + (int(found.group(2)) - 0.5) / 12
        containers = [(int(year), int(month)) for year, month in _CONTAINER.findall(self.engine)]
        if containers:
            year, month = max(containers)
            return 2000 + year + (month - 0.5) / 12
        return REFERENCE_YEAR if self.year is None else self.year + 0.5

    @property
    def stage(self) -> str:
        """Immature or balanced where row or engine says that it was an early run or routed evenly, else empty."""
        if re.search(rf"balanced (?:routing|moe)|{_EVEN}", f"{self.notes} {self.engine}".lower()):
            return "balanced"
        return "immature" if re.search(r"immature|early enablement|known-slow|early 20\d\d engines", self.notes) else ""

    @property
    def at_once(self) -> bool:
        """Whether all requests were submitted at once and none followed."""
        return "all requests submitted at once" in self.notes

    @property
    def elapsed(self) -> float | None:
        """Time from the first request to the last answer, where the notes give it. [s]"""
        found = re.match(r"\d+(?:\.\d+)?$", self.note("elapsed_s") or "")
        return float(found.group(0)) if found else None

    def note(self, key: str) -> str | None:
        """Return what the notes say of ``key``, if anything."""
        found = re.search(rf"(?:^|;)\s*{re.escape(key)}=([^;]*)", self.notes)
        return found.group(1).strip() if found else None


def read_row(cells: Mapping[str, str], line: int) -> Row:
    """Type the cells of one row.

    Errors: :class:`InputError` names line and column of a cell that is no number, is not
    finite or is negative.
    """

    def number(name: str) -> float | None:
        return _number(cells.get(name, "").strip(), name, line)

    def text(name: str) -> str:
        return cells.get(name, "").strip()

    gpus, year, total = number("n_gpus"), number("year"), number("total_params_b")
    return Row(
        id=text("id") or f"line-{line}",
        phase=text("phase"),
        model=text("model"),
        total_params=None if total is None else total * 1e9,
        hardware=text("hardware"),
        gpus=max(1, int(gpus or 1)),
        parallelism=text("parallelism"),
        weights=text("precision_weights"),
        cache=text("precision_kv"),
        load=_load(text("batch_or_concurrency"), int(gpus or 1), number("input_len"), line),
        input=number("input_len"),
        output=number("output_len"),
        context=number("context_len"),
        metric=text("metric"),
        value=number("value"),
        unit=text("unit"),
        per=text("per"),
        engine=text("engine"),
        year=None if year is None else int(year),
        source=text("source"),
        confidence=text("confidence"),
        notes=text("notes"),
    )


_PER_GPU = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*gpu")
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m)?\s*tok(?:ens)?\s*(/\s*gpu)?")


def _load(text: str, gpus: int, length: float | None, line: int) -> float | None:
    """Sequences of the whole deployment; ``128/GPU`` and ``16384 tok/GPU`` are per accelerator."""
    plain = text.lower()
    if each := _PER_GPU.fullmatch(plain):
        return float(each.group(1)) * gpus
    if (tokens := _TOKENS.fullmatch(plain)) and length:
        size = {"k": 1e3, "m": 2**20, None: 1}[tokens.group(2)]
        return float(tokens.group(1)) * size * (gpus if tokens.group(3) else 1) / length
    return _number(text, "batch_or_concurrency", line)


def _number(text: str, name: str, line: int) -> float | None:
    if not text:
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InputError(f"{name} in line {line}", text, "write a finite number of at least 0, or leave it empty")
    return value
