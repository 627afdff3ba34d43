"""Dense grids of single passes: millions of points as arrays, one slice at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rackmath.api.near_pass import question_of
from rackmath.engine import estimate
from rackmath.engine.roofline import TERMS
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file
from rackmath.serving.engines import engine_layout
from rackmath.serving.variants import as_read
from rackmath.units import parse

AXES = ("batch", "context", "cached_tokens", "draft_tokens")
SLICE = 2**18
"""Points of one chunk. [points]"""
_MOST = 10**7
"""Values of one axis."""


def axis(text: str, field: str) -> list[float]:
    """``1,2,4`` or ``1:4096:13`` (from, to, count; evenly spaced by ratio) -> numbers.

    Errors: :class:`InputError` for anything else.
    """
    parts = text.split(":")
    try:
        if len(parts) == 1:
            return [parse(part, "1", field) for part in text.split(",")]
        low, high, count = parse(parts[0], "1", field), parse(parts[1], "1", field), int(parts[2])
    except (InputError, ValueError, IndexError) as error:
        raise InputError(field, text, "write numbers with commas, or from:to:count") from error
    if len(parts) > 3 or not 0 < low <= high or not 1 <= count <= _MOST:
        raise InputError(field, text, f"write from:to:count with 0 < from <= to and a count from 1 to {_MOST:,}")
    return [float(x) for x in np.geomspace(low, high, count)]


def size(axes: Mapping[str, Sequence[float]]) -> int:
    """Points of a grid."""
    return int(np.prod([len(values) for values in axes.values()], dtype=np.int64))


def evaluated(case: Mapping[str, Any], axes: Mapping[str, Sequence[float]], start: int, stop: int) -> pl.DataFrame:
    """Points ``start`` to ``stop`` of a grid, last axis fastest, as a table.

    Parameters
    ----------
    case : mapping
        model, on, gpus, layout, phase, weights, kv, engine, year, ideal.
    axes : mapping
        Values of batch, context, cached_tokens and draft_tokens.

    Errors: :class:`InputError` for what is unknown or out of range.
    """
    family = "" if case["ideal"] else case["engine"]
    architecture, _ = as_read(catalogue.model(case["model"]), family, case["weights"], case["kv"])
    system = catalogue.system(case["on"])
    layout = engine_layout(case["layout"], case["gpus"], architecture, family)
    phase = case["phase"]
    engine = constants_file.engine_of(system, case["engine"], case["year"])
    places = np.unravel_index(np.arange(start, stop), [len(axes[name]) for name in AXES])
    point = {name: np.asarray(axes[name])[at] for name, at in zip(AXES, places, strict=True)}
    result = estimate(
        architecture,
        system,
        layout,
        batch=point["batch"],
        context=point["context"],
        cached_tokens=point["cached_tokens"],
        draft_tokens=point["draft_tokens"],
        accepted_tokens=constants_file.scheduling_of(engine).accepted(point["draft_tokens"])
        if phase == "decode"
        else None,
        phase=phase,
        losses=None if case["ideal"] else constants_file.losses_of(system, engine, question_of(phase, engine)),
        threads=False,
    )

    def column(value: Any) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(value, dtype=float), (stop - start,))

    price = system.price
    columns: dict[str, Any] = {
        **point,
        "time": column(result.time),
        "time_low": column(result.time_low),
        "time_high": column(result.time_high),
        "tokens_per_second_per_gpu": column(result.tokens_per_second_per_gpu),
        "memory_per_gpu": column(result.memory.total),
        "fits": np.broadcast_to(np.asarray(result.memory.fits), (stop - start,)),
    }
    if price is not None:
        columns["usd_per_million_tokens"] = price / column(result.tokens_per_second_per_gpu) * 1e6
    bound = pl.Series("bound_by", np.broadcast_to(np.asarray(result.bound_by), (stop - start,)).astype(object))
    return pl.DataFrame(columns).with_columns(bound.cast(pl.Enum(TERMS)))
