"""``compare`` and ``sweep``: many questions at once, as tables and Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import polars as pl

from rackmath.cli import render
from rackmath.cli.quantities import NUMBER, SECONDS, SPEED, Whole
from rackmath.errors import InputError
from rackmath.figures.pictures import cost_figure
from rackmath.figures.write import check_picture, write_figure
from rackmath.io import catalogue
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.io.tables import write_table
from rackmath.sweeps import grids, plans
from rackmath.sweeps.chunks import Chunk, Folder, grid_chunks, plan_chunks
from rackmath.sweeps.workers import Result, on_cluster, on_this_machine

_INTERRUPTED = 130
_LARGEST = 100_000
"""Plans that one call of compare may ask for."""
BASES = ("on-demand", "reserved", "at cost", "blended", "any")
_TABLES = (".parquet", ".csv")

_CLUSTER = click.option(
    "--on-cluster",
    metavar="ADDRESS",
    is_flag=False,
    flag_value="",
    help="Compute on Ray: ray://host:10001, auto, or nothing for one started here (pip install 'rackmath[scale]').",
)
_WORKERS = click.option("--workers", type=Whole(1, 4096), help="Processes on this machine (default: cores).")


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
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator of every system.")
@click.option(
    "--basis", type=click.Choice(BASES), default="on-demand", show_default=True, help="Of the catalogue's prices."
)
@click.option("--ttft", type=SECONDS, help="Limit on the mean time to first token, in seconds.")
@click.option("--sweep", "sweeps", multiple=True, metavar="KEY=A,B,C", help="Any input, such as input=1000,8000.")
@click.option("--out", type=click.Path(path_type=Path), help="FILE.parquet, FILE.csv, or a folder to go on with later.")
@click.option("--plot", metavar="FILE", help="Draw the costs: FILE.html, FILE.png or FILE.svg.")
@_WORKERS
@_CLUSTER
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
    """Put models, systems and formats side by side: cost at a fixed speed, speed at a fixed cost.

    Every row is a full search as of `rackmath plan`.
    """
    drawn = check_picture(plot)
    if not speed > 0 or (cost is not None and not cost > 0):
        raise InputError("--speed" if not speed > 0 else "--cost", speed if not speed > 0 else cost, "write above 0")
    axes = {"gpus": gpus, "input": input_, "output": output, "speed": speed, "cost": cost, "weights": weights}
    keys = {"model": models.split(","), "on": systems.split(",")}
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
    _show(table, speed, cost, [key for key in keys if key not in ("model", "on", "weights")])
    render.show_lines("prices", _priced(keys["on"], usd_per_gpu_hour, basis))


@click.command(
    epilog="Example: rackmath sweep llama-3.1-8b --on h100-sxm --layout tp1 --batch 1:1024:33 --context 512,4096 "
    "--out grid --workers 1"
)
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--layout", required=True, help="Such as tp8,ep8,pp1,dp1.")
@click.option("--gpus", type=Whole(), help="Accelerators; the rest becomes data-parallel.")
@click.option("--batch", required=True, help="Values as 1,2,4 or from:to:count (evenly spaced by ratio).")
@click.option("--context", required=True, help="The same.")
@click.option("--cached", default="0", show_default=True, help="The same; prefill only.")
@click.option("--drafted", default="0", show_default=True, help="The same; decode only.")
@click.option("--phase", type=click.Choice(["decode", "prefill"]), default="decode", show_default=True)
@click.option("--weights", help="Format of the linear layers (default: the config's).")
@click.option("--kv", help="Format of the cache (default: the config's).")
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@_WORKERS
@_CLUSTER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sweep(
    model: str,
    batch: str,
    context: str,
    cached: str,
    drafted: str,
    out: Path,
    workers: int | None,
    on_cluster: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate a dense grid of passes, streamed into a folder of Parquet files.

    A sweep that was stopped goes on where it ended when the same command is given again;
    10^8 points need no more memory than 10^6.
    """
    axes = {
        name: grids.axis(text, f"--{name}")
        for name, text in (("batch", batch), ("context", context), ("cached", cached), ("drafted", drafted))
    }
    case = {"model": model, **options}
    # One point first, so that bad input is refused before a folder is made.
    grids.evaluated(case, axes, 0, 1)
    folder = Folder(out, {"grid": case, "axes": axes})
    total = grids.size(axes)
    # Chunks are made as they are needed; only their number is known beforehand.
    _run(grid_chunks(case, axes), -(-total // grids.SLICE), folder, workers, on_cluster)
    facts = _summary(folder, total)
    if as_json:
        render.show_json(facts)
        return
    render.show_pairs(
        f"{total:,} points of {catalogue.model(model).name} in {out}",
        [(name.replace("_", " "), str(value)) for name, value in facts.items()],
    )


def _summary(folder: Folder, total: int) -> dict[str, Any]:
    totals = (
        folder.read()
        .select(
            pl.len().alias("points"),
            pl.col("fits").sum().alias("fitting"),
            pl.col("time").min().alias("shortest_time"),
            pl.col("time").max().alias("longest_time"),
            pl.col("tokens_per_second_per_gpu").filter(pl.col("fits")).max().alias("most_tokens_per_second_per_gpu"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    if totals["points"] != total:
        raise InputError(
            "--out", str(folder.path), f"holds {totals['points']:,} points of {total:,}: files were changed"
        )
    return totals


def _results(chunks: Iterable[Chunk], workers: int | None, cluster: str | None) -> Iterator[Result]:
    return on_this_machine(chunks, workers) if cluster is None else on_cluster(chunks, cluster or None)


def _run(chunks: Iterable[Chunk], count: int, folder: Folder, workers: int | None, cluster: str | None) -> None:
    """Compute what a folder lacks, with progress; an interruption loses nothing that was written."""
    done = folder.done()
    if done:
        render.show_note(f"sweep: {len(done)} of {count} chunks are there already")
    left = (chunk for chunk in chunks if chunk.name not in done)
    finished = len(done)
    # With one chunk to compute, starting processes would take longer than the work.
    fewest = 1 if count - len(done) <= 1 and workers is None else workers
    try:
        for chunk, result in _results(left, fewest, cluster):
            folder.keep(chunk, result)
            finished += 1
            render.show_progress(f"sweep: {finished} of {count} chunks")
    except KeyboardInterrupt:
        render.show_note(
            f"sweep: interrupted; {finished} of {count} chunks are in {folder.path}, the same call goes on"
        )
        sys.exit(_INTERRUPTED)


def _table(
    chunks: Sequence[Chunk], folder: Folder | None, workers: int | None, cluster: str | None, in_process: bool
) -> pl.DataFrame:
    """Rows of all chunks, in the order of the cases."""
    if folder is not None:
        _run(chunks, len(chunks), folder, workers, cluster)
        parts = {c.name: pl.read_parquet(folder.path / f"part-{c.name}.parquet") for c in chunks}
    else:
        parts: dict[str, pl.DataFrame] = {}
        for chunk, result in _results(chunks, 1 if in_process and workers is None else workers, cluster):
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
            for r in table.iter_rows(named=True)
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
