"""``sweep``: a dense grid of passes, streamed into a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import polars as pl

from rackmath.cli import render
from rackmath.cli.chunked import CLUSTER, WORKERS, run
from rackmath.cli.quantities import NUMBER, Whole
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.sweeps import grids
from rackmath.sweeps.chunks import Folder, grid_chunks


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
@WORKERS
@CLUSTER
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
    run(grid_chunks(case, axes), -(-total // grids.SLICE), folder, workers, on_cluster)
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
