"""What a training run is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.adapters import TARGETS
from rackmath.api.fields import Option, read_fields
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io.constants_file import FRAMEWORKS, NOW
from rackmath.models.adapters import ALL_LINEAR
from rackmath.models.architecture import Architecture
from rackmath.training.activations import RECOMPUTE
from rackmath.training.options import SHARDED

PRECISIONS = {"bf16": "bf16", "fp8": "fp8", "fp4": "nvfp4"}
"""What products run at, and the format behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """A training run."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int, options.GPUS]
    tokens: Annotated[float, Option(help="Tokens of the run, as 15.6T.", kind=kinds.NUMBER)]
    batch_tokens: Annotated[
        float,
        Option(help="Tokens of a step.", kind=kinds.NUMBER, names=("--batch-tokens", "--global-batch-tokens")),
    ] = 16e6
    length: Annotated[
        float,
        Option(
            help="Tokens of a sequence.",
            kind=kinds.NUMBER,
            names=("--length", "--seq-length"),
            flags={"megatron": "--seq-length"},
        ),
    ] = 8192.0
    layout: Annotated[
        str | None, options.LAYOUT.but(help="Layout, as in tp8,pp16,dp128 (default: the best).", flags={})
    ] = None
    context_parallel: Annotated[
        int | None,
        Option(
            help="Ranks that share a sequence (default: the best).",
            kind=kinds.whole(1),
            flags={"megatron": "--context-parallel-size"},
        ),
    ] = None
    microbatch: Annotated[
        float | None,
        Option(
            help="Sequences of a pass (default: the best).",
            kind=kinds.NUMBER,
            names=("--microbatch", "--micro-batch-size"),
            flags={"megatron": "--micro-batch-size"},
        ),
    ] = None
    chunks: Annotated[
        int | None,
        Option(
            help="Stages per rank (default: the best).",
            kind=kinds.whole(),
            flags={"megatron": "--num-virtual-stages-per-pipeline-rank"},
        ),
    ] = None
    recompute: Annotated[
        str | None,
        Option(
            help="Recomputed activations (default: the best without reversible layers).", kind=kinds.choice(*RECOMPUTE)
        ),
    ] = None
    sharded: Annotated[
        str | None,
        Option(help="What data-parallel ranks share (default: the best).", kind=kinds.choice(*SHARDED)),
    ] = None
    lora_rank: Annotated[
        int | None,
        Option(
            help="Train low-rank adapters of this rank, the model frozen (default: the model itself).",
            kind=kinds.whole(1, 1024),
            names=("--lora-rank", "--lora-r"),
            flags={"megatron": "--lora-dim"},
        ),
    ] = None
    lora_target_modules: Annotated[str, TARGETS] = ALL_LINEAR
    base_weights: Annotated[
        str, Option(help="Format of frozen weights: bf16, fp8, nf4 (QLoRA).", kind=kinds.choice("bf16", "fp8", "nf4"))
    ] = "bf16"
    precision: Annotated[str, Option(help="Precision of products.", kind=kinds.choice(*PRECISIONS))] = "bf16"
    checkpoint_time: Annotated[float, Option(help="Pause of a checkpoint, in s.", kind=kinds.SECONDS)] = 10.0
    restart_time: Annotated[float, Option(help="Time lost by a failure, in s.", kind=kinds.SECONDS)] = 600.0
    framework: Annotated[str, Option(help="Family of the training framework.", kind=kinds.choice(*FRAMEWORKS))] = (
        "megatron"
    )
    year: Annotated[float, Option(help="When the software is from.", kind=kinds.NUMBER)] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None
    ideal: Annotated[bool, options.IDEAL] = False

    def __post_init__(self) -> None:
        """Read all values, and refuse sizes that are no run."""
        read_fields(self)
        sizes = (("--tokens", self.tokens, 1.0), ("--length", self.length, 2.0))
        for field, value, low in (*sizes, ("--batch-tokens", self.batch_tokens, self.length)):
            if not low <= value <= 1e18:
                raise InputError(field, value, f"write a number from {low:g} to 1e18")
