"""Launch commands of TensorRT-LLM: ``trtllm-serve`` with a YAML file for what has no flag.

Flags are those of ``tensorrt_llm/commands/serve.py`` at commit 00209af: its wheel is too large for
``tools/engine_flags.py``, the tests hold the list. Keys of the file are those of its LLM arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from rackmath.engine import Layout
from rackmath.serving.engines import launched_max_num_seqs
from rackmath.serving.launch import LaunchedWorker, Place
from rackmath.serving.launch_drafts import OWN, TEXT
from rackmath.serving.startup.rules import launch_fraction

PROXY_FILE = "trtllm-pools.yml"
"""Settings of the proxy before two pools."""


def _on_all_ranks(layout: Layout) -> Layout:
    """What TensorRT-LLM runs in place of a layout whose attention is data-parallel on some ranks: on all of them."""
    if layout.data == 1 or layout.ffn:
        return layout
    return replace(layout, tensor=1, data=layout.tensor * layout.data)


def trtllm_command(server: LaunchedWorker, place: Place | None = None) -> str:
    """Command for one worker of TensorRT-LLM; over several boxes it is started on the first, by MPI."""
    x, at = _on_all_ranks(server.layout), place or Place()
    if at.boxes and at.rank:
        return f": started from {at.boxes[0]} by mpirun"
    flags = [f"trtllm-serve {server.model}", "--backend pytorch"]
    for flag, width in (
        # Ranks that cut a cache by tokens are among those of tensor parallelism here, and beside them there.
        ("--tp_size", x.tensor * x.data / x.context_parallel),
        ("--pp_size", x.pipeline),
        ("--cp_size", x.context_parallel),
        ("--ep_size", x.expert if server.experts else 1),
    ):
        flags += [f"{flag} {width:g}"] if float(width) > 1 else []
    flags += [
        f"--max_batch_size {launched_max_num_seqs('trtllm', server.batch, x)}",
        f"--max_num_tokens {ceil(server.chunk)}",
        f"--max_seq_len {server.longest}",
        "--enable_chunked_prefill",
        f"--config {settings_file(server)}",
    ]
    if at.port is not None:
        flags.append(f"--port {at.port}")
    if at.boxes:
        per_box = int(x.gpus) // len(at.boxes)
        hosts = ",".join(f"{box}:{per_box}" for box in at.boxes)
        flags[0] = f"mpirun -n {x.gpus:g} --host {hosts} trtllm-llmapi-launch {flags[0]}"
        flags.append("--host 0.0.0.0")
    return " \\\n  ".join(flags)


def settings_file(server: LaunchedWorker) -> str:
    """Name of the YAML file that a worker reads."""
    return f"trtllm-{server.role or 'serve'}.yml"


def settings(server: LaunchedWorker) -> str:
    """A command of the shell that writes the YAML file of a worker."""
    x = server.layout
    part = launch_fraction("trtllm", server.memory, server.weights, server.activations)
    lines = [
        "kv_cache_config:",
        f"  free_gpu_memory_fraction: {part:.2f}",
        f"  enable_block_reuse: {'true' if server.prefix_caching else 'false'}",
    ]
    if server.cache == "fp8":
        lines.append("  dtype: fp8")
    if x.data > 1:
        lines.append("enable_attention_dp: true")
    if server.eager:
        lines.append("cuda_graph_config: null")
    if server.told_drafts:
        lines += ["speculative_config:", *(f"  {line}" for line in _drafts(server))]
    if server.adapters is not None:
        lines += ["lora_config:", f"  max_lora_rank: {server.adapters.rank}"]
        lines += [f"  max_loras: {server.adapters.resident}", f"  max_cpu_loras: {server.adapters.count}"]
    if server.role:
        lines += ["cache_transceiver_config:", "  backend: DEFAULT"]
    if server.role == "prefill":
        lines.append("disable_overlap_scheduler: true")
    return _written(settings_file(server), lines)


def _drafts(server: LaunchedWorker) -> list[str]:
    n = int(server.draft_tokens)
    if server.draft == OWN:
        return ["decoding_type: MTP", f"num_nextn_predict_layers: {n}"]
    if server.draft == TEXT:
        return ["decoding_type: NGram", f"max_draft_len: {n}"]
    if server.eagle:
        return ["decoding_type: Eagle3", f"max_draft_len: {n}", f"speculative_model_dir: {server.draft}"]
    return ["decoding_type: Draft_Target", f"max_draft_len: {n}", f"speculative_model_dir: {server.draft}"]


def proxy(port: int, readers: Sequence[str], writers: Sequence[str]) -> str:
    """Commands that start the proxy before workers that read prompts and workers that write answers."""
    lines = ["hostname: 0.0.0.0", f"port: {port}", "backend: pytorch"]
    for name, addresses in (("context_servers", readers), ("generation_servers", writers)):
        lines += [f"{name}:", f"  num_instances: {len(addresses)}", "  urls:"]
        lines += [f'    - "{address}"' for address in addresses]
    return f"{_written(PROXY_FILE, lines)}\ntrtllm-serve disaggregated -c {PROXY_FILE}"


def _written(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"cat > {name} <<'YAML'", *lines, "YAML"])
