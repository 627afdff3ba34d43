"""Fitted constants -> the losses of one engine on one chip.

A loss is a base value moved by the chip's generation, the engine's family and the year,
on a scale where no move can leave the physical range: log-odds for parts of a peak, log
for times, log of the excess for factors above one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, inf, log

from rackmath.engine.losses import Losses

REFERENCE_YEAR = 2025.5

SCALES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "stream",
            "stream_byte",
            "stream_nibble",
            "stream_expanded",
            "cache",
            "latent",
            "matmul",
            "matmul_byte",
            "matmul_nibble",
            "matmul_expanded",
            "grouped",
            "attention",
            "latent_attention",
            "recurrence",
            "wire",
            "wire_exchange",
            "shown",
            "interruption",
            "lockstep",
            "queueing",
            "acceptance",
            "exposed",
        ),
        "part",
    ),
    **dict.fromkeys(
        (
            "energy",
            "unfused",
            "rows",
            "expert_rows",
            "side",
            "touches",
            "launch",
            "dispatch",
            "host",
            "host_sequence",
            "imbalance",
            "arrival",
        ),
        "positive",
    ),
    **dict.fromkeys(("reduction_latency", "exchange_latency", "software"), "factor"),
}
"""Range of each constant: part in (0, 1), positive, or factor of at least 1."""

OF_TRAINING = ("exposed",)
"""Constants of training."""

OF_SCHEDULING = ("interruption", "lockstep", "queueing", "dispatch", "arrival", "acceptance")
"""Constants of serving; the others are fields of :class:`Losses`."""

_LOSSLESS = {"part": 1.0, "positive": 0.0, "factor": 1.0}

_ABSENT = ("shown",)
"""Parts of something that is not there without losses, rather than parts of a peak."""

_COMPILED = ("llama.cpp",)
"""Families whose host code is compiled: it starts a kernel in no time to speak of."""

_NEAR = 1e-9
_LEAST = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Engine:
    """What constants depend on: whose chips, whose software, and of when."""

    generation: str = ""
    """Generation of the chip; empty or unknown ones take the base values."""
    family: str = ""
    """Family of the engine: vllm, sglang, trtllm, llama.cpp, ..."""
    date: float = REFERENCE_YEAR
    """Year of the software, with its fraction. [years]"""
    stage: str = ""
    """immature for an early enablement run, balanced for routing made even; empty for neither."""

    @property
    def members(self) -> tuple[str, ...]:
        """Names under which moves are kept."""
        return ("", self.generation, self.family, self.stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """All fitted constants, as the data file holds them."""

    base: Mapping[str, float]
    """Value by name, in its own unit."""
    moves: Mapping[str, Mapping[str, float]]
    """Moves on the inner scale, by name and by generation, family or stage."""
    slopes: Mapping[str, Mapping[str, float]]
    """The same per year after ``REFERENCE_YEAR``; an empty member means all."""
    basis: str = ""
    """What they were fitted on, for the reader of a result."""
    ranges: Mapping[str, Mapping[str, tuple[float, float]]] = field(
        default_factory=dict[str, Mapping[str, tuple[float, float]]]
    )
    """Measured over predicted, 5th and 95th percentile, by class and familiarity."""
    chips: frozenset[str] = frozenset()
    """Chips that rows of the fit were measured on."""
    latest: float = inf
    """Date of the latest rows of the fit, beyond which no trend is carried. [years]"""

    def range(self, kind: str, chip: str) -> tuple[float, float]:
        """90 % range of measured over predicted values of a class on a chip.

        A chip that no row was measured on gets the range of chips left out of the fit.
        """
        known = self.ranges.get(kind, {})
        return known.get("known" if chip in self.chips else "new", (1.0, 1.0))

    def value(self, name: str, engine: Engine) -> float:
        """Return one constant in its own unit; what was not fitted is not lost."""
        if (name == "imbalance" and engine.stage == "balanced") or (name == "dispatch" and engine.family in _COMPILED):
            return 0.0
        if name not in self.base:
            return 0.0 if name in (*OF_SCHEDULING, *OF_TRAINING, *_ABSENT) else _LOSSLESS[SCALES[name]]
        inner = inward(self.base[name], SCALES[name])
        since = min(engine.date, self.latest) - REFERENCE_YEAR
        moves, slopes = self.moves.get(name, {}), self.slopes.get(name, {})
        for member in dict.fromkeys(engine.members):
            inner += moves.get(member, 0.0) + slopes.get(member, 0.0) * since
        return outward(inner, SCALES[name])

    def losses(self, engine: Engine, low: float = 1.0, high: float = 1.0) -> Losses:
        """Losses of an engine, with a range around its times."""
        names = (name for name in SCALES if name not in (*OF_SCHEDULING, *OF_TRAINING))
        values = {name: self.value(name, engine) for name in names}
        return Losses(**values, pieces=float(bool(self.base)), low=low, high=high, basis=self.basis)


def inward(value: float, scale: str) -> float:
    """Physical value -> inner scale."""
    if scale == "part":
        kept = min(max(value, _NEAR), 1 - _NEAR)
        return log(kept / (1 - kept))
    if scale == "factor":
        return log(max(value - 1, _NEAR))
    return log(max(value, _LEAST))


def outward(inner: float, scale: str) -> float:
    """Inner scale -> physical value."""
    held = min(max(inner, -70.0), 40.0)
    if scale == "part":
        return 1 / (1 + exp(-held))
    return exp(held) + (1.0 if scale == "factor" else 0.0)
