"""A dense grid of passes as a request: its axes, what is the same at all of its points, and a summary of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.errors import InputError
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.sweeps import grids

LARGEST = 10**7
"""Points of a grid that is answered in memory; the command streams larger ones into a folder."""

_SAME = ("model", "on", "gpus", "layout", "phase", "weights", "kv", "engine", "year", "ideal")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """Every combination of batches, contexts, cached tokens and draft tokens of one model on one system."""

    model: Annotated[
        str, Option(help="Catalogue name, path of a config.json or folder.", metavar="MODEL", argument=True)
    ]
    on: Annotated[str, Option(help="Catalogue name, or path of a TOML file.", metavar="SYSTEM", names=("--on",))]
    layout: Annotated[str, Option(help="Such as tp8,ep8,pp1,dp1.")]
    batch: Annotated[str, Option(help="Sequences of the deployment: 1,2,4 or from:to:count, spaced by equal ratios.")]
    context: Annotated[str, Option(help="Tokens of context of a sequence: values as of --batch.")]
    gpus: Annotated[int | None, options.GPUS.but(help="Accelerators; the rest becomes data-parallel.")] = None
    cached_tokens: Annotated[
        str,
        Option(
            help="Tokens of a prompt that are cached: values as of --batch; prefill only.",
            names=options.CACHED_TOKENS.names,
        ),
    ] = "0"
    draft_tokens: Annotated[
        str,
        Option(
            help="Tokens drafted before each step: values as of --batch; decode only.",
            names=options.DRAFT_TOKENS.names,
        ),
    ] = "0"
    phase: Annotated[str, Option(help="Kind of the passes.", kind=kinds.choice("decode", "prefill"))] = "decode"
    weights: Annotated[str | None, Option(help="Format of the linear layers (default: the config's).")] = None
    kv: Annotated[str | None, Option(help="Format of the cache (default: the config's).")] = None
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    ideal: Annotated[bool, options.IDEAL] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)

    @property
    def axes(self) -> dict[str, list[float]]:
        """Values of each axis.

        Errors: :class:`~rackmath.errors.InputError` for a text that says none.
        """
        return {name: grids.axis(getattr(self, name), f"--{name}") for name in grids.AXES}

    @property
    def case(self) -> dict[str, Any]:
        """What is the same at all points."""
        return {name: getattr(self, name) for name in _SAME}


def run_sweep(r: SweepRequest) -> Result:
    """Evaluate a grid in memory; ``details`` is the Polars frame of its points, ``to_dict()`` what they say together.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range, and beyond :data:`LARGEST` points.
    """
    axes = r.axes
    points = grids.size(axes)
    if points > LARGEST:
        raise InputError(
            "batch, context", f"{points:,} points", f"`rackmath sweep --out` streams more than {LARGEST:,}"
        )
    starts = range(0, points, grids.SLICE)
    frame = pl.concat([grids.evaluated(r.case, axes, i, min(i + grids.SLICE, points)) for i in starts])
    return Result(request=r, facts=summary(frame.lazy()), details=frame)


def summary(points: pl.LazyFrame) -> dict[str, Any]:
    """How many points there are, how many fit, and the ends of what they take and deliver."""
    return (
        points.select(
            pl.len().alias("points"),
            pl.col("fits").sum().alias("fitting"),
            pl.col("time").min().alias("shortest_time"),
            pl.col("time").max().alias("longest_time"),
            pl.col("tokens_per_second_per_gpu").filter(pl.col("fits")).max().alias("most_tokens_per_second_per_gpu"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
