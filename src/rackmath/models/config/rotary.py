"""Fields of a config -> the tables of sines and cosines that an engine keeps beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rackmath.models.config.attention import HEAD_DIM, HEADS
from rackmath.models.config.fields import Fields

_STRETCHED = frozenset({"linear", "dynamic"})
"""Kinds of scaling whose table covers the stretched length."""
_SECTIONS = 4
"""Times the trained length that the table of a rotation in sections (mrope) covers."""


def rotary_elements(fields: Fields, hidden: int, positions: int | None) -> int:
    """Elements of all tables, one for each distinct rotation; 0 without rotary positions. [elements]

    Parameters
    ----------
    positions : int, optional
        Tokens that the model was trained for; without them there is no table. [tokens]

    A table has a row for each position and a column for each rotated dimension. ``linear`` and ``dynamic`` scaling
    cover the stretched length, ``yarn`` its original length times the factor, ``longrope`` both lengths, rotation in
    sections four times the trained length.
    Source: vLLM's ``model_executor/layers/rotary_embedding``, read through v0.19.
    """
    if positions is None or fields.choice("alibi"):
        return 0
    width, part = _head(fields, hidden), fields.find("partial_rotary_factor", "rotary_pct")
    tables = {
        _table({"partial_rotary_factor": part and part[1], **scaling}, positions, width)
        for scaling in _scalings(fields)
    }
    return sum(rows * columns for rows, columns, _ in tables)


def _head(fields: Fields, hidden: int) -> int:
    """Dimensions of a head that positions may rotate, all or a part of them."""
    latent = fields.optional("qk_rope_head_dim")
    if latent is not None:
        return latent
    rotary_dim = fields.optional("rotary_dim")
    if rotary_dim:
        return rotary_dim
    head = fields.optional(*HEAD_DIM)
    if not head:
        heads = fields.per_layer(*HEADS, layer=0, kind="heads", low=1)
        head = hidden // heads if heads else 0
    return head


def _scalings(fields: Fields) -> list[Mapping[str, Any]]:
    """How each kind of layer scales positions; one entry where all do alike."""
    parameters = fields.mapping("rope_parameters", "rope_scaling") or {}
    parts = [cast("Mapping[str, Any]", part) for part in parameters.values() if isinstance(part, Mapping)]
    if parts:
        return parts
    local = fields.find("rope_local_base_freq")
    return [parameters] if local is None else [parameters, {"rope_theta": local[1]}]


def _table(scaling: Mapping[str, Any], positions: int, width: int) -> tuple[int, int, tuple[str, float, str]]:
    """Rows, columns, and what tells the table from another of its size."""
    kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
    factor = _number(scaling.get("factor"), 1.0)
    original = _number(scaling.get("original_max_position_embeddings"), float(positions))
    rows = float(positions)
    if "mrope_section" in scaling:
        rows *= _SECTIONS
    elif kind in _STRETCHED:
        rows *= factor
    elif kind == "yarn":
        rows = max(rows, original * factor)
    elif kind in ("longrope", "su"):
        rows += original
    return (
        int(rows),
        int(width * _number(scaling.get("partial_rotary_factor"), 1.0)),
        (kind, factor, str(scaling.get("rope_theta"))),
    )


def _number(value: object, default: float) -> float:
    """A finite number of a nested field, which nothing else reads; else the default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        return default
    return float(value)
