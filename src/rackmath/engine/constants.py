"""Fitted constants -> the losses of one engine on one chip.

A constant is a base value moved by the chip's generation, the engine's family and the stage of
a run, on a scale where no move can leave the physical range (:mod:`rackmath.engine.terms`). A
generation and a family move it by what their own rows say; how far moves reach is estimated
from the rows, so that a combination without rows stays near the base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, inf, log
from typing import Any

from rackmath.engine.kernel_curves import TIMED, Kernels
from rackmath.engine.losses import Losses
from rackmath.engine.term import FACTOR, PART, Term
from rackmath.engine.terms import OF_LOSSES, TERM
from rackmath.errors import InputError
from rackmath.units import parse

IMMATURE = "immature"
"""Stage of runs of an early enablement."""
_NEAR = 1e-9
_LEAST = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EngineVersion:
    """What constants depend on: whose chips, whose software, and how it runs."""

    generation: str = ""
    """Generation of the chip; empty or unknown ones take the base values."""
    family: str = ""
    """Family of the engine: vllm, sglang, trtllm, llama.cpp, ..."""
    stage: str = ""
    """immature for an early enablement run, balanced for routing made even; empty for neither."""
    eager: bool = False
    """Whether the host starts each kernel of a decode step, instead of a graph that replays them."""
    unfused: bool = False
    """Whether attention writes its scores to memory, as before its kernels were fused."""
    compiled: bool = False
    """Whether the host code is compiled, so that it starts a kernel in no time to speak of."""
    remote: bool = False
    """Whether the host sends every worker the metadata of each step."""
    ahead: bool = False
    """Whether the host schedules a step while the device runs the one before."""
    captured: bool = False
    """Whether steps that read few prompts replay graphs of all but attention."""
    fused_experts: bool = False
    """Whether a framework trains the experts of a layer with one fused kernel, not each by itself."""
    changes: tuple[tuple[str, str], ...] = ()
    """Constants that are to be others than its rows say: name and value, or a factor such as 2x."""

    @property
    def members(self) -> tuple[str, ...]:
        """Names under which moves are kept."""
        return tuple(dict.fromkeys(m for m in (self.generation, self.family, self.stage) if m))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Rows of one family on one generation, in one phase."""

    family: str
    generation: str
    phase: str
    rows: int
    first: float
    """Date of the earliest. [years]"""
    last: float
    """Date of the latest. [years]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """All fitted constants, as the data file holds them."""

    base: Mapping[str, float]
    """Value by name, in its own unit."""
    moves: Mapping[str, Mapping[str, float]]
    """Moves on the inner scale, by name and by generation, family or stage."""
    evidence: tuple[RowGroup, ...] = ()
    """Rows behind them."""
    basis: str = ""
    """What they were fitted on, for the reader of a result."""
    ranges: Mapping[str, Mapping[str, tuple[float, float]]] = field(
        default_factory=dict[str, Mapping[str, tuple[float, float]]]
    )
    """Measured over predicted, 5th and 95th percentile, by class of question and by how near rows are."""
    chips: frozenset[str] = frozenset()
    """Chips that rows of the fit were measured on."""

    def value(self, name: str, engine: EngineVersion, step: float = 0.0) -> float:
        """Return one constant in its own unit, ``step`` further on its inner scale; what was not fitted is not lost.

        Errors: :class:`InputError` for a change of it that leaves its range.
        """
        value = self._fitted(name, engine, step)
        for name_of_change, text in engine.changes:
            if name_of_change == name:
                value = changed_constant(name, text, value)
        return value

    def _fitted(self, name: str, engine: EngineVersion, step: float) -> float:
        if name == "started":
            return self.value("dispatch", engine, step) if engine.eager else 0.0
        if (name == "unfused" and not engine.unfused) or (name == "hidden" and not engine.ahead):
            return 0.0
        if (name == "software" and engine.stage != IMMATURE) or (name == "own_kernels" and engine.family in TIMED):
            return 1.0
        if name == "grouped" and engine.fused_experts:
            return 1.0
        if name in ("remote", "remote_sequence") and not engine.remote:
            return 0.0
        if (name == "imbalance" and engine.stage == "balanced") or (name == "dispatch" and engine.compiled):
            return 0.0
        if name not in self.base:
            return TERM[name].absent
        inner = inward(self.base[name], TERM[name].scale) + step
        moves = self.moves.get(name, {})
        inner += sum(moves.get(member, 0.0) for member in engine.members)
        return outward(inner, TERM[name].scale)

    def rows(self, engine: EngineVersion, phase: str = "") -> int:
        """Rows of the fit of this family on this generation, of one phase or of all."""
        return sum(
            e.rows
            for e in self.evidence
            if (e.family, e.generation) == engine_key(engine) and (not phase or e.phase == phase)
        )

    def nearness(self, engine: EngineVersion, chip: str, phase: str = "") -> str:
        """How near rows are: of the chip, of the pair of generation and family, of one member of it, or none."""
        if self.rows(engine, phase):
            return "chip" if chip in self.chips else "pair"
        apart = (
            any(e.family == engine.family for e in self.evidence),
            any(e.generation == engine.generation for e in self.evidence),
        )
        return "member" if any(apart) else "none"

    def range(self, kind: str, engine: EngineVersion, chip: str, phase: str = "") -> tuple[float, float]:
        """90 % range of measured over predicted values of a class, as wide as rows are far."""
        table = self.ranges.get(kind, self.ranges.get("all", {}))
        if engine.stage == IMMATURE:
            return table.get(IMMATURE, table.get("none", (1.0, 1.0)))
        return table.get(self.nearness(engine, chip, phase), (1.0, 1.0))

    def losses(self, engine: EngineVersion, kernels: Kernels, low: float = 1.0, high: float = 1.0) -> Losses:
        """Losses of an engine with a chip's kernels, with a range around its times."""
        values: dict[str, Any] = {name: self.value(name, engine) for name in (*OF_LOSSES, "started")}
        return Losses(**values, kernels=kernels, low=low, high=high, basis=self.basis)


def changed_constant(name: str, text: str, value: float = 1.0) -> float:
    """A constant at another value, in its own unit, or at a factor of the one it has, such as 0.5x.

    Errors: :class:`InputError` for a constant that no engine has, text that is no number, and what leaves its range.
    """
    key, term = f"engine.{name}", term_named(name, text)
    factor = text.rstrip().endswith("x")
    amount = parse(text.rstrip()[:-1], "1", key) * value if factor else parse(text, term.unit, key)
    low, high = {PART: (0.0, 1.0), FACTOR: (1.0, inf)}.get(term.scale, (0.0, inf))
    if not (low <= amount <= high and amount < inf):
        most = f" and at most {high:g}" if high < inf else ""
        raise InputError(key, text, f"write a value or a factor that gives at least {low:g}{most}: {term.meaning}")
    return amount


def term_named(name: str, text: str) -> Term:
    """The term of a constant that is to be changed to ``text``.

    Errors: :class:`InputError` for a constant that no engine has.
    """
    if name not in TERM:
        raise InputError(f"engine.{name}", text, f"constants of an engine are {', '.join(TERM)}")
    return TERM[name]


def engine_key(engine: EngineVersion) -> tuple[str, str]:
    """Family and generation: what rows are counted by."""
    return engine.family, engine.generation


def inward(value: float, scale: str) -> float:
    """Physical value -> inner scale: log-odds of parts, log of the excess of factors, else log."""
    if scale == PART:
        clipped_value = min(max(value, _NEAR), 1 - _NEAR)
        return log(clipped_value / (1 - clipped_value))
    if scale == FACTOR:
        return log(max(value - 1, _NEAR))
    return log(max(value, _LEAST))


def outward(inner: float, scale: str) -> float:
    """Inner scale -> physical value."""
    clipped_value = min(max(inner, -70.0), 40.0)
    if scale == PART:
        return 1 / (1 + exp(-clipped_value))
    return exp(clipped_value) + (1.0 if scale == FACTOR else 0.0)
