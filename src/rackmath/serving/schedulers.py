"""Schedulers of engines as they come: what the simulator runs where nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """How an engine of today fills its steps; policies and preemptions are the simulator's."""

    policy: str
    preemption: str
    block: int
    """Tokens of a block of the cache. [tokens]"""
    source: str


SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {
        "vllm": Scheduler(
            policy="chunked",
            preemption="recompute",
            block=16,
            source="vLLM v1, vllm/v1/core/sched/scheduler.py: running requests get their tokens first, the last one's "
            "place goes where blocks are short, the rest of the step's tokens goes to waiting requests whose prompts "
            "fit whole (scheduler_reserve_full_isl)",
        ),
        "sglang": Scheduler(
            policy="prefill-first",
            preemption="retract",
            block=1,
            source="SGLang, managers/schedule_policy.py (PrefillAdder), schedule_batch.py (retract_decode) and "
            "scheduler.py: prompts first, admission by a part of what answers may still need, the shortest answers go "
            "back to the queue; --page-size 1",
        ),
        "trtllm": Scheduler(
            policy="unchunked",
            preemption="reserve",
            block=32,
            source="TensorRT-LLM, pyexecutor/scheduler: in-flight batching, GUARANTEED_NO_EVICT, no chunked context, "
            "tokens_per_block 32; MAX_UTILIZATION is --preemption recompute, chunked context --policy chunked",
        ),
        "llama.cpp": Scheduler(
            policy="chunked",
            preemption="reserve",
            block=1,
            source="llama.cpp, tools/server: slots with a context of their own, prompts cut at --batch-size",
        ),
    }
)
"""By family."""

LAUNCHED: Mapping[str, tuple[str, str]] = MappingProxyType({"trtllm": ("chunked", "reserve")})
"""Policy and preemption of what plans launch, where launch lines turn on what an engine does not do by itself.

Source: ``--enable_chunked_prefill`` of ``trtllm-serve``, without which no prompt is longer than a step.
"""


def scheduler(
    family: str,
    *,
    policy: str | None = None,
    preemption: str | None = None,
    block: int | None = None,
    draft_tokens: int = 0,
) -> Scheduler:
    """Scheduler of an engine, with what is asked for in place of its own; vLLM's for engines that nothing is known of.

    Parameters
    ----------
    draft_tokens : int
        Tokens that a step speculates for each sequence. [tokens]
    """
    engine_default = SCHEDULERS.get(family, SCHEDULERS["vllm"])
    policy = policy or engine_default.policy
    if preemption is None:
        # A batch that stays together, or writes several tokens at once, has room for whole answers.
        whole = policy == "static" or draft_tokens
        preemption = (
            "reserve" if whole else engine_default.preemption if policy == engine_default.policy else "recompute"
        )
    return replace(engine_default, policy=policy, preemption=preemption, block=block or engine_default.block)
