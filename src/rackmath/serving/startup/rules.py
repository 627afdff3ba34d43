"""How engines share out an accelerator's memory when they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import floor, inf
from types import MappingProxyType
from typing import NamedTuple

from rackmath.errors import InputError
from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.loaded import Multiples
from rackmath.models.mixers import Compressed, Grouped, Latent

_GIB = 2**30
_MIB = 2**20

MEASURED_VERSION = 0.19
"""Version of vLLM whose starts were measured."""

NEWEST_VERSION = 0.33
"""Version of vLLM whose flags launch lines write."""

_WIDER = 0.20
"""Version of vLLM from which it takes 0.92 of the memory by default. Source: its ``config/cache.py``."""

_SECOND_RUNNER_DENSE, _SECOND_RUNNER = 0.25, 0.29
"""Versions of vLLM whose second model runner serves dense models without recurrent layers, and all models. Before
0.29 it takes no graphs off. Sources: ``config/vllm.py``, ``use_v2_model_runner``; ``v1/worker/gpu/model_runner.py``,
``profile_cudagraph_memory``."""

_BY_CONCURRENCY = 0.22
"""Version of vLLM from which its log counts the cache in longest requests that fit. Source:
``v1/core/kv_cache_utils.py``."""

_HELD_IN_FLIGHT = 0.26
"""Version of vLLM from which blocks outside a window are held until the steps that run have ended. Source:
``config/vllm.py``, ``max_in_flight_tokens``."""

_GRAPHS_TAKEN_OFF = 0.21
"""Version of vLLM from which the memory of graphs is taken off the cache's.
Source: its log, "CUDA graph memory profiling is enabled (default since v0.21.0)"."""

_TRITON_EXPERTS = 0.26
"""Version of vLLM whose start on Hopper shows experts in MXFP4 that are padded less than those of 0.19."""

SEEN_OF_PRINTED = 0.985 * _GIB / 1e9
"""Memory that programs see over the printed capacity where nobody says it: 0.98 to 0.99 of as many gibibytes."""

DRAWN = 0.04
"""Error of that. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupRules:
    """Rules of one engine.

    Parameters
    ----------
    fraction : callable
        Default part of the memory, by chip, tensor width and tokens of a pass.
    flag : str
        What the engine calls that part.
    block : int
        Tokens of one block of the cache.
    of_free : bool
        Whether the part is of what is free beside the weights, rather than of the whole memory.
    profiled : bool
        Whether working memory is measured in a pass before the cache is allocated; else the part leaves room for it.
    graphs_taken_off : bool
        Whether the memory of graphs is estimated and taken off the cache's.
    in_place : bool
        Whether sampling works on the logits themselves instead of copies.
    by_concurrency : bool
        Whether the cache's tokens are those of as many longest requests as fit, rather than of its blocks.
    held_in_flight : bool
        Whether blocks outside a window are held by all steps in flight, one more than stages where steps are decided
        ahead.
    measured : bool
        Whether starts of the engine were measured.
    experts : callable
        What the engine's kernels on a chip pad experts in MXFP4 to.
    pooled : bool
        Whether tokens of full attention, of windows and states have pools of their own, instead of equal blocks.
    """

    fraction: Callable[[Chip, float, float], float]
    flag: str
    block: int
    of_free: bool
    profiled: bool
    graphs_taken_off: bool
    in_place: bool
    by_concurrency: bool
    held_in_flight: bool
    measured: bool
    source: str
    experts: Callable[[Chip], Multiples]
    pooled: bool = False


def is_known(family: str) -> bool:
    """Whether the rules of an engine have been read."""
    return family in _RULES


def memory_note(family: str) -> list[str]:
    """Say by whose account of memory requests find a place; nothing of engines without rules."""
    return (
        [f"memory by the rules of {family} at its start: rackmath memory --engine {family}"] if is_known(family) else []
    )


def rules_of(family: str, version: float | None, architecture: Architecture) -> StartupRules:
    """Rules of an engine for a model.

    Parameters
    ----------
    version : float, optional
        Of vLLM, as 0.19; by default the one whose starts were measured.

    Errors: :class:`InputError` for an engine whose rules nobody has read.
    """
    if not is_known(family):
        raise InputError("--engine", family, f"memory at start is known of {', '.join(_RULES)}")
    if version is not None and family != "vllm":
        raise InputError("--engine-version", version, f"rules by version are known of vLLM, not of {family}")
    rules = _RULES[family]
    return _vllm(version or MEASURED_VERSION, architecture) if rules is None else rules


def _vllm(version: float, architecture: Architecture) -> StartupRules:
    if not 0.11 <= version < 1:
        raise InputError("--engine-version", version, "rules of vLLM are known from 0.11 on; write it as 0.19")
    second = version >= (_SECOND_RUNNER_DENSE if _dense(architecture) else _SECOND_RUNNER)
    return StartupRules(
        fraction=lambda chip, width, tokens: 0.92 if version >= _WIDER else 0.9,
        flag="--gpu-memory-utilization",
        block=16,
        of_free=False,
        profiled=True,
        graphs_taken_off=version >= (_SECOND_RUNNER if second else _GRAPHS_TAKEN_OFF),
        in_place=second,
        by_concurrency=version >= _BY_CONCURRENCY,
        held_in_flight=version >= _HELD_IN_FLIGHT,
        measured=True,
        source="vLLM's v1/worker/gpu_worker.py, determine_available_memory",
        experts=partial(_vllm_experts, version),
    )


def _dense(architecture: Architecture) -> bool:
    """Whether all layers are attention over a cache and feed-forwards without experts."""
    return not any(
        isinstance(block, Experts) for layer, _ in architecture.groups for block in layer.feed_forwards
    ) and all(
        isinstance(mixer, (Grouped, Latent, Compressed)) for layer, _ in architecture.groups for mixer in layer.mixers
    )


def _sglang_fraction(chip: Chip, width: float, tokens: float) -> float:
    """Default of ``--mem-fraction-static``: room for prompts, graphs and large parallel widths is left out.

    Source: SGLang's ``server_args.py``, ``_handle_gpu_memory_settings``, of 2026, without attention in data parallel.
    """
    capacity = visible(chip) / _MIB
    graphs = graph_sizes("sglang", chip, width, inf)
    reserve = 512 + 1.5 * max(tokens, 2048.0) + 2 * graphs + width / 8 * 1024
    if capacity > 60 * 1024:
        reserve = max(reserve, 10 * 1024.0)
    return round((capacity - reserve) / capacity, 3)


def _vllm_experts(version: float, chip: Chip) -> Multiples:
    """FlashInfer's kernels on Blackwell of data centres, Triton's on Hopper, Marlin's on NVIDIA's others.

    Source: vLLM's ``fused_moe/oracle/mxfp4.py``, ``mxfp4_round_up_hidden_size_and_intermediate_size``. Triton's have
    the size that one start shows.
    """
    if chip.vendor == "AMD" or chip.generation == "blackwell":
        return Multiples(width=256, hidden=256)
    if chip.generation == "hopper" and version >= _TRITON_EXPERTS:
        return Multiples(width=128)
    return Multiples(width=128, hidden=256) if chip.vendor == "NVIDIA" else Multiples()


def _sglang_experts(chip: Chip) -> Multiples:
    """FlashInfer's kernels on Blackwell of data centres, Triton's elsewhere.

    Source: SGLang's ``quantization/mxfp4.py``, ``create_weights``.
    """
    if chip.generation == "blackwell":
        return Multiples(width=256, hidden=256)
    return Multiples(width=128 if chip.vendor == "AMD" else 64)


def launch_fraction(family: str, memory: float, weights: float, activations: float) -> float:
    """What a launch line says of an engine's part, so that ``memory`` of an accelerator is used in all; two places. [1]

    Parameters
    ----------
    weights, activations : float
        Parts of the memory that they take. [1]

    vLLM's ``--gpu-memory-utilization`` is of everything, SGLang's ``--mem-fraction-static`` of weights and cache,
    TensorRT-LLM's ``free_gpu_memory_fraction`` of what is left beside the weights and a pass.
    """
    if family == "sglang":
        return floor(100 * (memory - activations)) / 100
    if family != "trtllm":
        return memory
    room = 1.0 - weights - activations
    part = (memory - weights - activations) / room if room > 0 else memory
    return max(floor(100 * part), 1) / 100


def visible(chip: Chip) -> float:
    """Memory that programs see. [B]"""
    return chip.visible_memory or SEEN_OF_PRINTED * chip.memory_capacity


def graph_sizes(family: str, chip: Chip, width: float, max_num_seqs: float) -> float:
    """Largest batch that a graph is captured for. [sequences]

    Source: vLLM's ``config/vllm.py`` (twice the sequences, at most 512), SGLang's ``server_args.py`` (by memory).
    """
    if family != "sglang":
        return min(2 * max_num_seqs, 512.0)
    defaults = sglang_defaults(chip)
    return defaults.graphs if width < 4 else defaults.wide_graphs


class SglangDefaults(NamedTuple):
    """What SGLang takes by an accelerator's memory where nothing is said."""

    below: float
    """Memory that programs see, less than this. [GiB]"""
    tokens: float
    """Tokens of prompts in a pass (``chunked_prefill_size``). [tokens]"""
    graphs: float
    """Largest batch that a graph is captured for, of fewer than four tensor ranks. [sequences]"""
    wide_graphs: float
    """The same from four tensor ranks on. [sequences]"""


_SGLANG_BY_MEMORY = (
    SglangDefaults(20, 2048.0, 8.0, 8.0),
    SglangDefaults(35, 2048.0, 24.0, 80.0),
    SglangDefaults(60, 4096.0, 32.0, 160.0),
    SglangDefaults(160, 8192.0, 256.0, 512.0),
    SglangDefaults(inf, 16384.0, 512.0, 512.0),
)


def sglang_defaults(chip: Chip) -> SglangDefaults:
    """SGLang's defaults by memory. Source: its ``server_args.py``, ``_handle_gpu_memory_settings``, of 2026."""
    return next(row for row in _SGLANG_BY_MEMORY if visible(chip) / _GIB < row.below)


_RULES: Mapping[str, StartupRules | None] = MappingProxyType(
    {
        "vllm": None,  # By version.
        "sglang": StartupRules(
            fraction=_sglang_fraction,
            flag="--mem-fraction-static",
            block=1,
            of_free=False,
            profiled=False,
            graphs_taken_off=False,
            in_place=False,
            by_concurrency=False,
            held_in_flight=False,
            pooled=True,
            measured=False,
            source="SGLang's model_runner_kv_cache_mixin.py, profile_max_num_token",
            experts=_sglang_experts,
        ),
        "trtllm": StartupRules(
            fraction=lambda chip, width, tokens: 0.9,
            flag="--free_gpu_memory_fraction",
            block=32,
            of_free=True,
            profiled=True,
            graphs_taken_off=False,
            in_place=False,
            by_concurrency=False,
            held_in_flight=False,
            measured=False,
            source="TensorRT-LLM's _torch/pyexecutor/_util.py, KvCacheCreator",
            experts=partial(_vllm_experts, MEASURED_VERSION),
        ),
    }
)
