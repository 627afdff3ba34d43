"""Match the module names of quantisation rules to tensors, however a code base spells them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from time import thread_time

import regex

from rackmath.errors import InputError

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+|\*)(?:\.|$)?(.*)$")
_BLOCKS = ("self_attn", "linear_attn", "attn", "attention", "block_sparse_moe", "feed_forward", "ffn", "mlp", "mixer")
_GLOB = frozenset("*?[")
_LONGEST = 500
"""Characters of a rule."""
_MOST, _MOST_EVERYWHERE = 200_000, 1000
"""Rules of a config, and those of them that hold in every layer; published ones have up to 22,422 and 7."""
_MOST_EXPRESSIONS = 100
"""Regular expressions of a config; published ones have up to 6."""
_PATIENCE, _WORK = 5.0, 0.05
"""Time to match one expression with one name, by the clock and by the processor: some take for ever, and a busy machine
is given its time. [s]"""
_TOO_SLOW = "takes too long to match a tensor's name: write it without repetitions inside repetitions"
_ATTENTION = ("self_attn", "linear_attn", "attn", "attention", "mixer")


@lru_cache(maxsize=65_536)
def matches(pattern: str, name: str) -> bool:
    """Whether a rule names this tensor, whatever the block is called in that code base."""
    if pattern.startswith("re:"):
        return any(_expressed(pattern, f"model.layers.0.{spelling}") for spelling in _spellings(name))
    if not _GLOB.intersection(pattern):
        return any(s == pattern or s.startswith(f"{pattern}.") or s.endswith(pattern) for s in _spellings(name))
    return any(
        fnmatchcase(spelling, pattern) or fnmatchcase(spelling, pattern + ".*") or fnmatchcase(spelling, "*" + pattern)
        for spelling in _spellings(name)
    )


def checked(patterns: Sequence[str], field: str) -> None:
    """Refuse rules that are too many, too long or no expressions.

    Errors: :class:`InputError`, which names the first that cannot be used.
    """
    everywhere = sum(placed(pattern)[0] is None for pattern in patterns)
    if len(patterns) > _MOST or everywhere > _MOST_EVERYWHERE:
        way_out = f"rules: at most {_MOST:,} are read, of them {_MOST_EVERYWHERE:,} for all layers"
        raise InputError(field, len(patterns), way_out)
    expressions = sum(pattern.startswith("re:") for pattern in patterns)
    if expressions > _MOST_EXPRESSIONS:
        raise InputError(field, expressions, f"regular expressions: at most {_MOST_EXPRESSIONS} are read")
    for pattern in patterns:
        if len(pattern) > _LONGEST:
            raise InputError(field, pattern, f"a module's name or pattern has at most {_LONGEST} characters")
        if pattern.startswith("re:"):
            try:
                regex.compile(pattern[3:])
            except regex.error as error:
                raise InputError(field, pattern, f"is no regular expression: {error}") from error


def _expressed(pattern: str, name: str) -> bool:
    """Whether an expression of a config matches; other threads go on meanwhile."""
    began = thread_time()
    try:
        is_match = regex.match(pattern[3:], name, timeout=_PATIENCE, concurrent=True) is not None
    except TimeoutError as error:
        raise InputError("quantization_config", pattern, _TOO_SLOW) from error
    if thread_time() - began > _WORK:
        raise InputError("quantization_config", pattern, _TOO_SLOW)
    return is_match


@lru_cache(maxsize=4096)
def _spellings(name: str) -> tuple[str, ...]:
    """Return a tensor's name under each name that its block goes by."""
    block, _, leaf = name.partition(".")
    if block in _BLOCKS:
        family = _ATTENTION if block in _ATTENTION else (*tuple(b for b in _BLOCKS if b not in _ATTENTION), "mixer")
        names = [f"{b}.{leaf}" for b in family]
    else:
        names = [name]
    singular = [n.replace("shared_experts.", "shared_expert.") for n in names if "shared_experts." in n]
    return tuple(names + singular)


def placed(pattern: str) -> tuple[str | None, str]:
    """Split ``model.layers.7.mlp.gate`` into ('7', 'mlp.gate'); a rule of all layers has None."""
    if pattern.startswith("re:"):
        return None, pattern
    match = _LAYER.search(pattern)
    if not match:
        return None, pattern
    rest = match.group(2)
    layer = None if match.group(1) == "*" else match.group(1)
    return layer, rest if rest not in ("", "*") else "*"
