"""Match the module names of quantisation rules to tensors, however a code base spells them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+|\*)(?:\.|$)?(.*)$")
_BLOCKS = ("self_attn", "linear_attn", "attn", "attention", "block_sparse_moe", "feed_forward", "ffn", "mlp", "mixer")
_ATTENTION = ("self_attn", "linear_attn", "attn", "attention", "mixer")


@lru_cache(maxsize=65_536)
def matches(pattern: str, name: str) -> bool:
    """Whether a rule names this tensor, whatever the block is called in that code base."""
    if pattern.startswith("re:"):
        expression = pattern[3:]
        return any(re.match(expression, f"model.layers.0.{spelling}") for spelling in _spellings(name))
    return any(
        fnmatchcase(spelling, pattern) or fnmatchcase(spelling, pattern + ".*") or fnmatchcase(spelling, "*" + pattern)
        for spelling in _spellings(name)
    )


@lru_cache(maxsize=4096)
def _spellings(name: str) -> tuple[str, ...]:
    """Return a tensor's name under each name that its block goes by."""
    block, _, leaf = name.partition(".")
    if block in _BLOCKS:
        family = _ATTENTION if block in _ATTENTION else (*tuple(b for b in _BLOCKS if b not in _ATTENTION), "mixer")
        names = [f"{b}.{leaf}" for b in family]
    else:
        names = [name]
    shared = [n.replace("shared_experts.", "shared_expert.") for n in names if "shared_experts." in n]
    return tuple(names + shared)


def placed(pattern: str) -> tuple[str | None, str]:
    """Split ``model.layers.7.mlp.gate`` into ('7', 'mlp.gate')."""
    if pattern.startswith("re:"):
        return None, pattern
    found = _LAYER.search(pattern)
    if not found:
        return None, pattern
    rest = found.group(2)
    return found.group(1), rest if rest not in ("", "*") else "*"
