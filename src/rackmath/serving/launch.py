"""Launch commands of vLLM and SGLang for one server, and what their flags cannot say.

Flags and values are those of vLLM 0.33.0 and SGLang 0.5.23, read from their wheels by ``tools/engine_flags.py``; the
tests parse every command against that list.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rackmath.engine import Layout
from rackmath.engine.expert_load import redundant_experts
from rackmath.models.adapters import ALL_LINEAR, Adapters
from rackmath.serving.engine_limits import verifies_drafts
from rackmath.serving.engines import launched_max_num_seqs
from rackmath.serving.launch_apart import FFN, PLUGIN, ApartServer
from rackmath.serving.launch_drafts import HEAD, OWN, TEXT, sglang_drafts, vllm_drafts
from rackmath.serving.launch_redundancy import redundancy_flags
from rackmath.serving.quoting import quoted
from rackmath.serving.startup.rules import launch_fraction

ENGINES = "vLLM 0.33.0, SGLang 0.5.23 and TensorRT-LLM at commit 00209af"
"""Versions whose flags are written."""
ONLINE = ("fp8",)
"""Formats that vLLM and SGLang convert a 16-bit checkpoint to while loading."""
ENCODERS = (
    "which the scripts do not start: vLLM with --ec-transfer-config of ec_role ec_producer, its servers with "
    "ec_consumer; SGLang with --encoder-only, its servers with --language-only and --encoder-urls"
)
"""How accelerators that encode images only are started."""
VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM's ``--max-lora-rank`` takes."""
_STEP = 1024
"""Lengths are rounded up to multiples of this. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedWorker:
    """One worker to launch."""

    model: str
    """Repository on Hugging Face, or a path."""
    layout: Layout
    role: str
    """prefill, decode, or empty where one worker does both."""
    batch: float
    """Sequences in its engine at once. [sequences]"""
    chunk: float
    """Tokens in one pass at most. [tokens]"""
    longest: int
    """Tokens of a request at most. [tokens]"""
    draft_tokens: float
    draft: str = OWN
    """What drafts: OWN, TEXT, or the repository of another model."""
    eagle: bool = False
    """Whether that model is an EAGLE-3 head."""
    experts: int = 0
    """Routed experts of a layer; 0 for a dense model."""
    quantise: str
    """Format that the engine has to convert weights to; empty where the checkpoint has it."""
    cache: str
    """Format of the cache, as in bf16 or fp8."""
    prefix_caching: bool
    """Whether prompts share prefixes."""
    memory: float = 0.95
    """Part of the memory that the plan uses. [1]"""
    activations: float = 0.0
    """Part of it that a pass works in, beside weights and cache. [1]"""
    weights: float = 0.0
    """Part of it that weights take. [1]"""
    redundant: int = 0
    """Copies of experts beyond the fewest that make them divide."""
    interval: int | None = None
    """Steps from one placement of experts by load to the next; None where they stay where they are."""
    adapters: Adapters | None = None
    """Low-rank adapters that requests choose from."""
    eager: bool = False
    """Whether steps replay no graphs."""
    afd_part: ApartServer | None = None
    """Which part it is of a worker whose routed experts have servers of their own."""
    encoder_data: bool = False
    """Whether the vision encoder is data-parallel over the tensor ranks, instead of each matrix split."""

    @property
    def told_drafts(self) -> bool:
        """Whether the worker is told what drafts.

        Those that only read prompts are told the same as those that verify: vLLM compares both sides, SGLang's and
        TensorRT-LLM's fill the cache of the layers that draft. Sources: vLLM's
        ``docs/features/nixl_connector_compatibility.md``, SGLang's pull request 17212, TensorRT-LLM's
        ``examples/disaggregated/slurm/benchmark/config.yaml``.
        """
        return bool(self.draft_tokens) and (self.role != "prefill" or self.draft != TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server runs: its port, and the boxes that it spans."""

    port: str | None = None
    """A number or an expression of the shell; None for the engine's own."""
    link_port: str | None = None
    """Port over which two pools agree on transfers of the cache."""
    boxes: tuple[str, ...] = ()
    """Names of its boxes where it spans several."""
    rank: int = 0
    """Which of these boxes the command is for."""
    experts_host: str = "127.0.0.1"
    """Where the first rank runs that holds this worker's routed experts only."""


def longest_request(mean: float, trained_length: int | None) -> int:
    """Twice the mean request, in whole thousands, and no more than the model was trained for. [tokens]"""
    room = math.ceil(2 * mean / _STEP) * _STEP
    return max(min(room, trained_length or room), math.ceil(mean))


def one_each(server: LaunchedWorker) -> tuple[LaunchedWorker, int]:
    """A server whose data-parallel groups share ranks, and how many of it a worker is.

    Groups of a dense model share nothing, and neither do those that hold all experts: they are servers of their own.
    """
    x = server.layout
    if x.data == 1 or server.afd_part is not None or (server.experts and x.expert_groups > 1):
        return server, 1
    alone = replace(x, data=1)
    return replace(server, layout=alone, batch=math.ceil(server.batch / float(x.data))), int(x.data)


def vllm_command(server: LaunchedWorker, place: Place | None = None) -> str:
    """Command for one worker of vLLM."""
    x, at = server.layout, place or Place()
    ranks = int(x.tensor * x.data)
    flags = ["vllm serve", server.model]
    flags += _widths(
        ("--tensor-parallel-size", x.tensor),
        ("--pipeline-parallel-size", x.pipeline),
        ("--data-parallel-size", x.data),
        ("--decode-context-parallel-size", x.context_parallel),
    )
    if server.experts and (x.expert > 1 or server.afd_part is not None):
        flags.append("--enable-expert-parallel")
    if server.experts and x.expert > 1 and (spare := redundant_experts(server.experts, ranks, server.redundant)):
        flags.append(redundancy_flags(spare, server.interval)["vllm"])
    flags += [
        f"--max-model-len {server.longest}",
        f"--max-num-seqs {launched_max_num_seqs('vllm', server.batch, x)}",
        f"--max-num-batched-tokens {math.ceil(server.chunk)}",
        f"--gpu-memory-utilization {server.memory:.2f}",
    ]
    if server.quantise in ONLINE:
        flags.append(f"--quantization {server.quantise}")
    if server.cache == "fp8":
        flags.append("--kv-cache-dtype fp8")
    flags += _adapters(server, "vllm")
    flags += ["--mm-encoder-tp-mode data"] if server.encoder_data else []
    flags += ["--enforce-eager"] if server.eager else []
    flags.append("--enable-prefix-caching" if server.prefix_caching else "--no-enable-prefix-caching")
    if server.afd_part is not None:
        flags += server.afd_part.flags(at.experts_host, server.eager)
    if server.told_drafts and server.role != FFN:
        config = vllm_drafts(server.draft, int(server.draft_tokens), eagle=server.eagle)
        flags.append(f"--speculative-config {quoted(config)}")
    if server.role and server.role != FFN:
        flags.append(f"--kv-transfer-config {quoted({'kv_connector': 'NixlConnector', 'kv_role': 'kv_both'})}")
    if at.port is not None:
        flags.append(f"--port {at.port}")
    if at.boxes:
        flags.append(f"--nnodes {len(at.boxes)} --node-rank {at.rank} --master-addr {at.boxes[0]}")
        flags += ["--headless"] if at.rank else []
    return " \\\n  ".join(_lines(flags))


def sglang_command(server: LaunchedWorker, place: Place | None = None) -> str:
    """Command for one worker of SGLang."""
    x, at = server.layout, place or Place()
    groups = float(x.data)
    flags = ["python -m sglang.launch_server", f"--model-path {server.model}"]
    flags += _widths(
        ("--tp-size", x.tensor * x.data),
        ("--attn-dp-size", x.data),
        ("--pp-size", x.pipeline),
        ("--ep-size", x.expert),
        ("--dcp-size", x.context_parallel),
    )
    ranks = int(x.tensor * x.data)
    if x.data > 1 and ranks & (ranks - 1):
        # Vocabularies and dense layers seldom divide by such a width.
        flags.append("--moe-dense-tp-size 1 --enable-dp-lm-head")
    if x.expert > x.tensor:
        flags.append("--moe-a2a-backend deepep")
    if x.expert > 1 and (spare := redundant_experts(server.experts, int(x.expert), server.redundant)):
        flags.append(redundancy_flags(spare, server.interval)["sglang"])
    flags += [
        f"--context-length {server.longest}",
        f"--max-running-requests {math.ceil(server.batch)}",
        f"--chunked-prefill-size {math.ceil(server.chunk * groups)}",
        f"--mem-fraction-static {launch_fraction('sglang', server.memory, server.weights, server.activations):.2f}",
    ]
    if server.quantise in ONLINE:
        flags.append(f"--quantization {server.quantise}")
    if server.cache == "fp8":
        flags.append("--kv-cache-dtype fp8_e4m3")
    flags += _adapters(server, "sglang")
    flags += ["--mm-enable-dp-encoder"] if server.encoder_data else []
    flags += ["--disable-cuda-graph"] if server.eager else []
    if not server.prefix_caching:
        flags.append("--disable-radix-cache")
    if server.told_drafts:
        flags += sglang_drafts(server.draft, int(server.draft_tokens), eagle=server.eagle)
    if server.role:
        flags.append(f"--disaggregation-mode {server.role} --disaggregation-transfer-backend nixl")
    if server.role == "prefill" and at.link_port is not None:
        flags.append(f"--disaggregation-bootstrap-port {at.link_port}")
    if at.port is not None:
        flags.append(f"--port {at.port}")
    if at.boxes:
        flags.append(f"--nnodes {len(at.boxes)} --node-rank {at.rank} --dist-init-addr {at.boxes[0]}:20000")
    return " \\\n  ".join(_lines(flags))


def _adapters(server: LaunchedWorker, engine: str) -> list[str]:
    """Flags for low-rank adapters, in host memory all that are not resident."""
    adapters = server.adapters
    if adapters is None:
        return []
    if engine == "sglang":
        flags = [f"--max-loras-per-batch {adapters.resident}", f"--max-lora-rank {adapters.rank}"]
        names = "all" if adapters.targets == (ALL_LINEAR,) else " ".join(adapters.targets)
        return ["--enable-lora", *flags, f"--lora-target-modules {names}"]
    rank = next((rank for rank in VLLM_RANKS if rank >= adapters.rank), VLLM_RANKS[-1])
    on_cpu = [f"--max-cpu-loras {adapters.count}"] if adapters.count > adapters.resident else []
    return ["--enable-lora", f"--max-loras {adapters.resident}", f"--max-lora-rank {rank}", *on_cpu]


def notes(server: LaunchedWorker) -> list[str]:
    """What the flags cannot express, or what has to be done by hand."""
    x, sentences = server.layout, _notes_of_ranks(one_each(server)[0])
    if server.draft_tokens and not verifies_drafts("vllm", x):
        sentences.append("vLLM, SGLang and TensorRT-LLM verify no drafts in stages, or where ranks share a context")
    if server.quantise and server.quantise not in ONLINE:
        sentences.append(
            f"weights at {server.quantise} need a checkpoint in that format; engines read it from its config"
        )
    elif server.quantise:
        sentences.append(f"TensorRT-LLM needs a checkpoint at {server.quantise}; vLLM and SGLang convert while loading")
    if server.adapters is not None:
        sentences.append("name each adapter with its folder: --lora-modules of vLLM, --lora-paths of SGLang")
        if server.adapters.rank > VLLM_RANKS[-1]:
            sentences.append(f"vLLM takes adapters up to rank {VLLM_RANKS[-1]}")
    if server.draft == HEAD:
        sentences.append(f"{HEAD} stands for the repository of an EAGLE-3 head that was trained for this model")
    if server.cache not in ("bf16", "fp8"):
        sentences.append(f"a cache at {server.cache} is set by neither command")
    if x.ffn:
        sentences += [PLUGIN, "start servers of experts and of attention together: they wait for each other"]
    return sentences


def _notes_of_ranks(server: LaunchedWorker) -> list[str]:
    x, sentences = server.layout, list[str]()
    ranks = x.tensor * x.data
    if server.experts and x.expert not in (1, ranks):
        sentences.append(f"vLLM deals experts to all {ranks:g} ranks of a worker; ep{x.expert:g} is SGLang's to say")
    if server.experts and x.data > 1 and x.expert > 1:
        sentences.append(
            "vLLM counts --max-num-seqs and --max-num-batched-tokens per data-parallel rank, SGLang divides its totals"
        )
    if x.data > 1 and x.tensor > 1 and not x.ffn:
        sentences.append(
            f"TensorRT-LLM has attention data-parallel on all {ranks:g} ranks or on none: its command has it on all"
        )
    if server.experts and x.expert > 1 and server.experts % float(x.expert):
        spare = redundant_experts(server.experts, int(x.expert))
        sentences.append(f"{server.experts} experts do not divide by {x.expert:g}: {spare} of them have a second copy")
    return sentences


def _widths(*pairs: tuple[str, object]) -> list[str]:
    return [f"{flag} {width:g}" for flag, width in pairs if isinstance(width, (int, float)) and width > 1]


def _lines(flags: list[str]) -> list[str]:
    """First two words on one line, each further flag on its own."""
    return [f"{flags[0]} {flags[1]}", *flags[2:]]
