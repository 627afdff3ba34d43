"""``compare``: models, systems, engines, layouts and formats side by side, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import polars as pl

from rackmath.cli import render
from rackmath.cli.chunked import CLUSTER, WORKERS, results, run
from rackmath.cli.quantities import NUMBER, SECONDS, SPEED, Whole
from rackmath.errors import InputError
from rackmath.figures.pictures import cost_figure
from rackmath.figures.write import check_picture, write_figure
from rackmath.io import catalogue
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES
from rackmath.io.tables import write_table
from rackmath.sweeps import plans
from rackmath.sweeps.chunks import Chunk, Folder, plan_chunks
from rackmath.sweeps.ranking import Row, Winner, ranked, winners

_LARGEST = 100_000
"""Plans that one call of compare may ask for."""
BASES = ("on-demand", "reserved", "at cost", "blended", "any")
_TABLES = (".parquet", ".csv")


@click.command(
    epilog="Example: rackmath compare qwen3-32b,gpt-oss-120b --on h100-sxm,b200-sxm --gpus 8 --input 2000 --output 500 "
    "--speed 60 --workers 1"
)
@click.argument("models", metavar="MODEL[,MODEL...]")
@click.option("--on", "systems", required=True, metavar="SYSTEM[,SYSTEM...]", help="Catalogue names.")
@click.option("--gpus", type=Whole(), required=True, help="Accelerators at most.")
@click.option("--input", "input_", type=NUMBER, required=True, help="Tokens of a prompt.")
@click.option("--output", type=NUMBER, required=True, help="Tokens of an answer.")
@click.option("--speed", type=SPEED, default=50.0, show_default=True, help="Cost at this speed: tokens/s of one user.")
@click.option("--cost", type=NUMBER, help="Speed at this cost: dollars per million output tokens.")
@click.option("--weights", help="Formats of the weights, one row each (default: what each chip has).")
@click.option(
    "--engine",
    "engines",
    default=DEFAULT_ENGINE,
    show_default=True,
    metavar="ENGINE[,ENGINE...]",
    help=f"Families of engines: {', '.join(FAMILIES)}.",
)
@click.option(
    "--layout",
    "layouts",
    metavar="LAYOUT[;LAYOUT...]",
    help="Layouts of one copy, as 'tp8;tp1,ep8,dp8' (default: any).",
)
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator of every system.")
@click.option(
    "--basis", type=click.Choice(BASES), default="on-demand", show_default=True, help="Of the catalogue's prices."
)
@click.option("--ttft", type=SECONDS, help="Limit on the mean time to first token, in seconds.")
@click.option("--sweep", "sweeps", multiple=True, metavar="KEY=A,B,C", help="Any input, such as input=1000,8000.")
@click.option("--out", type=click.Path(path_type=Path), help="FILE.parquet, FILE.csv, or a folder to go on with later.")
@click.option("--plot", metavar="FILE", help="Draw the costs: FILE.html, FILE.png or FILE.svg.")
@WORKERS
@CLUSTER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    models: str,
    systems: str,
    gpus: int,
    input_: float,
    output: float,
    speed: float,
    cost: float | None,
    weights: str | None,
    engines: str,
    layouts: str | None,
    usd_per_gpu_hour: float | None,
    basis: str,
    ttft: float | None,
    sweeps: Sequence[str],
    out: Path | None,
    plot: str | None,
    workers: int | None,
    on_cluster: str | None,
    as_json: bool,
) -> None:
    """Put models, systems, engines, layouts and formats side by side: cost at a speed, speed at a cost.

    Every row is a full search as of `rackmath plan`; the cheapest of each model comes first, with its margin.
    """
    drawn = check_picture(plot)
    if not speed > 0 or (cost is not None and not cost > 0):
        raise InputError("--speed" if not speed > 0 else "--cost", speed if not speed > 0 else cost, "write above 0")
    axes = {"gpus": gpus, "input": input_, "output": output, "speed": speed, "cost": cost, "weights": weights}
    keys = {"model": models.split(","), "on": systems.split(",")}
    if engines != DEFAULT_ENGINE:
        keys["engine"] = plans.swept(f"engine={engines}", "--engine")[1]
    if layouts is not None:
        keys["layout"] = plans.swept(f"layout={layouts}", "--layout")[1]
    for text in sweeps:
        key, values = plans.swept(text)
        keys[key] = values
    cases = list(plans.cases({**axes, "ttft": ttft, "usd-per-gpu-hour": usd_per_gpu_hour, "basis": basis}, keys))
    if len(cases) > _LARGEST:
        raise InputError("--sweep", len(cases), f"asks for more than {_LARGEST:,} plans; split it")
    chunks = plan_chunks(cases)
    folder = None if out is None or out.suffix in _TABLES else Folder(out, {"plans": cases})
    table = _table(chunks, folder, workers, on_cluster, in_process=len(cases) <= plans.FEW)
    if out is not None and folder is None:
        write_table(out, table, "--out")
    if drawn is not None:
        write_figure(cost_figure(list(table.iter_rows(named=True)), speed), drawn)
    if as_json:
        render.show_json(table.to_dicts())
        return
    others = [key for key in keys if key not in ("model", "on", "weights")]
    _show(table, speed, cost, others)
    won = [_won(winner, others) for winner in winners(list(table.iter_rows(named=True)))]
    if won:
        render.show_lines("the cheapest", won)
    render.show_lines("prices", _priced(keys["on"], usd_per_gpu_hour, basis))


def _table(
    chunks: Sequence[Chunk], folder: Folder | None, workers: int | None, cluster: str | None, in_process: bool
) -> pl.DataFrame:
    """Rows of all chunks, in the order of the cases."""
    if folder is not None:
        run(chunks, len(chunks), folder, workers, cluster)
        parts = {c.name: pl.read_parquet(folder.path / f"part-{c.name}.parquet") for c in chunks}
    else:
        parts: dict[str, pl.DataFrame] = {}
        for chunk, result in results(chunks, 1 if in_process and workers is None else workers, cluster):
            parts[chunk.name] = result
            render.show_progress(f"compare: {len(parts)} of {len(chunks)} chunks")
    return pl.concat([parts[c.name] for c in chunks], how="vertical_relaxed")


def _show(table: pl.DataFrame, speed: float, cost: float | None, keys: Sequence[str]) -> None:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    render.show_table(
        f"cost at {speed:g} tokens/s for each user"
        + ("" if cost is None else f", and speed at {cost:g} $ per million output tokens"),
        [
            *("model", "system", "weights"),
            *(f">{key}" for key in keys),
            *(">$/M out", ">range", ">tok/s/GPU", ">batch"),
            *([] if cost is None else [">tok/s at cost"]),
            *(">fastest", "deployment, or why not"),
        ],
        [
            (
                r["model"],
                r["on"],
                r["weights"],
                *(str(r[key]) for key in keys),
                cell(r["usd_per_million_at_speed"], ".2f"),
                ""
                if r["low_at_speed"] is None
                else f"{cell(r['low_at_speed'], '.2f')} to {cell(r['high_at_speed'], '.2f')}",
                cell(r["tokens_per_second_per_gpu_at_speed"], ".0f"),
                cell(r["batch_at_speed"], ".0f"),
                *([] if cost is None else [cell(r["speed_at_cost"], ".0f")]),
                cell(r["fastest"], ".0f"),
                r["best_layout"] or r["reason"] or "",
            )
            for r in ranked(list(table.iter_rows(named=True)))
        ],
    )


def _priced(systems: Sequence[str], price: float | None, basis: str) -> Iterator[str]:
    """What each system is paid at, or why its costs are missing."""
    for name in systems:
        system = catalogue.system(name)
        if price is not None or system.price is None or basis in ("any", system.price_basis):
            yield f"{system.name}: {catalogue.price_note(system, price)[0]}"
        else:
            known = f"its known price, {system.price * 3600:.2f} $ per GPU-hour, is {system.price_basis}"
            yield f"{system.name}: {known}, not {basis}: give --usd-per-gpu-hour, or --basis any"


def _won(winner: Winner, keys: Sequence[str]) -> str:
    """The cheapest of a model, and by how much, beside how well either is known."""
    row, second = winner.row, winner.second
    text = (
        f"{row['model']}: {_named(row, keys)} is cheapest, {row['usd_per_million_at_speed']:.3g} $ per million tokens"
    )
    if second is None:
        return f"{text}; nothing else keeps the speed"
    certain = "their ranges do not meet" if winner.apart else "their ranges meet, so the order may be the other one"
    return f"{text}, {winner.margin:.0%} below {_named(second, keys)}; {certain}"


def _named(row: Row, keys: Sequence[str]) -> str:
    return ", ".join([row["on"], row["weights"], *(f"{key} {row[key]}" for key in keys)])
