"""One accelerator package, and the memory tiers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rackmath.errors import InputError

FALLBACK: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fp4": ("fp4", "fp8", "bf16"),
        "fp8": ("fp8", "bf16"),
        "int8": ("int8", "fp8", "bf16"),
        "fp16": ("fp16", "bf16"),
        "bf16": ("bf16",),
    }
)
"""Precisions a chip falls back to, dequantising, when it lacks the one asked for."""

_KEPT_BY_DRIVERS = 0.98
"""Visible part of a memory from which only a driver keeps the rest, which accounts of memory count anyway. [1]"""

TYPICAL_HEAT = 1.4e12
"""FLOPs per joule at the printed rate of an H100: 989 TFLOP/s at 700 W. [FLOP/J]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """An accelerator: what one package multiplies, holds and reads.

    Parameters
    ----------
    name : str
        As on the data sheet.
    memory_capacity, memory_bandwidth : float
        Of the memory that holds weights and cache. [B], [B/s]
    rates : tuple of (str, float)
        Dense FLOP/s by precision; a multiply-add is 2 FLOP, no sparsity. [FLOP/s]
    power : float or None
        Board power. [W]
    generation : str
        Chips of one generation share what separates them from their peaks; empty if unknown.
    """

    name: str
    vendor: str
    year: int
    status: str
    memory_capacity: float
    memory_bandwidth: float
    rates: tuple[tuple[str, float], ...]
    power: float | None = None
    generation: str = ""
    visible_memory: float | None = None
    """What a program is told that the memory holds, less what the driver keeps; None where nobody says. [B]"""
    clock: float = 1.0
    """Clock over that of the rated power, where a cap lowers it; rates are those at this clock. [1]"""
    vector_rate: float | None = None
    """FP32 outside of matrix units; None where nobody says. [FLOP/s]"""
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse sizes that no arithmetic can use."""
        for name in ("memory_capacity", "memory_bandwidth", "visible_memory", "vector_rate"):
            size = getattr(self, name)
            if size is not None and not size > 0:
                raise InputError(name, size, "write a positive number")
        if not dict(self.rates).get("bf16", 0) > 0:
            raise InputError("rate.bf16", dict(self.rates).get("bf16"), "every chip needs a 16-bit rate")

    def rate(self, precision: str) -> float:
        """Dense rate at ``precision``, or at the widest one below it that the chip has. [FLOP/s]"""
        return dict(self.rates)[self.runs_at(precision)]

    def runs_at(self, precision: str) -> str:
        """Precision that the chip multiplies ``precision`` at (fp8 weights run at bf16 on A100)."""
        have = dict(self.rates)
        return next(p for p in FALLBACK[precision] if p in have)

    def ratio(self, precision: str = "bf16", weight_bytes: float | None = None) -> float:
        r"""Hardware ratio R: multiplies per byte times bytes per parameter. [1]

        .. math:: R = (F / 2) / M \cdot w

        ``weight_bytes`` is 2, 1 and 0.5 for bf16, fp8 and fp4 unless given.
        Source: lecture chapter 1.
        """
        width = (
            {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}[precision]
            if weight_bytes is None
            else weight_bytes
        )
        return self.rate(precision) / 2 / self.memory_bandwidth * width

    @property
    def usable_memory(self) -> float:
        """What a program can fill: less than there is where the operating system keeps a part, as macOS does. [B]"""
        visible = self.visible_memory or self.memory_capacity
        return visible if visible < _KEPT_BY_DRIVERS * self.memory_capacity else self.memory_capacity

    @property
    def heat(self) -> float:
        """16-bit FLOPs that the printed rate asks of each joule; typical where power is unknown. [FLOP/J]"""
        return TYPICAL_HEAT if self.power is None else self.rate("bf16") / self.power

    @property
    def drain_time(self) -> float:
        """Time to read all memory once, H/M. [s]"""
        return self.memory_capacity / self.memory_bandwidth


def memory_kept_note(chip: Chip) -> tuple[str, ...]:
    """What to say of a memory of which the operating system keeps a part."""
    if chip.usable_memory == chip.memory_capacity:
        return ()
    usable, whole = chip.usable_memory / 1e9, chip.memory_capacity / 1e9
    return (f"programs can fill {usable:.3g} of {whole:.3g} GB, unless the operating system is told otherwise",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTier:
    """A place where a cache can wait: one device of its kind."""

    name: str
    capacity: float
    """[B]"""
    bandwidth: float
    """Sequential read. [B/s]"""
    price: float
    """Dollars per byte. [USD/B]"""
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, hash=False)

    @property
    def drain_time(self) -> float:
        """Time to read all of it once. [s]"""
        return self.capacity / self.bandwidth
