"""What engines do not run together: drafts with stages or shared contexts, stages with pools that send caches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.layout import Layout
from rackmath.models.architecture import Architecture
from rackmath.models.cache import kv_window_bytes_per_token, state_elements

_WITHOUT_DRAFTS = frozenset({"sglang", "trtllm", "vllm"})
"""Engines that verify no drafts where layers are dealt to stages, or ranks share a context by tokens.

Sources, of 2026: TensorRT-LLM's ``docs/source/features/feature-combination-matrix.md``; SGLang's
``srt/arg_groups/validation_hook.py`` (workers that only read prompts aside, and what an environment variable tries) and
its pull request 31785, which is open; vLLM's issues 52069 and 57755 (stages; EAGLE-3 heads aside, which its
documentation does not promise) and 50391 (contexts)."""

_STAGES_OF_POOLS = {"sglang": (True, False), "vllm": (False, False)}
"""Whether workers that only read prompts, and those that only write answers, may have stages; of all others they may.

Sources, of 2026: vLLM's ``NixlConnector`` refuses ranks of a second stage (pull request 45880; its push connector takes
them where prompts are read); SGLang's pull request 14265 (as many stages as the other pool has, or none)."""


def pool_notes(family: str, architecture: Architecture, prefill: Layout, decode: Layout) -> tuple[str, ...]:
    """What to say of two pools between which an engine sends no caches; nothing otherwise."""
    may_stage = pools_in_stages(family)
    has_stages = any(layout.pipeline > 1 and not may for layout, may in zip((prefill, decode), may_stage, strict=True))
    differs = pools_alike(family, architecture) and prefill.tensor != decode.tensor
    if not (has_stages or differs):
        return ()
    caches = f"caches of {architecture.name} from {prefill.text()} to {decode.text()}"
    return (f"{family} sends no {caches}: these are times of an engine that does",)


def pools_alike(family: str, architecture: Architecture) -> bool:
    """Whether workers of two pools need one width of tensor parallelism, since their engine cuts no such cache anew.

    Sources, of 2026: vLLM's ``docs/features/nixl_connector_compatibility.md`` (states of recurrences); llm-d's pull
    request 2442 (windows under SGLang, which end it).
    """
    has_states, has_windows = state_elements(architecture) > 0, kv_window_bytes_per_token(architecture) > 0
    return (family in _STAGES_OF_POOLS and has_states) or (family == "sglang" and has_windows)


def verifies_drafts(family: str, layout: Layout) -> NDArray[np.bool_]:
    """Whether an engine verifies drafts in a layout; of the shape that the layout's widths have."""
    is_whole = np.equal(layout.pipeline * layout.context_parallel, 1)
    return np.asarray(is_whole | (family not in _WITHOUT_DRAFTS), dtype=bool)


def pools_in_stages(family: str) -> tuple[bool, bool]:
    """Whether an engine's workers that only read prompts, and those that only write answers, may be pipelines."""
    return _STAGES_OF_POOLS.get(family, (True, True))


def draft_notes(family: str, layout: Layout, draft_tokens: float) -> tuple[str, ...]:
    """What to say of drafts that an engine does not verify in a layout; nothing otherwise."""
    if draft_tokens <= 0 or verifies_drafts(family, layout):
        return ()
    return (f"{family} verifies no drafts in {layout.text()}: these are times of an engine that does",)
