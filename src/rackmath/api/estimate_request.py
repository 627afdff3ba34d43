"""What an estimate is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.images import PromptFields
from rackmath.hardware import System
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest(PromptFields):
    """One decode or prefill pass."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int | None, options.GPUS.but(help="Accelerators; by default one scale-up domain.")] = None
    layout: Annotated[str | None, options.LAYOUT] = None
    batch: Annotated[float, Option(help="Sequences of the whole deployment.", kind=kinds.NUMBER)]
    context: Annotated[float, Option(help="Tokens that each new token sees; in prefill the prompt.", kind=kinds.NUMBER)]
    phase: Annotated[str, Option(help="What is timed.", kind=kinds.choice("decode", "prefill"))] = "decode"
    cached_tokens: Annotated[float, options.CACHED_TOKENS] = 0.0
    weights: Annotated[str | None, options.WEIGHTS] = None
    kv: Annotated[str | None, options.CACHE] = None
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    draft_tokens: Annotated[
        float, options.DRAFT_TOKENS.but(help="Decode: tokens speculated and verified with each step.")
    ] = 0.0
    acceptance: Annotated[str | None, options.ACCEPTANCE] = None
    draft_model: Annotated[str | Architecture | None, options.DRAFT_MODEL] = None
    ideal: Annotated[bool, options.IDEAL] = False
    no_evidence: Annotated[bool, options.NO_EVIDENCE] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)
