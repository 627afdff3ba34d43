"""``sweep``: a dense grid of passes, streamed into a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path

import click

from rackmath.cli import render
from rackmath.cli.chunked import CLUSTER, WORKERS, run
from rackmath.cli.options import request_options
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.sweeps import grids
from rackmath.sweeps.chunks import Folder, grid_chunks
from rackmath.sweeps.grid_request import SweepRequest, summary


@click.command(
    epilog="Example: rackmath sweep llama-3.1-8b --on h100-sxm --layout tp1 --batch 1:1024:33 --context 512,4096 "
    "--out grid --workers 1"
)
@request_options(SweepRequest)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@WORKERS
@CLUSTER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sweep(request: SweepRequest, out: Path, workers: int | None, on_cluster: str | None, as_json: bool) -> None:
    """Evaluate a dense grid of passes, streamed into a folder of Parquet files.

    A sweep that was stopped goes on where it ended when the same command is given again;
    10^8 points need no more memory than 10^6.
    """
    case, axes = request.case, request.axes
    # One point first, so that bad input is refused before a folder is made.
    grids.evaluated(case, axes, 0, 1)
    folder = Folder(out, {"grid": case, "axes": axes})
    total = grids.size(axes)
    # Chunks are made as they are needed; only their number is known beforehand.
    run(grid_chunks(case, axes), -(-total // grids.SLICE), folder, workers, on_cluster)
    facts = summary(folder.read())
    if facts["points"] != total:
        raise InputError(
            "--out", str(folder.path), f"holds {facts['points']:,} points of {total:,}: files were changed"
        )
    if as_json:
        render.show_json(facts)
        return
    render.show_pairs(
        f"{total:,} points of {catalogue.model(request.model).name} in {out}",
        [(name.replace("_", " "), str(value)) for name, value in facts.items()],
    )
