"""``compare``: models, systems, engines, layouts and formats side by side, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import polars as pl

from rackmath.cli import render
from rackmath.cli.chunked import CLUSTER, WORKERS, run
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.io import catalogue
from rackmath.io.tables import write_table
from rackmath.sweeps.chunks import Folder, plan_chunks
from rackmath.sweeps.comparison import CompareRequest, cases_of, comparison, joined, rows_of
from rackmath.sweeps.ranking import CheapestRow, Row, ranked, winners

_TABLES = (".parquet", ".csv")


@click.command(
    epilog="Example: rackmath compare qwen3-32b,gpt-oss-120b --on h100-sxm,b200-sxm --gpus 8 --input 2000 --output 500 "
    "--speed 60 --workers 1"
)
@request_options(CompareRequest)
@click.option("--out", type=click.Path(path_type=Path), help="FILE.parquet, FILE.csv, or a folder to go on with later.")
@click.option("--plot", metavar="FILE", help="Draw the costs: FILE.html, FILE.png or FILE.svg.")
@WORKERS
@CLUSTER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    request: CompareRequest,
    out: Path | None,
    plot: str | None,
    workers: int | None,
    on_cluster: str | None,
    as_json: bool,
) -> None:
    """Put models, systems, engines, layouts and formats side by side: cost at a speed, speed at a cost.

    Every row is a full search as of `rackmath plan`; the cheapest of each model comes first, with its margin.
    """
    picture = check_picture(plot)
    cases = cases_of(request)
    folder = None if out is None or out.suffix in _TABLES else Folder(out, {"plans": cases})
    result = comparison(request, _table(cases, folder, workers, on_cluster))
    table: pl.DataFrame = result.details
    if out is not None and folder is None:
        write_table(out, table, "--out")
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    other_keys = [key for key in request.keys if key not in ("model", "on", "weights")]
    won = [_won(winner, other_keys) for winner in winners(result.facts, other_keys)]
    render.show_lines("in short", won)
    _show(table, request, other_keys)
    render.show_lines("prices", _priced(request))


def _table(cases: Sequence[Row], folder: Folder | None, workers: int | None, cluster: str | None) -> pl.DataFrame:
    """Rows of all cases, kept in a folder where there is one."""
    if folder is None:
        return rows_of(cases, render.show_progress, workers, cluster)
    chunks = plan_chunks(cases)
    run(chunks, len(chunks), folder, workers, cluster)
    return joined(chunks, {c.name: pl.read_parquet(folder.path / f"part-{c.name}.parquet") for c in chunks})


def _show(table: pl.DataFrame, request: CompareRequest, keys: Sequence[str]) -> None:
    speed, cost, grid = request.speed, request.cost, request.grid

    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    render.show_table(
        f"cost at {speed:g} tokens/s for each user"
        + ("" if cost is None else f", and speed at {cost:g} $ per million output tokens"),
        [
            *("model", "system", "weights"),
            *(f">{key}" for key in keys),
            *(">$/M out", ">range", ">J/token"),
            *([] if grid is None else [">g CO2/M out"]),
            *(">tok/s/GPU", ">batch"),
            *([] if cost is None else [">tok/s at cost"]),
            *(">fastest", "deployment, or why not"),
        ],
        [
            (
                r["model"],
                r["on"],
                r["weights"],
                *(f"{r[key]:,g}" if isinstance(r[key], float) else str(r[key]) for key in keys),
                cell(r["usd_per_million_at_speed"], ".2f"),
                ""
                if r["low_at_speed"] is None
                else f"{cell(r['low_at_speed'], '.2f')} to {cell(r['high_at_speed'], '.2f')}",
                cell(r["joules_per_token_at_speed"], ".2g"),
                *([] if grid is None else [cell(r["grams_co2_per_million_at_speed"], ".3g")]),
                cell(r["tokens_per_second_per_gpu_at_speed"], ".0f"),
                cell(r["batch_at_speed"], ".0f"),
                *([] if cost is None else [cell(r["speed_at_cost"], ".0f")]),
                cell(r["fastest"], ".0f"),
                r["best_layout"] or r["reason"] or "",
            )
            for r in ranked(list(table.iter_rows(named=True)))
        ],
    )


def _priced(r: CompareRequest) -> Iterator[str]:
    """What each system is paid at, or why its costs are missing."""
    if "usd-per-gpu-hour" in r.keys:
        yield "a row for each price of --usd-per-gpu-hour"
        return
    for name in r.systems:
        system = catalogue.system(name)
        price = r.price_of(name)
        if price is not None or system.price is None or r.basis in ("any", system.price_basis):
            yield f"{system.name}: {catalogue.price_note(system, price)[0]}"
        else:
            price_text = f"its known price, {system.price * 3600:.2f} $ per GPU-hour, is {system.price_basis}"
            yield f"{system.name}: {price_text}, not {r.basis}: give --usd-per-gpu-hour, or --basis any"


def _won(winner: CheapestRow, keys: Sequence[str]) -> str:
    """The cheapest of a model, and by how much, beside how well either is known."""
    row, second = winner.row, winner.second
    keys = [key for key in keys if key not in winner.question]
    question = "".join(
        f", {key} {value:,g}" if isinstance(value, float) else f", {key} {value}"
        for key, value in winner.question.items()
    )
    text = (
        f"{row['model']}{question}: {_named(row, keys)} is cheapest, "
        f"{row['usd_per_million_at_speed']:.3g} $ per million tokens"
    )
    if second is None:
        return f"{text}; nothing else keeps the speed"
    certain = "their ranges do not meet" if winner.apart else "their ranges meet, so the order may be the other one"
    return f"{text}, {winner.margin:.0%} below {_named(second, keys)}; {certain}"


def _named(row: Row, keys: Sequence[str]) -> str:
    return ", ".join([row["on"], row["weights"], *(f"{key} {row[key]}" for key in keys)])
