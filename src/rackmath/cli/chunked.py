"""Work in chunks from the command line: where it runs, progress, interruptions that lose nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from rackmath.cli import render
from rackmath.cli.quantities import WholeNumber
from rackmath.sweeps.chunks import Chunk, Folder
from rackmath.sweeps.workers import Result, on_cluster, on_this_machine

_INTERRUPTED = 130

CLUSTER = click.option(
    "--on-cluster",
    metavar="ADDRESS",
    is_flag=False,
    flag_value="",
    help="Compute on Ray: ray://host:10001, auto, or nothing for one started here (pip install 'rackmath[scale]').",
)
WORKERS = click.option("--workers", type=WholeNumber(1, 4096), help="Processes on this machine (default: cores).")


def results(chunks: Iterable[Chunk], workers: int | None, cluster: str | None) -> Iterator[Result]:
    """Results of chunks as they come, from this machine or a cluster."""
    return on_this_machine(chunks, workers) if cluster is None else on_cluster(chunks, cluster or None)


def run(chunks: Iterable[Chunk], count: int, folder: Folder, workers: int | None, cluster: str | None) -> None:
    """Compute what a folder lacks, with progress; an interruption loses nothing that was written."""
    finished_chunks = folder.done()
    if finished_chunks:
        render.show_note(f"sweep: {len(finished_chunks)} of {count} chunks are there already")
    pending_chunks = (chunk for chunk in chunks if chunk.name not in finished_chunks)
    finished_count = len(finished_chunks)
    # With one chunk to compute, starting processes would take longer than the work.
    fewest = 1 if count - len(finished_chunks) <= 1 and workers is None else workers
    try:
        for chunk, result in results(pending_chunks, fewest, cluster):
            folder.keep(chunk, result)
            finished_count += 1
            render.show_progress(f"sweep: {finished_count} of {count} chunks")
    except KeyboardInterrupt:
        render.show_note(
            f"sweep: interrupted; {finished_count} of {count} chunks are in {folder.path}, the same call goes on"
        )
        sys.exit(_INTERRUPTED)
