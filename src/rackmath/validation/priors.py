"""What is fitted: about 60 constants, where each starts, and how far it may go.

Centres come from kernel timings (op-efficiency of aiconfigurator: long reads reach 0.8 to
0.97 of peak, large products 0.6 to 0.9, small kernels take 3 to 12 microseconds) or from
data sheets of engines. None is tied to a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rackmath.engine.constants import SCALES, inward
from rackmath.validation.fit import Prior

CENTRES: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "stream": (0.85, "part of the memory bandwidth that long reads of weights reach"),
        "cache": (0.7, "part of the bandwidth at which attention reads its cache"),
        "latent": (0.55, "the same for latent attention"),
        "matmul": (0.75, "part of the rate that large 16-bit products reach"),
        "matmul_byte": (0.8, "the same in 8 bit, relative to matmul"),
        "matmul_nibble": (0.7, "the same in 4 bit, relative to matmul"),
        "matmul_expanded": (0.6, "the same where weights are expanded first, relative to matmul"),
        "energy": (0.2e-12, "energy of a FLOP beyond what power allows at the printed rate [J/FLOP]"),
        "grouped": (0.8, "part of matmul that grouped products of experts reach"),
        "attention": (0.5, "part of the 16-bit rate that attention reaches"),
        "recurrence": (0.15, "the same for the scans of recurrent layers"),
        "unfused": (0.01, "bytes that attention moves per score, where its kernel is not fused [B]"),
        "rows": (8.0, "rows that a product wastes by tiles [tokens]"),
        "expert_rows": (64.0, "the same for each expert of a grouped product [tokens]"),
        "side": (300.0, "width that a product wastes on each side of its matrix [elements]"),
        "touches": (1.5, "times that inputs and outputs of products are moved again by norms, activations, casts"),
        "launch": (3e-6, "time of one kernel whatever its size [s]"),
        "dispatch": (50e-6, "time in which the host starts one kernel of a prompt [s]"),
        "host": (1e-3, "gap of one step: scheduling, sampling [s]"),
        "host_sequence": (5e-6, "what each sequence adds to that gap [s]"),
        "wire": (0.6, "part of the network's bandwidth that collectives reach"),
        "wire_exchange": (0.8, "the same for dispatch and combine of experts"),
        "shown": (0.9, "part of tensor parallelism's collectives that products do not hide in training"),
        "reduction_latency": (1.5, "latency of an all-reduce over that of the network"),
        "exchange_latency": (3.0, "latency of dispatch or combine over that of the network"),
        "imbalance": (0.15, "excess of the fullest expert rank over the mean"),
        "software": (1.1, "what is left between these terms and an engine"),
        "interruption": (0.8, "part of a prompt's time that the running batch waits for"),
        "lockstep": (0.3, "part of one group's prompt that all data-parallel groups wait for"),
        "queueing": (0.1, "part of the prompts of a full burst that a first token waits for"),
        "exposed": (0.2, "part of the data-parallel exchange of training that nothing hides"),
        "arrival": (0.06, "time of a request outside the engine [s]"),
        "acceptance": (0.6, "chance that a drafted token is accepted"),
    }
)
"""Base value of each constant before any row is seen, in its own unit, and what it means."""

MOVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "matmul": ("llama.cpp", "ampere", "hopper", "apple", "tpu"),
        "matmul_byte": ("hopper",),
        "matmul_nibble": ("megatron",),
        "side": ("llama.cpp",),
        "attention": ("hopper", "megatron"),
        "grouped": ("megatron",),
        "shown": ("megatron",),
        "software": (
            "cdna3",
            "blackwell",
            "ampere",
            "sglang",
            "llama.cpp",
            "immature",
            "foundry",
        ),
        "launch": ("hopper", "gaudi"),
        "unfused": ("llama.cpp",),
        "interruption": ("vllm",),
    }
)
"""Generations, families and stages that may differ from the base, by constant."""

SLOPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "software": ("", "cdna3"),
        "side": ("blackwell",),
        "launch": ("blackwell",),
        "dispatch": ("", "trtllm"),
        "grouped": ("blackwell",),
        "unfused": ("llama.cpp",),
        "shown": ("megatron",),
    }
)
"""Constants that move with the year, for all, a generation or a family; docs/losses.md says how we read them."""

_BASE_WIDTH = 1.0
_MOVE_WIDTH = 0.5
_FAR = ("immature", "unfused", "gaudi")
"""What may lie far from the rest: early runs by their own words, kernels of another kind, chips of another make."""

_STARTS = {
    ("unfused", "llama.cpp"): 3.5,
    ("shown", "megatron"): -3.0,
}
"""Moves that do not start at none: llama.cpp of 2024 wrote and read scores in 32 bit, about ten bytes
each, and has fused its attention since; Megatron hides most of training's collectives behind products by now."""

_BY_YEAR = {"unfused": -3.0, "shown": -1.0}
"""Slopes that do not start at none: those bytes fall from ten to a few hundredths in two years; Megatron of 2022 hid
next to nothing, since Transformer Engine's overlapped products came later."""

_FAR_WIDTH = 1.5
_FIRM = 0.1


_KERNELS = ("grouped", "expert_rows", "imbalance", "wire_exchange")
"""Constants that kernel timings know better than services: grouped products reach 0.3 to 0.5 of peak at
128 to 512 rows per expert and 0.5 to 0.8 above."""

_KNOWN_WIDTH = 0.4


def _widths(name: str, member: str) -> float:
    return _FAR_WIDTH if member in _FAR or name in _FAR else _MOVE_WIDTH


def _base_width(name: str) -> float:
    if name in _FAR:
        return _FIRM
    return _KNOWN_WIDTH if name in _KERNELS else _BASE_WIDTH


def priors() -> tuple[Prior, ...]:
    """All constants with their priors, on the inner scale."""
    base = [
        Prior(name=n, kind="base", member="", centre=inward(v, SCALES[n]), width=_base_width(n))
        for n, (v, _) in CENTRES.items()
    ]
    moves = [
        Prior(
            name=n,
            kind="move",
            member=m,
            centre=_STARTS.get((n, m), 0.0),
            width=_widths(n, m),
        )
        for n, members in MOVES.items()
        for m in members
    ]
    slopes = [
        Prior(
            name=n,
            kind="slope",
            member=m,
            centre=_BY_YEAR.get(n, 0.0),
            width=_FIRM if n == "shown" else _widths(n, m),
        )
        for n, members in SLOPES.items()
        for m in members
    ]
    return (*base, *moves, *slopes)
