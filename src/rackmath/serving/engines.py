"""What engines do by default: sequences at once, tokens of a pass, graphs of decode steps."""

from __future__ import annotations

from math import ceil, inf

from rackmath.engine.constants import EngineVersion
from rackmath.engine.layout import Layout, candidate_layouts, parse_layout
from rackmath.errors import InputError
from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.counts import weight_format_of
from rackmath.models.weights import layer_weights
from rackmath.serving.startup.rules import sglang_defaults

GRAPHS_SINCE = {"vllm": 2023.96}
"""Date from which an engine replays decode steps as CUDA graphs by default; the others always did.
Source: vLLM's release notes, v0.2.6 of December 2023. [years]"""

FUSED_SINCE = {"llama.cpp": 2025.0}
"""Date from which benchmarks of an engine run attention in one kernel; the others always did. Before it, llama.cpp
wrote the scores of a prompt to memory unless told ``-fa 1``. Source: llama.cpp's releases; an inference. [years]"""

AHEAD_SINCE = {"sglang": 0.0, "trtllm": 2025.5, "vllm": 2026.05}
"""Date from which an engine schedules a step while the device runs the one before, by default; the others do not.
Sources: SGLang v0.4 of 4 December 2024 ("zero-overhead batch scheduler"; no measurement here is older, so that older
ones are taken to be alike); TensorRT-LLM's overlap scheduler, on by default in its documentation of 1.0 (the date is an
inference); vLLM v0.14.0 of January 2026 ("async scheduling is now enabled by default"), but for pipeline
parallelism, which is not told apart here. [years]"""

LOCAL_SINCE = {"vllm": 2024.0}
"""Date from which one of an engine's workers broadcasts the metadata of a step; before it the host called each worker
with them. Source: vLLM's release notes, v0.2.7 of 4 January 2024 ("Use NCCL instead of ray for control-plane
communication to remove serialization overhead", pull request 2221). [years]"""

CAPTURED_SINCE = {"vllm": 2025.2}
"""Date from which an engine also replays graphs where a step reads few prompts, of all but attention. Sources: vLLM's
release notes, v0.8.0 of March 2025 (V1 by default); docs.vllm.ai, design/cuda_graphs (``PIECEWISE`` for mixed batches).
[years]"""

CAPTURED = 512.0
"""Tokens of a step up to which it does. Source: vLLM's ``max_cudagraph_capture_size``. [tokens]"""

FUSED_EXPERTS_SINCE = {"megatron": 2026.4}
"""Date from which a framework trains gated experts in 8 bits on Blackwell by one fused kernel, and replays a whole step
as a graph. Source: release notes of Megatron-Bridge 0.5.0 and 0.5.1 (NeMo 26.06, "CuTeDSL fused
grouped GEMM, and full iteration CUDA graphs"); its container 26.04 had none. [years]"""

_LARGE = 70e9
"""Memory from which vLLM takes an accelerator for a large one, A100 aside. [B]"""

_UNMIXED = frozenset({"sglang"})
"""Engines that read waiting prompts before they go on with answers, instead of mixing both in one pass.
Source: SGLang's scheduler, ``get_next_batch_to_run``; ``--enable-mixed-chunk`` is off by default."""

_COMPILED = frozenset({"llama.cpp"})
"""Engines whose host code is compiled: it starts a kernel in no time to speak of."""


_ON_ANY_CARD = "llama.cpp"
"""Engine that deals layers to unlike accelerators, reads model files of its own, and whose processor multiplies what
stands in the host's memory. Source: llama.cpp's ``tools/server``: ``--split-mode layer``, ``-ngl``, ``--n-cpu-moe``."""


_ELSEWHERE = {
    "trtllm": ("AMD", "AWS", "Apple", "Google", "Huawei", "Intel", "Tenstorrent"),
    _ON_ANY_CARD: ("AWS", "Google"),
}
"""Vendors on whose accelerators an engine does not run. Sources: TensorRT-LLM's "Supported Hardware" (NVIDIA's
alone), llama.cpp's ``docs/build.md`` (its backends), of 2026."""


def vendor_notes(family: str, vendor: str) -> tuple[str, ...]:
    """What to say of an engine on a vendor's accelerators: that it does not run there, where that is known."""
    if vendor not in _ELSEWHERE.get(family, ()):
        return ()
    return (f"{family} does not run on accelerators of {vendor}: these are times of an engine like it",)


def reads_own_files(family: str) -> bool:
    """Whether an engine converts checkpoints to files of its own, with formats of its own for each tensor."""
    return family == _ON_ANY_CARD


def multiplies_on_host(family: str) -> bool:
    """Whether what stands in the host's memory is multiplied by its processor, instead of read over the link."""
    return family == _ON_ANY_CARD


def deals_layers(family: str) -> bool:
    """Whether an engine puts whole layers on each accelerator, which work one after the other, unless it is told else.

    Source: llama.cpp's ``docs/multi-gpu.md`` (``--split-mode layer`` is its default).
    """
    return family == _ON_ANY_CARD


def micro_batch_tokens(family: str) -> float:
    """Tokens of the pieces in which an engine sends a prompt through the stages of a pipeline. [tokens]

    Source: llama.cpp's ``--ubatch-size``; the others send through at once what they take into a step.
    """
    return 512.0 if deals_layers(family) else inf


def engine_layouts(architecture: Architecture, gpus: int, family: str) -> list[Layout]:
    """Sensible layouts of ``gpus`` accelerators that an engine has without being told: all, or whole layers on each."""
    layouts = candidate_layouts(architecture, gpus)
    if deals_layers(family):
        return [layout for layout in layouts if layout.pipeline == gpus]
    return [layout for layout in layouts if not _beyond_attention_dp(layout, family)]


def _beyond_attention_dp(layout: Layout, family: str) -> bool:
    """Whether groups of several ranks share experts, under an engine whose attention is data-parallel on all or none.

    Source: TensorRT-LLM's ``tensorrt_llm/mapping.py``, where ``dp_size`` is ``tp_size`` or 1.
    """
    return family == "trtllm" and bool(layout.tensor > 1 and layout.expert_groups > 1)


def engine_layout(text: str, gpus: int | None, architecture: Architecture, family: str) -> Layout:
    """Read a layout, as :func:`~rackmath.engine.layout.parse_layout` does, that an engine can run.

    Errors: :class:`InputError` as there, and for experts that are spread where layers are dealt whole.
    """
    layout = parse_layout(text, gpus, architecture)
    if deals_layers(family) and (layout.expert > 1 or layout.ffn > 0):
        raise InputError("layout", layout.text(), f"{family} spreads no experts: write pp{layout.gpus:g}")
    return layout


def layout_notes(layout: Layout, family: str) -> tuple[str, ...]:
    """What to say of a layout that an engine runs only with a flag, or not at all."""
    if _beyond_attention_dp(layout, family):
        return (_ALL_OR_NONE,)
    return (_SLICED,) if deals_layers(family) and layout.tensor > 1 else ()


_ALL_OR_NONE = "TensorRT-LLM runs attention data-parallel on all ranks that share experts, or on none: not this layout"
_SLICED = (
    "llama.cpp slices layers with --split-mode tensor alone, which is experimental since April 2026: no measurement"
    " here is of that"
)


def engine_of_unlike_cards() -> str:
    """The engine whose layers may stand on unlike accelerators."""
    return _ON_ANY_CARD


def before_graphs(family: str, year: float) -> bool:
    """Whether an engine of this year starts each kernel of a decode step, rather than replaying a graph."""
    return year < GRAPHS_SINCE.get(family, 0.0)


def before_fusing(family: str, year: float) -> bool:
    """Whether an engine of this year writes attention's scores to memory."""
    return year < FUSED_SINCE.get(family, 0.0)


def remote(family: str, year: float) -> bool:
    """Whether the host of an engine of this year sends every worker the metadata of each step."""
    return year < LOCAL_SINCE.get(family, 0.0)


def ahead(family: str, year: float) -> bool:
    """Whether an engine of this year schedules a step while the device runs the one before."""
    return year >= AHEAD_SINCE.get(family, inf)


def captured(family: str, year: float) -> bool:
    """Whether a step of an engine of this year that reads few prompts replays graphs of all but attention."""
    return year >= CAPTURED_SINCE.get(family, inf)


def fuses_experts(family: str, year: float, chip: Chip, architecture: Architecture) -> bool:
    """Whether a framework of this year trains a model's experts, in their number format, by one kernel per layer."""
    if year < FUSED_EXPERTS_SINCE.get(family, inf) or chip.generation != "blackwell":
        return False
    rates = {
        weight_format_of(architecture, layer, weight).compute
        for layer, _ in architecture.groups
        for weight in layer_weights(layer, architecture.hidden)
        if weight.role == "experts"
    }
    is_gated = all(f.gated for layer, _ in architecture.groups for f in layer.feed_forwards if isinstance(f, Experts))
    return is_gated and rates == {"fp8"}


def engine_at(chip: Chip, family: str, year: float, eager: bool = False) -> EngineVersion:
    """What constants depend on of an engine of this year on a chip; ``eager`` where it is told to replay no graphs."""
    return EngineVersion(
        generation=chip.generation,
        family=family,
        eager=eager or before_graphs(family, year),
        unfused=before_fusing(family, year),
        compiled=compiled(family),
        remote=remote(family, year),
        ahead=ahead(family, year),
        captured=captured(family, year) and not eager,
    )


def mixes(family: str) -> bool:
    """Whether a pass of an engine mixes prompts with answers, rather than reading waiting prompts first."""
    return family not in _UNMIXED


def compiled(family: str) -> bool:
    """Whether the host code of an engine is compiled, so that a kernel is started in no time to speak of."""
    return family in _COMPILED


def scheduling_rules(engine: EngineVersion) -> dict[str, float]:
    """What no row says of how an engine schedules: fields of :class:`~rackmath.serving.load.Scheduling`."""
    return {
        "mixed": float(mixes(engine.family)),
        "ahead": float(engine.ahead),
        "captured": CAPTURED * engine.captured,
    }


def default_max_num_seqs(family: str, chip: Chip) -> float:
    """Sequences that an engine runs at once where nothing is said. [sequences]

    Source: vLLM's ``engine/arg_utils.py`` (usage as a server), SGLang's and TensorRT-LLM's server arguments, of 2026;
    llama.cpp's pull request 16736 of November 2025 (4 slots that share a cache; ``--parallel`` says otherwise).
    """
    if family == "vllm":
        return 1024.0 if _large(chip) else 256.0
    return {"trtllm": 2048.0, _ON_ANY_CARD: 4.0}.get(family, inf)


def most_sequences(family: str) -> float:
    """Sequences that an engine runs at once at most, whatever it is told. [sequences]

    Source: llama.cpp's ``src/llama-cparams.h`` (``LLAMA_MAX_SEQ``).
    """
    return 256.0 if family == _ON_ANY_CARD else inf


def micro_batch_sequences(family: str, max_num_seqs: int, stages: int) -> int:
    """Sequences of one of the micro-batches that take turns in a pipeline. [sequences]

    TensorRT-LLM's ``max_batch_size`` is of each; vLLM's ``max_num_seqs`` is of all that run, and SGLang's
    ``pp_max_micro_batch_size`` is ``max_running_requests`` over the stages where nothing is said.
    Source: TensorRT-LLM's ``_torch/pyexecutor/_util.py``, vLLM's ``v1/core/sched/scheduler.py``, SGLang's
    ``srt/managers/scheduler.py``, of 2026.
    """
    return max_num_seqs if family == "trtllm" else max(max_num_seqs // stages, 1)


def launched_max_num_seqs(family: str, sequences: float, layout: Layout) -> int:
    """Sequences of one data-parallel group that an engine is launched with, where a copy decodes ``sequences``.

    In the engine's own terms, as of :func:`micro_batch_sequences`. [sequences]
    """
    turns = float(layout.pipeline) if family == "trtllm" else 1.0
    return max(ceil(sequences / (float(layout.data) * turns)), 1)


def sequences_of_stages(family: str, max_num_seqs: float, stages: float) -> float:
    """Sequences of all micro-batches of a pipeline together: :func:`micro_batch_sequences` reversed. [sequences]"""
    return max_num_seqs * stages if family == "trtllm" else max_num_seqs


def default_max_num_batched_tokens(family: str, chip: Chip) -> float:
    """Tokens that an engine puts into one pass where nothing is said. [tokens]

    Source: as :func:`default_max_num_seqs`, llama.cpp's ``tools/server`` (``--batch-size``); SGLang's goes by memory.
    """
    if family == "sglang":
        return sglang_defaults(chip).tokens
    small = family == _ON_ANY_CARD or (family == "vllm" and not _large(chip))
    return 2048.0 if small else 8192.0


def _large(chip: Chip) -> bool:
    return chip.memory_capacity >= _LARGE and chip.generation != "ampere"
