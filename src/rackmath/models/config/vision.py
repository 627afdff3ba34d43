"""Parameters of the vision tower, counted apart from the text model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rackmath.models.config.fields import Fields

_CONFIGS = ("vision_config", "vit_config", "visual")


def vision_parameters(config: Mapping[str, Any], text_hidden: int) -> tuple[int, bool]:
    """Parameters of a vision transformer, its patch embedding and its projection.

    Returns
    -------
    (int, bool)
        The count, and whether the config states enough to make it exact. Towers
        differ in details that no field tells (norm kinds, position tables), so the
        count of a tower is marked as an estimate.
    """
    block = next((config[k] for k in _CONFIGS if isinstance(config.get(k), Mapping)), None)
    if block is None:
        return 0, True
    fields = Fields(cast("Mapping[str, Any]", block))
    layers = fields.optional("num_hidden_layers", "depth", "num_layers", "vt_num_hidden_layers", kind="layers", low=1)
    hidden = fields.optional("hidden_size", "embed_dim", "vt_hidden_size", "width", low=1)
    width = fields.optional("intermediate_size", "vt_intermediate_size", low=1)
    if layers is None or hidden is None:
        return 0, False
    width = width or 4 * hidden
    patch = fields.optional("patch_size", kind="width", low=1) or 16
    channels = fields.optional("in_channels", "num_channels", kind="width", low=1) or 3
    frames = fields.optional("temporal_patch_size", kind="width", low=1) or 1
    gated = fields.text("hidden_act") == "silu"
    per_layer = 4 * hidden * hidden + 4 * hidden + (3 if gated else 2) * hidden * width + hidden + width + 4 * hidden
    embedding = channels * frames * patch * patch * hidden + hidden
    table = fields.optional("num_position_embeddings", kind="tokens") or 0
    merge = (fields.optional("spatial_merge_size", kind="width", low=1) or 1) ** 2 * hidden
    projection = merge * merge + merge + merge * text_hidden + text_hidden
    return layers * per_layer + embedding + table * hidden + projection, False
