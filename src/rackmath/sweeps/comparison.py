"""Models, systems, engines, layouts and formats side by side: the question, its plans and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import polars as pl

from rackmath.api import kinds, options
from rackmath.api.energy import grams_per_million
from rackmath.api.fields import Option, read_fields
from rackmath.api.lists import numbers
from rackmath.api.result import Result
from rackmath.errors import InputError
from rackmath.figures.pictures import cost_figure
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES
from rackmath.sweeps import plans
from rackmath.sweeps.chunks import Chunk, plan_chunks
from rackmath.sweeps.workers import on_cluster, on_this_machine

Progress = Callable[[str], None]

BASES = ("on-demand", "reserved", "at cost", "blended", "any")
_PRICE = "--usd-per-gpu-hour"
_LARGEST = 100_000
"""Plans that one comparison may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """What is put side by side: every row is a full search as of a plan."""

    models: Annotated[str, Option(help="Catalogue names.", metavar="MODEL[,MODEL...]", argument=True)]
    on: Annotated[str, Option(help="Catalogue names.", metavar="SYSTEM[,SYSTEM...]", names=("--on",))]
    gpus: Annotated[int, options.GPUS.but(help="Accelerators at most.")]
    input: Annotated[float, options.INPUT]
    output: Annotated[float, options.OUTPUT]
    speed: Annotated[float, Option(help="Cost at this speed: tokens/s of one user.", kind=kinds.SPEED)] = 50.0
    cost: Annotated[
        float | None, Option(help="Speed at this cost: dollars per million output tokens.", kind=kinds.NUMBER)
    ] = None
    weights: Annotated[
        str | None, Option(help="Formats of the weights, one row each (default: what each chip has).")
    ] = None
    kv: Annotated[
        str | None,
        options.CACHE.but(help="Formats of the cache to try in each row, as bf16,fp8 (default: what each chip has)."),
    ] = None
    engine: Annotated[
        str, Option(help=f"Families of engines: {', '.join(FAMILIES)}.", metavar="ENGINE[,ENGINE...]")
    ] = DEFAULT_ENGINE
    layout: Annotated[
        str | None,
        Option(help="Layouts of one copy, as 'tp8;tp1,ep8,dp8' (default: any).", metavar="LAYOUT[;LAYOUT...]"),
    ] = None
    usd_per_gpu_hour: Annotated[
        str | None,
        Option(
            help="Dollars per accelerator-hour: of every system, with a row for each price (2,3), or by system "
            "(h100-sxm=2,b200-sxm=4.5).",
            kind=kinds.NUMBERS,
            metavar="PRICE[,PRICE...]",
        ),
    ] = None
    basis: Annotated[str, Option(help="Of the catalogue's prices.", kind=kinds.choice(*BASES))] = "on-demand"
    ttft: Annotated[float | None, options.TTFT] = None
    grid: Annotated[float | None, options.GRID] = None
    sweep: Annotated[
        tuple[str, ...],
        Option(help="Any input, such as input=1000,8000.", kind=kinds.TEXTS, metavar="KEY=A,B,C"),
    ] = ()

    def __post_init__(self) -> None:
        """Read all values, and refuse speeds and costs that nothing has."""
        read_fields(self)
        for name in ("speed", "cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"--{name}", value, "write above 0")

    @property
    def systems(self) -> list[str]:
        """Names of the systems."""
        return self.on.split(",")

    @property
    def prices(self) -> list[float]:
        """Prices of one accelerator of every system, a row each; none where they go by system, or none is given. [$/h]

        Errors: :class:`InputError` for what is no number.
        """
        text = self.usd_per_gpu_hour
        return [] if text is not None and "=" in text else numbers(text, _PRICE, 0, inf)

    @property
    def named_prices(self) -> dict[str, float]:
        """Prices of one accelerator by the names of systems; none where they are of every system. [USD/h]

        Errors: :class:`InputError` for what is no number, and for systems that are not compared.
        """
        if self.usd_per_gpu_hour is None or "=" not in self.usd_per_gpu_hour:
            return {}
        names = [_unchanged(name) for name in self.systems]
        prices: dict[str, float] = {}
        for part in self.usd_per_gpu_hour.split(","):
            name, _, price = (word.strip() for word in part.partition("="))
            if name not in names:
                raise InputError(_PRICE, part.strip(), f"name a system of --on {self.on}, as {names[0]}=2.5")
            prices[name] = numbers(price, _PRICE, 0, inf)[0]
        return prices

    def price_of(self, system: str) -> float | None:
        """What one accelerator of a system is paid where all rows pay the same; None for the catalogue's. [USD/h]"""
        every = self.prices
        return every[0] if len(every) == 1 else self.named_prices.get(_unchanged(system))

    @property
    def keys(self) -> dict[str, list[Any]]:
        """What differs between rows, by the names of options, with all values.

        Errors: :class:`InputError` for keys and values that no plan has.
        """
        keys: dict[str, list[Any]] = {"model": self.models.split(","), "on": self.systems}
        if self.engine != DEFAULT_ENGINE:
            keys["engine"] = plans.swept(f"engine={self.engine}", "--engine")[1]
        if self.layout is not None:
            keys["layout"] = plans.swept(f"layout={self.layout}", "--layout")[1]
        if len(prices := self.prices) > 1:
            keys["usd-per-gpu-hour"] = prices
        for text in self.sweep:
            key, values = plans.swept(text)
            keys[key] = values
        return keys


def cases_of(r: CompareRequest) -> list[dict[str, Any]]:
    """The plan of every row.

    Errors: :class:`InputError` for what is unknown, and for more plans than one comparison may ask for.
    """
    fields = ("gpus", "input", "output", "speed", "cost", "weights", "kv", "ttft", "basis")
    common_fields = {name: getattr(r, name) for name in fields}
    cases = list(plans.cases(common_fields, r.keys))
    if "usd-per-gpu-hour" not in r.keys:
        cases = [{**case, "usd-per-gpu-hour": r.price_of(case["on"])} for case in cases]
    if len(cases) > _LARGEST:
        raise InputError("--sweep", len(cases), f"asks for more than {_LARGEST:,} plans; split it")
    return cases


def _unchanged(system: str) -> str:
    """Name of a system without what ``--set`` changed."""
    return system.partition("[")[0]


def joined(chunks: Sequence[Chunk], parts: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Rows of all chunks, in the order of the cases."""
    return pl.concat([parts[chunk.name] for chunk in chunks], how="vertical_relaxed")


def rows_of(
    cases: Sequence[Mapping[str, Any]],
    progress: Progress,
    workers: int | None = None,
    cluster: str | None = None,
) -> pl.DataFrame:
    """Rows of all cases, from processes of this machine or from a cluster."""
    chunks = plan_chunks(cases)
    # A few plans take less time than starting processes for them.
    count = 1 if len(cases) <= plans.FEW and workers is None else workers
    source = on_this_machine(chunks, count) if cluster is None else on_cluster(chunks, cluster or None)
    parts: dict[str, pl.DataFrame] = {}
    for chunk, table in source:
        parts[chunk.name] = table
        progress(f"compare: {len(parts)} of {len(chunks)} chunks")
    return joined(chunks, parts)


def comparison(r: CompareRequest, table: pl.DataFrame) -> Result:
    """The answer that rows make: a mapping for each, in the order of the cases; ``details`` is the table.

    With a grid rows have the emissions of their energy as well. [g of CO2 per million tokens]
    """
    if r.grid is not None:
        scale = grams_per_million(1.0, r.grid)
        table = table.with_columns(grams_co2_per_million_at_speed=scale * pl.col("joules_per_token_at_speed"))
    rows = table.to_dicts()
    other_keys = [key for key in r.keys if key not in ("model", "on", "weights")]
    return Result(request=r, facts=rows, draw=lambda: cost_figure(rows, r.speed, other_keys), details=table)


def run_compare(r: CompareRequest, progress: Progress = lambda text: None) -> Result:
    """Put models, systems, engines, layouts and formats side by side, on all cores of this machine.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    return comparison(r, rows_of(cases_of(r), progress))
