"""Launch commands of llama.cpp: ``llama-server`` with a file of its own.

Flags are those of ``tools/server/README.md`` at commit 00dc805; the tests hold the list.
"""

from __future__ import annotations

from math import ceil

from rackmath.models.formats import GGUF_CACHES
from rackmath.serving.launch import LaunchedWorker, Place
from rackmath.serving.launch_drafts import OWN, TEXT

VERSION = "llama.cpp at commit 00dc805"
PORT = 8000
"""Port that users reach: llama-server's own has changed between releases."""


def llama_command(server: LaunchedWorker, place: Place | None = None) -> str:
    """Command for one server of llama.cpp; all its slots share one cache."""
    at, slots = place or Place(), ceil(server.batch)
    # Slots share it, and their mean request is half of the longest.
    pool = max(server.longest, ceil(slots * server.longest / 2))
    flags = ["llama-server", f"--model {file_name(server)}", "--gpu-layers all"]
    if server.layout.pipeline > 1:
        flags.append("--split-mode layer")
    flags += [
        f"--parallel {slots}",
        "--kv-unified",
        f"--ctx-size {pool}",
        f"--batch-size {ceil(server.chunk)}",
        "--flash-attn on",
    ]
    if server.cache in GGUF_CACHES:
        flags.append(f"--cache-type-k {server.cache} --cache-type-v {server.cache}")
    flags += _drafts(server)
    flags.append("--cache-prompt" if server.prefix_caching else "--no-cache-prompt")
    flags.append(f"--port {PORT if at.port is None else at.port}")
    return " \\\n  ".join([f"{flags[0]} {flags[1]}", *flags[2:]])


def file_name(server: LaunchedWorker) -> str:
    """Name of the file that a server reads, as llama.cpp's own tools name it."""
    return f"{server.model.rpartition('/')[2]}-{(server.quantise or 'bf16').upper()}.gguf"


def _drafts(server: LaunchedWorker) -> list[str]:
    """What drafts, and how many tokens: layers of the model, an n-gram of the text, or another model's file."""
    count = int(server.draft_tokens)
    if not count:
        return []
    if server.draft == TEXT:
        return [f"--spec-type ngram-simple --spec-ngram-simple-size-m {count}"]
    if server.draft == OWN:
        return [f"--spec-type draft-mtp --spec-draft-n-max {count}"]
    kind, file = "draft-eagle3" if server.eagle else "draft-simple", f"{server.draft.rpartition('/')[2]}.gguf"
    return [f"--spec-type {kind} --spec-draft-n-max {count}", f"--spec-draft-model {file}"]


def llama_notes(server: LaunchedWorker) -> list[str]:
    """What the flags cannot express, or what has to be done by hand."""
    sentences = [
        f"make {file_name(server)} with convert_hf_to_gguf.py and llama-quantize, or name one with --hf-repo",
        "slots share the cache: --ctx-size is of all of them together",
    ]
    if server.layout.gpus > 1:
        sentences.append("each accelerator holds whole layers; --split-mode tensor is experimental, and not planned")
    if server.adapters is not None:
        sentences.append("name each adapter with --lora; requests choose one by its number")
    return sentences
