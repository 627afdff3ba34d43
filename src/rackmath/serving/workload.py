"""What a deployment is planned for: requests, limits, and the choices that are open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture
from rackmath.serving.startup.memory import EngineStart


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWorkload:
    """Requests of one kind.

    Parameters
    ----------
    input, output : float
        Tokens of a prompt and of an answer. [tokens]
    cached_prefix : float
        Part of a prompt whose cache is there already. [1]
    rate : float
        Requests that arrive; infinite for as many as the deployment can take. [requests/s]
    """

    input: float
    output: float
    cached_prefix: float = 0.0
    rate: float = inf

    def __post_init__(self) -> None:
        """Refuse what is no request."""
        for field, value, low, high in (
            ("input", self.input, 1, 1e8),
            ("output", self.output, 1, 1e8),
            ("cached prefix", self.cached_prefix, 0, 1),
        ):
            if not isfinite(value) or not low <= value <= high:
                raise InputError(field, value, f"write a number from {low} to {high:g}")
        if self.cached_prefix * self.input > self.input - 1:
            raise InputError("cached prefix", self.cached_prefix, "leave at least one token of the prompt to read")
        if not self.rate > 0:
            raise InputError("rate", self.rate, "write a positive number of requests per second")

    @property
    def read(self) -> float:
        """Tokens of a prompt that are not cached. [tokens]"""
        return self.input * (1 - self.cached_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a user accepts at most."""

    time_to_first_token: float = inf
    """Mean. [s]"""
    time_per_output_token: float = inf
    """Mean of one user. [s]"""

    def __post_init__(self) -> None:
        """Refuse times that are none."""
        for field in ("time_to_first_token", "time_per_output_token"):
            if not getattr(self, field) > 0:
                raise InputError(field, getattr(self, field), "write a positive number of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A published workload: results name it, and with it what they leave out."""

    name: str
    input: float
    """Mean of its prompts. [tokens]"""
    limits: Mapping[str, Limits]
    """What the 99th percentile keeps, by scenario."""
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The model at one choice of number formats."""

    weights: str
    kv: str
    architecture: Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Choices that a search is over."""

    gpus: int
    """Accelerators at most. [accelerators]"""
    variants: tuple[Variant, ...]
    chunks: tuple[float, ...] = (2048.0, 8192.0, 16384.0)
    """Tokens of one pass at most, ascending. [tokens]"""
    draft_tokens: tuple[float, ...] = (0.0,)
    """Tokens speculated with each step. [tokens]"""
    engine: str = ""
    """Family of the engine whose account of memory counts; none for the bound."""
    graphs: bool = True
    """Whether its decode steps are replayed as graphs."""
    draft: Architecture | None = None
    """Model that drafts them; None where the model's own layers do."""
    pools: bool = True
    """Whether prompts may be read by accelerators of their own."""
    afd: bool = False
    """Whether, beside pools, routed experts may have accelerators of their own."""
    box: int = 1
    """Accelerators that are rented together. [accelerators]"""
    largest_unit: int = 128
    """Accelerators of a worker, and of a unit of two pools, at most; larger deployments repeat it. [accelerators]"""

    @property
    def server(self) -> EngineStart:
        """How engines are started, but for their part of the memory and their budget."""
        has_own_drafts = self.draft is None and any(self.draft_tokens)
        return EngineStart(family=self.engine, graphs=self.graphs, speculative=has_own_drafts, draft=self.draft)

    def __post_init__(self) -> None:
        """Refuse a budget that is none."""
        if not 1 <= self.gpus <= 1_000_000:
            raise InputError("gpus", self.gpus, "write a number from 1 to 1,000,000")
