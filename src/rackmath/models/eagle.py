"""EAGLE-3 heads: one layer that drafts from the hidden states of another model.

The layer reads the embedding of the last token beside those states, joined from three layers of the target by one
matrix; it predicts tokens of a reduced vocabulary, and takes its embedding from the target. Source: Li et al. 2025,
arXiv:2503.01840; shapes as in vLLM's ``llama_eagle3`` and SpecForge.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Dense, Layer
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector

EAGLE3 = "eagle3"
"""What names a typical head of the target, in place of a model."""

_JOINED = 3
"""Layers of the target whose states a head reads."""
_HEAD_WIDTH, _KEY_VALUE_HEADS, _WIDENING, _VOCABULARY = 128, 8, 3.5, 32_000
"""Of a typical head: those of the one for Llama 3.1 8B, at its target's width."""


def as_head(plain: Architecture, target_hidden: int, vocabulary: int) -> Architecture:
    """A decoder as an EAGLE-3 head of a target, whose first layer reads twice its width.

    Parameters
    ----------
    plain : Architecture
        The decoder that the head's config describes.
    target_hidden : int
        Hidden width of the target. [elements]
    vocabulary : int
        Tokens that it predicts. [tokens]

    Errors: :class:`InputError` for a first layer that is not of grouped heads.
    """
    first, *rest = plain.layers
    mixer = first.mixers[0] if first.mixers else None
    if not isinstance(mixer, Grouped):
        raise InputError("draft_vocab_size", vocabulary, "heads of EAGLE-3 have grouped attention: give one of them")
    wide = replace(
        first,
        mixers=(replace(mixer, input_width=2 * plain.hidden), *first.mixers[1:]),
        # One norm more, of the target's states.
        norm_elements=first.norm_elements + plain.hidden,
    )
    fusion = matrix("fc", "other", _JOINED * target_hidden, plain.hidden)
    return replace(
        plain,
        vocabulary=vocabulary,
        # Its embedding is the target's: only the output projection is its own.
        tied=True,
        layers=(wide, *rest),
        extras=(*plain.extras, fusion),
        target_hidden=target_hidden,
    )


def typical_head(target: Architecture) -> Architecture:
    """A head as they are trained for most targets: one layer at the target's width, widened as Llama 3.1 8B's is."""
    hidden = target.hidden
    heads = max(hidden // _HEAD_WIDTH, 1)
    mixer = Grouped(
        query_heads=heads,
        kv_heads=gcd(_KEY_VALUE_HEADS, heads),
        key_dim=_HEAD_WIDTH,
        value_dim=_HEAD_WIDTH,
    )
    layer = Layer(mixers=(mixer,), feed_forwards=(Dense(width=round(_WIDENING * hidden)),), norm_elements=2 * hidden)
    plain = Architecture(
        name=f"an EAGLE-3 head for {target.name}",
        hidden=hidden,
        vocabulary=target.vocabulary,
        layers=(layer,),
        extras=(vector("norm", "norm", hidden),),
        cache_format=target.cache_format,
    )
    return as_head(plain, hidden, min(_VOCABULARY, target.vocabulary or _VOCABULARY))
