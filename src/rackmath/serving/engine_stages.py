"""What engines run together with the stages of a pipeline: drafts, and pools that send caches to each other."""

from __future__ import annotations

_WITHOUT_DRAFTS = frozenset({"sglang", "trtllm", "vllm"})
"""Engines that verify no drafts where layers are dealt to stages.

Sources, of 2026: TensorRT-LLM's ``docs/source/features/feature-combination-matrix.md``; SGLang's
``srt/arg_groups/validation_hook.py`` (workers that only read prompts aside, and what an environment variable tries);
vLLM's issues 52069 and 57755 (EAGLE-3 heads aside, which its documentation does not promise)."""

_STAGES_OF_POOLS = {"sglang": (True, False), "vllm": (False, False)}
"""Whether workers that only read prompts, and those that only write answers, may have stages; of all others they may.

Sources, of 2026: vLLM's ``NixlConnector`` refuses ranks of a second stage (pull request 45880; its push connector takes
them where prompts are read); SGLang's pull request 14265 (as many stages as the other pool has, or none)."""


def verifies_drafts_in_stages(family: str) -> bool:
    """Whether an engine verifies drafts where layers are dealt to the stages of a pipeline."""
    return family not in _WITHOUT_DRAFTS


def pools_in_stages(family: str) -> tuple[bool, bool]:
    """Whether an engine's workers that only read prompts, and those that only write answers, may be pipelines."""
    return _STAGES_OF_POOLS.get(family, (True, True))


def stage_notes(family: str, stages: float, draft_tokens: float) -> tuple[str, ...]:
    """What to say of drafts in a pipeline that an engine does not verify there; nothing otherwise."""
    if stages <= 1 or draft_tokens <= 0 or verifies_drafts_in_stages(family):
        return ()
    return (f"{family} verifies no drafts in pipeline stages: these are times of an engine that does",)
