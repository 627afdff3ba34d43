"""Launch commands of vLLM and SGLang for an operating point, and what their flags cannot say.

Checked on 2026-11-21 against vllm/config/parallel.py and the engine arguments of vLLM, the
page "Server Arguments" of SGLang, and examples/backends/vllm/deploy of ai-dynamo/dynamo.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rackmath.engine import Layout

ONLINE = ("fp8",)
"""Formats that both engines convert a 16-bit checkpoint to while loading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One worker to launch."""

    model: str
    layout: Layout
    role: str
    """prefill, decode, or empty where one worker does both."""
    batch: float
    """Sequences in a step. [sequences]"""
    chunk: float
    """Tokens of prompts in one pass at most. [tokens]"""
    context: float
    """Tokens of a request. [tokens]"""
    drafted: float
    mixture: bool
    """Whether the model has routed experts."""
    quantise: str
    """Format that the engine has to convert weights to; empty where the checkpoint has it."""
    cache: str
    """Format of the cache, as in bf16 or fp8."""
    cached: bool
    """Whether prompts share prefixes."""


def vllm_command(server: Server) -> str:
    """Command for one worker of vLLM."""
    x = server.layout
    flags = ["vllm serve", server.model]
    flags += _widths(
        ("--tensor-parallel-size", x.tensor),
        ("--pipeline-parallel-size", x.pipeline),
        ("--data-parallel-size", x.data if server.mixture else 1),
        ("--decode-context-parallel-size", x.context_parallel),
    )
    if server.mixture and x.expert > 1:
        flags.append("--enable-expert-parallel")
    groups = float(x.data) if server.mixture else 1.0
    flags += [
        f"--max-model-len {math.ceil(server.context)}",
        f"--max-num-seqs {math.ceil(server.batch / groups)}",
        f"--max-num-batched-tokens {math.ceil(server.chunk)}",
    ]
    if server.quantise in ONLINE:
        flags.append(f"--quantization {server.quantise}")
    if server.cache == "fp8":
        flags.append("--kv-cache-dtype fp8")
    if not server.cached:
        flags.append("--no-enable-prefix-caching")
    if server.drafted and server.role != "prefill":
        setting = f'{{"method": "mtp", "num_speculative_tokens": {server.drafted:.0f}}}'
        flags.append(f"--speculative-config '{setting}'")
    if server.role:
        flags.append("""--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'""")
    return " \\\n  ".join(_lines(flags))


def sglang_command(server: Server) -> str:
    """Command for one worker of SGLang."""
    x = server.layout
    spread = server.mixture and x.data > 1
    groups = float(x.data) if spread else 1.0
    flags = ["python -m sglang.launch_server", f"--model-path {server.model}"]
    flags += _widths(
        ("--tp-size", x.tensor * (x.data if spread else 1)),
        ("--pp-size", x.pipeline),
        ("--ep-size", x.expert),
        ("--dcp-size", x.context_parallel),
    )
    if spread:
        flags += [f"--dp-size {x.data:g}", "--enable-dp-attention"]
    if x.expert > x.tensor:
        flags.append("--moe-a2a-backend deepep")
    flags += [
        f"--context-length {math.ceil(server.context)}",
        f"--max-running-requests {math.ceil(server.batch)}",
        f"--chunked-prefill-size {math.ceil(server.chunk * groups)}",
    ]
    if server.quantise in ONLINE:
        flags.append(f"--quantization {server.quantise}")
    if server.cache == "fp8":
        flags.append("--kv-cache-dtype fp8_e4m3")
    if not server.cached:
        flags.append("--disable-radix-cache")
    if server.drafted and server.role != "prefill":
        n = int(server.drafted)
        flags += [
            "--speculative-algorithm EAGLE",
            f"--speculative-num-steps {n} --speculative-eagle-topk 1 --speculative-num-draft-tokens {n + 1}",
        ]
    if server.role:
        flags.append(f"--disaggregation-mode {server.role} --disaggregation-transfer-backend nixl")
    return " \\\n  ".join(_lines(flags))


def notes(server: Server) -> list[str]:
    """What the flags cannot express, or what has to be done by hand."""
    x, found = server.layout, list[str]()
    ranks = x.tensor * x.data
    if server.mixture and x.expert not in (1, ranks):
        found.append(f"vLLM deals experts to all {ranks:g} ranks of a worker; ep{x.expert:g} is SGLang's to say")
    if server.mixture and x.expert == 1 and x.data > 1:
        found.append("each data-parallel group holds all experts: launch the groups as instances of their own")
    if not server.mixture and x.data > 1:
        found.append(f"a dense model has no shared ranks: launch {x.data:g} instances behind a router")
    if server.mixture and x.data > 1:
        found.append(
            "vLLM counts --max-num-seqs and --max-num-batched-tokens per data-parallel rank, SGLang divides its totals"
        )
    if x.gpus > 8:
        found.append("a worker that spans nodes also needs the node count, rank and address (--nnodes and its kin)")
    if x.pipeline > 1 and server.drafted:
        found.append("speculative decoding with pipeline stages is not supported by every release")
    if server.quantise and server.quantise not in ONLINE:
        found.append(f"weights at {server.quantise} need a checkpoint in that format; engines read it from its config")
    if server.cache not in ("bf16", "fp8"):
        found.append(f"a cache at {server.cache} is set by neither command")
    return found


def pools_yaml(name: str, servers: Sequence[tuple[Server, int]]) -> str:
    """Kubernetes resource for two pools, as NVIDIA Dynamo's operator takes it."""
    lines = [
        "apiVersion: nvidia.com/v1alpha1",
        "kind: DynamoGraphDeployment",
        "metadata:",
        f"  name: {name}",
        "spec:",
        "  services:",
        "    Frontend:",
        "      componentType: frontend",
        "      replicas: 1",
        *_container("", ()),
    ]
    for server, replicas in servers:
        arguments = vllm_command(server).replace(" \\\n", "").split()[2:]
        lines += [
            f"    Vllm{server.role.capitalize()}Worker:",
            "      envFromSecret: hf-token-secret",
            "      componentType: worker",
            f"      subComponentType: {server.role}",
            f"      replicas: {replicas}",
            "      resources:",
            "        limits:",
            f'          gpu: "{server.layout.gpus:g}"',
            *_container("dynamo.vllm", ["--model", *arguments, f"--is-{server.role}-worker"]),
        ]
    return "\n".join(lines) + "\n"


def _container(module: str, arguments: Sequence[str]) -> list[str]:
    lines = [
        "      extraPodSpec:",
        "        mainContainer:",
        "          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:${VERSION}",
    ]
    if not module:
        return lines
    lines += ["          command: [python3, -m, " + module + "]", "          args:"]
    return lines + ["            - " + _quoted(a.strip("'")) for a in _whole(arguments)]


def _quoted(text: str) -> str:
    """Text as a string of YAML in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _whole(arguments: Sequence[str]) -> list[str]:
    """Put quoted arguments together again that a split at spaces tore apart."""
    found: list[str] = []
    for piece in arguments:
        if found and found[-1].startswith("'") and not (len(found[-1]) > 1 and found[-1].endswith("'")):
            found[-1] += " " + piece
        else:
            found.append(piece)
    return found


def _widths(*pairs: tuple[str, object]) -> list[str]:
    return [f"{flag} {width:g}" for flag, width in pairs if isinstance(width, (int, float)) and width > 1]


def _lines(flags: Sequence[str]) -> list[str]:
    """First two words on one line, each further flag on its own."""
    return [f"{flags[0]} {flags[1]}", *flags[2:]]
