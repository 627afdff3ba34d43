"""Parameters of the vision tower and its projection, counted apart from the text model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.config.fields import Fields, checked_integer

_CONFIGS = ("vision_config", "vit_config", "visual")


def vision_parameters(config: Mapping[str, Any], text_hidden: int) -> tuple[int, bool]:
    """Parameters of a vision transformer, its patch embedding and its projection.

    The kind of tower is told by the fields that only it has, checked against
    transformers. Any other tower gets a plain transformer's count.

    Returns
    -------
    (int, bool)
        The count, and whether the tower is of a known kind; else it is an estimate.
    """
    block = next((config[k] for k in _CONFIGS if isinstance(config.get(k), Mapping)), None)
    if block is None:
        # A text model nested in something else without a tower is most often a trimmed copy.
        return 0, not any(isinstance(config.get(key), Mapping) for key in ("text_config", "llm_config"))
    tower = Fields(cast("Mapping[str, Any]", block))
    whole = Fields(config)
    if not tower.has("hidden_size", "embed_dim", "vt_hidden_size", "width"):
        return 0, False
    for marks, count in _KINDS:
        if all(any(part.has(mark) for part in (tower, whole)) for mark in marks):
            return count(tower, whole, text_hidden), True
    return _plain(tower, whole, text_hidden), False


def _sizes(tower: Fields) -> tuple[int, int, int]:
    """Layers, hidden width and feed-forward width."""
    layers = tower.integer(
        "num_hidden_layers", "depth", "num_layers", "vt_num_hidden_layers", kind="layers", default=24
    )
    hidden = tower.integer("hidden_size", "embed_dim", "vt_hidden_size", "width")
    width = tower.integer("intermediate_size", "vt_intermediate_size", default=4 * hidden)
    return layers, hidden, width


def _patch(tower: Fields, frames: int = 1) -> int:
    """Values in one patch."""
    side = tower.integer("patch_size", default=16)
    channels = tower.integer("in_channels", "num_channels", default=3)
    return channels * tower.integer("temporal_patch_size", default=frames) * side * side


def _blocks(tower: Fields) -> int:
    """Blocks with biases, two shifted norms and no gate."""
    layers, hidden, width = _sizes(tower)
    return layers * (4 * hidden**2 + 4 * hidden + 2 * hidden * width + hidden + width + 4 * hidden)


def _linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + outputs * bias


def _grid(tower: Fields) -> int:
    """Patches of one image of the size that the tower was built for."""
    return (tower.integer("image_size") // tower.integer("patch_size")) ** 2


def _qwen3(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    wide = hidden * tower.integer("spatial_merge_size", default=2) ** 2
    out = tower.integer("out_hidden_size", default=text)
    merger = _linear(wide, wide) + _linear(wide, out)
    deep = len(tower.items("deepstack_visual_indexes") or [])
    positions = tower.integer("num_position_embeddings", kind="tokens") * hidden
    return (
        _blocks(tower) + _linear(_patch(tower), hidden) + positions + merger + 2 * hidden + deep * (merger + 2 * wide)
    )


def _siglip(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    return _blocks(tower) + _linear(_patch(tower), hidden) + _grid(tower) * hidden + 2 * hidden + hidden * text + hidden


def _gemma4(tower: Fields, whole: Fields, text: int) -> int:
    layers, hidden, width = _sizes(tower)
    heads = tower.integer("num_attention_heads", kind="heads")
    dim = tower.integer("head_dim", default=hidden // heads)
    block = 4 * hidden * heads * dim + 2 * dim + 3 * hidden * width + 4 * hidden
    positions = 2 * tower.integer("position_embedding_size", kind="tokens") * hidden
    return layers * block + _linear(_patch(tower), hidden, False) + positions + hidden * text


def _pixtral(tower: Fields, whole: Fields, text: int) -> int:
    layers, hidden, width = _sizes(tower)
    merge = whole.integer("spatial_merge_size", default=2) ** 2
    projector = hidden + merge * hidden**2 + hidden * text + text**2
    block = 4 * hidden**2 + 3 * hidden * width + 2 * hidden
    return layers * block + _linear(_patch(tower), hidden, False) + hidden + projector


def _llama4(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    ratio = tower.number("pixel_shuffle_ratio", default=0.5)
    if ratio < 0.05:
        raise InputError("pixel_shuffle_ratio", ratio, "write a fraction such as 0.5")
    shuffled = round(hidden / ratio**2)
    into = tower.integer("projector_input_dim")
    out = tower.integer("projector_output_dim", default=into)
    positions = (_grid(tower) + 1) * hidden + hidden
    adapter = shuffled * into + into * out
    return _blocks(tower) + _linear(_patch(tower), hidden, False) + positions + 4 * hidden + adapter + out * text


def _moon(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    merge = [
        checked_integer("merge_kernel_size", m, kind="count", low=1) for m in tower.items("merge_kernel_size") or [2, 2]
    ]
    wide = hidden * prod(merge)
    rows = tower.integer("init_pos_emb_height", kind="tokens") * tower.integer("init_pos_emb_width", kind="tokens")
    projector = 2 * hidden + _linear(wide, wide) + _linear(wide, text)
    return _blocks(tower) + _linear(_patch(tower), hidden) + rows * hidden + 2 * hidden + projector


def _minimax(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    wide = whole.integer("projector_hidden_size")
    projector = _linear(hidden, wide) + _linear(wide, text) + _linear(4 * text, wide) + _linear(wide, text)
    return _blocks(tower) + _linear(_patch(tower, frames=2), hidden, False) + 2 * hidden + projector


def _inkling(tower: Fields, whole: Fields, text: int) -> int:
    """A class token, a norm in front, scaled residuals, and a merger of a square of patches."""
    layers, hidden, _ = _sizes(tower)
    grid, into = tower.integer("posemb_grid_size", kind="count"), tower.integer("projection_hidden_dim")
    bias = tower.flag("projector_bias", default=False)
    merger = _linear(hidden * tower.integer("spatial_merge_size", default=2) ** 2, into, bias)
    merger += _linear(into, tower.integer("text_hidden_size", default=text), bias)
    scales, apart = 2 * layers * hidden, 4 * hidden
    return _blocks(tower) + scales + _linear(_patch(tower), hidden, False) + grid**2 * hidden + apart + merger


def _plain(tower: Fields, whole: Fields, text: int) -> int:
    _, hidden, _ = _sizes(tower)
    wide = hidden * tower.integer("spatial_merge_size", default=1) ** 2
    return _blocks(tower) + _linear(_patch(tower), hidden) + _linear(wide, wide) + _linear(wide, text)


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Fields, Fields, int], int]], ...] = (
    (("num_position_embeddings", "out_hidden_size"), _qwen3),
    (("vt_hidden_size", "init_pos_emb_height", "init_pos_emb_width"), _moon),
    (("position_embedding_size", "num_attention_heads"), _gemma4),
    (("pixel_shuffle_ratio", "projector_input_dim", "image_size", "patch_size"), _llama4),
    (("projector_hidden_size", "img_token_compression_config"), _minimax),
    (("mm_tokens_per_image", "image_size", "patch_size"), _siglip),
    (("posemb_grid_size", "projection_hidden_dim"), _inkling),
    (("multimodal_projector_bias", "vision_feature_layer", "head_dim"), _pixtral),
)
"""Fields that tell a tower, in the tower's config or the outer one, and its count."""
