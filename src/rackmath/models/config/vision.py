"""The encoder of images of a config: a transformer over patches, its embedding, and its projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, prod
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Dense, Encoder, Layer, Weight
from rackmath.models.config.fields import Fields, checked_integer
from rackmath.models.images import LongestSide, Native, PatchLimit, Sizing, Square, Tiles, TokenBudget
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector

_CONFIGS = ("vision_config", "vit_config", "visual")
_LLAMA_TILES = 16
"""Tiles of an image that Llama 4's processor makes at most."""
_KIMI_SIDE, _KIMI_PATCHES, _KIMI_WIDE_PATCHES = 512, 16_384, 65_536
"""Patches along a side and of an image that the processors of Kimi K2.5 and K3 keep."""

_PROJECTORS = (None, "patchmerger")
"""Kinds of projections that are counted, where a tower names its own."""

Weights = tuple[Weight, ...]


def vision_encoder(config: Mapping[str, Any], text_hidden: int) -> tuple[Encoder | None, bool]:
    """Encoder of images, which stands outside every total.

    The kind of tower is told by the fields that only it has, checked against
    transformers. Any other tower is taken for a plain transformer.

    Returns
    -------
    (Encoder or None, bool)
        None without one, and whether the tower is of a known kind; else it is an estimate.
    """
    block = next((config[k] for k in _CONFIGS if isinstance(config.get(k), Mapping)), None)
    if block is None:
        # A text model nested in something else without a tower is most often a trimmed copy.
        return None, not any(isinstance(config.get(key), Mapping) for key in ("text_config", "llm_config"))
    tower = Fields(cast("Mapping[str, Any]", block))
    whole = Fields(config)
    if not tower.has("hidden_size", "embed_dim", "vt_hidden_size", "width"):
        return None, False
    for marks, build in _KINDS:
        if all(any(part.has(mark) for part in (tower, whole)) for mark in marks):
            return build(tower, whole, text_hidden), tower.text("mm_projector_type") in _PROJECTORS
    return _plain(tower, whole, text_hidden), False


def _sizes(tower: Fields) -> tuple[int, int, int]:
    """Layers, hidden width and feed-forward width."""
    layers = tower.integer(
        "num_hidden_layers", "depth", "num_layers", "vt_num_hidden_layers", kind="layers", default=24
    )
    hidden = tower.integer("hidden_size", "embed_dim", "vt_hidden_size", "width")
    width = tower.integer("intermediate_size", "vt_intermediate_size", default=4 * hidden)
    return layers, hidden, width


def _side(tower: Fields) -> int:
    """Pixels along a side of a patch."""
    return tower.integer("patch_size", default=16)


def _patch(tower: Fields, frames: int = 1) -> int:
    """Values in one patch."""
    channels = tower.integer("in_channels", "num_channels", default=3)
    return channels * tower.integer("temporal_patch_size", default=frames) * _side(tower) ** 2


def _attention(tower: Fields, width: int, bias: bool = True, norms: int = 0) -> Grouped:
    """Attention of all patches to all of an image; ``width`` is that of all heads."""
    head_count = tower.optional("num_attention_heads", "num_heads", "vt_num_attention_heads", kind="heads", low=1)
    heads = gcd(head_count or 16, width)
    return Grouped(
        query_heads=heads,
        kv_heads=heads,
        key_dim=width // heads,
        value_dim=width // heads,
        query_bias=bias,
        kv_bias=bias,
        out_bias=bias,
        norm_elements=norms,
        bidirectional=True,
    )


def _blocks(tower: Fields) -> tuple[Layer, ...]:
    """Blocks with biases, two shifted norms and no gate."""
    layers, hidden, width = _sizes(tower)
    feed_forward = Dense(width=width, gated=False, bias=True)
    layer = Layer(
        mixers=(_attention(tower, hidden),),
        feed_forwards=(feed_forward,),
        norm_elements=4 * hidden,
    )
    return (layer,) * layers


def _linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Weights:
    return matrix(name, "other", inputs, outputs), vector(f"{name}.bias", "other", outputs * bias)


def _loose(elements: int) -> Weights:
    """Norms, positions and scales that stand outside the blocks."""
    return (vector("loose", "other", elements),)


def _encoder(tower: Fields, layers: tuple[Layer, ...], extras: Weights, projector: Weights, sizing: Sizing) -> Encoder:
    _, hidden, _ = _sizes(tower)
    return Encoder(
        tower=Architecture(name="encoder", hidden=hidden, vocabulary=0, layers=layers, head=False, extras=extras),
        projector=tuple(w for w in projector if w.rows),
        sizing=sizing,
    )


def _grid(tower: Fields) -> int:
    """Patches of one image of the size that the tower was built for."""
    return (tower.integer("image_size") // tower.integer("patch_size")) ** 2


def _qwen3(tower: Fields, whole: Fields, text: int) -> Encoder:
    _, hidden, _ = _sizes(tower)
    merge = tower.integer("spatial_merge_size", default=2)
    wide = hidden * merge**2
    out = tower.integer("out_hidden_size", default=text)
    merger = (*_linear("merger.fc1", wide, wide), *_linear("merger.fc2", wide, out))
    deep = len(tower.items("deepstack_visual_indexes") or [])
    positions = tower.integer("num_position_embeddings", kind="tokens") * hidden
    return _encoder(
        tower,
        _blocks(tower),
        (*_linear("patch_embed", _patch(tower), hidden), *_loose(positions + 2 * hidden + deep * 2 * wide)),
        (1 + deep) * merger,
        Native(patch=_side(tower), merge=merge),
    )


def _siglip(tower: Fields, whole: Fields, text: int) -> Encoder:
    _, hidden, _ = _sizes(tower)
    tokens = whole.integer("mm_tokens_per_image", kind="tokens")
    return _encoder(
        tower,
        _blocks(tower),
        (*_linear("patch_embed", _patch(tower), hidden), *_loose(_grid(tower) * hidden + 2 * hidden + hidden)),
        _linear("projection", hidden, text, False),
        Square(side=tower.integer("image_size"), patch=_side(tower), tokens=tokens),
    )


def _gemma4(tower: Fields, whole: Fields, text: int) -> Encoder:
    layers, hidden, width = _sizes(tower)
    heads = tower.integer("num_attention_heads", kind="heads")
    dim = tower.integer("head_dim", default=hidden // heads)
    layer = Layer(
        mixers=(_attention(tower, heads * dim, bias=False, norms=2 * dim),),
        feed_forwards=(Dense(width=width),),
        norm_elements=4 * hidden,
    )
    positions = 2 * tower.integer("position_embedding_size", kind="tokens") * hidden
    tokens = whole.integer("vision_soft_tokens_per_image", kind="tokens", default=280)
    return _encoder(
        tower,
        (layer,) * layers,
        (*_linear("patch_embed", _patch(tower), hidden, False), *_loose(positions)),
        _linear("projection", hidden, text, False),
        TokenBudget(patch=_side(tower), merge=tower.integer("pooling_kernel_size", default=3), tokens=tokens),
    )


def _pixtral(tower: Fields, whole: Fields, text: int) -> Encoder:
    layers, hidden, width = _sizes(tower)
    merge = whole.integer("spatial_merge_size", default=2)
    layer = Layer(
        mixers=(_attention(tower, hidden, bias=False),),
        feed_forwards=(Dense(width=width),),
        norm_elements=2 * hidden,
    )
    merger = _linear("patch_merger", merge**2 * hidden, hidden, False)
    return _encoder(
        tower,
        (layer,) * layers,
        (*_linear("patch_embed", _patch(tower), hidden, False), *_loose(2 * hidden)),
        (*merger, *_linear("projector.1", hidden, text, False), *_linear("projector.2", text, text, False)),
        LongestSide(side=tower.integer("image_size", default=1540), patch=_side(tower), merge=merge),
    )


def _llama4(tower: Fields, whole: Fields, text: int) -> Encoder:
    _, hidden, _ = _sizes(tower)
    ratio = tower.number("pixel_shuffle_ratio", default=0.5)
    if not 0.05 <= ratio <= 1:
        raise InputError("pixel_shuffle_ratio", ratio, "write a fraction such as 0.5")
    shuffle_width = round(hidden / ratio**2)
    into = tower.integer("projector_input_dim")
    out = tower.integer("projector_output_dim", default=into)
    positions = (_grid(tower) + 1) * hidden + hidden
    adapter = (*_linear("adapter.1", shuffle_width, into, False), *_linear("adapter.2", into, out, False))
    return _encoder(
        tower,
        _blocks(tower),
        (*_linear("patch_embed", _patch(tower), hidden, False), *_loose(positions + 4 * hidden)),
        (*adapter, *_linear("projection", out, text, False)),
        Tiles(side=tower.integer("image_size"), patch=_side(tower), merge=1 / ratio, most=_LLAMA_TILES),
    )


def _moon(tower: Fields, whole: Fields, text: int) -> Encoder:
    layers, hidden, width = _sizes(tower)
    merge = [
        checked_integer("merge_kernel_size", m, kind="count", low=1) for m in tower.items("merge_kernel_size") or [2, 2]
    ]
    wide = hidden * prod(merge)
    rows = tower.integer("init_pos_emb_height", kind="tokens") * tower.integer("init_pos_emb_width", kind="tokens")
    heads = tower.optional("qkv_hidden_size")
    linear, norm = tower.flag("linear_bias", default=True), 1 if tower.text("norm_type") == "rmsnorm" else 2
    layer = Layer(
        mixers=(_attention(tower, heads or hidden, bias=tower.flag("attn_bias", default=True)),),
        feed_forwards=(Dense(width=width, gated=False, bias=linear),),
        norm_elements=2 * norm * hidden,
    )
    embedding = _linear("patch_embed", _patch(tower), hidden, tower.flag("patch_embed_proj_bias", default=True))
    return _encoder(
        tower,
        (layer,) * layers,
        (*embedding, *_loose(rows * hidden + norm * hidden + 2 * hidden)),
        (*_linear("projector.1", wide, wide), *_linear("projector.2", wide, text)),
        PatchLimit(
            patch=_side(tower),
            merge=merge[0],
            # The wide heads came with K3, whose processor keeps larger images.
            patches=_KIMI_WIDE_PATCHES if heads else _KIMI_PATCHES,
            side=_KIMI_SIDE,
        ),
    )


def _minimax(tower: Fields, whole: Fields, text: int) -> Encoder:
    _, hidden, _ = _sizes(tower)
    wide = whole.integer("projector_hidden_size")
    merger = (*_linear("merger.1", 4 * text, wide), *_linear("merger.2", wide, text))
    # Each of the four patches of a token goes through the first projection.
    projection = (*_linear("projector.1", hidden, wide), *_linear("projector.2", wide, text))
    side = tower.integer("image_size", default=2016)
    return _encoder(
        tower,
        _blocks(tower),
        (*_linear("patch_embed", _patch(tower, frames=2), hidden, False), *_loose(2 * hidden), *projection),
        merger,
        Native(patch=_side(tower), merge=2, most=side**2),
    )


def _inkling(tower: Fields, whole: Fields, text: int) -> Encoder:
    """A class token, a norm in front, scaled residuals, and a merger of a square of patches."""
    layers, hidden, _ = _sizes(tower)
    grid, into = tower.integer("posemb_grid_size", kind="count"), tower.integer("projection_hidden_dim")
    bias, merge = tower.flag("projector_bias", default=False), tower.integer("spatial_merge_size", default=2)
    merger = _linear("merger.1", hidden * merge**2, into, bias)
    merger += _linear("merger.2", into, tower.integer("text_hidden_size", default=text), bias)
    return _encoder(
        tower,
        _blocks(tower),
        (
            *_linear("patch_embed", _patch(tower), hidden, False),
            *_loose(2 * layers * hidden + grid**2 * hidden + 4 * hidden),
        ),
        merger,
        Native(patch=_side(tower), merge=merge),
    )


def _plain(tower: Fields, whole: Fields, text: int) -> Encoder:
    _, hidden, _ = _sizes(tower)
    merge = tower.integer("spatial_merge_size", default=1)
    wide = hidden * merge**2
    return _encoder(
        tower,
        _blocks(tower),
        _linear("patch_embed", _patch(tower), hidden),
        (*_linear("merger.1", wide, wide), *_linear("merger.2", wide, text)),
        Native(patch=_side(tower), merge=merge),
    )


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Fields, Fields, int], Encoder]], ...] = (
    (("num_position_embeddings", "out_hidden_size"), _qwen3),
    (("vt_hidden_size", "init_pos_emb_height", "init_pos_emb_width"), _moon),
    (("position_embedding_size", "num_attention_heads"), _gemma4),
    (("pixel_shuffle_ratio", "projector_input_dim", "image_size", "patch_size"), _llama4),
    (("projector_hidden_size", "img_token_compression_config"), _minimax),
    (("mm_tokens_per_image", "image_size", "patch_size"), _siglip),
    (("posemb_grid_size", "projection_hidden_dim"), _inkling),
    (("multimodal_projector_bias", "vision_feature_layer", "head_dim"), _pixtral),
)
"""Fields that tell a tower, in the tower's config or the outer one, and what reads it."""
