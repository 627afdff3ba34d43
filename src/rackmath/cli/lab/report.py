"""``lab all``: every experiment on one self-contained page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from rackmath.cli import render
from rackmath.cli.lab.show import as_data, figure, need_torch
from rackmath.cli.page import page
from rackmath.cli.quantities import SECONDS
from rackmath.errors import InputError
from rackmath.figures.still import svg_text
from rackmath.io.tables import write_text
from rackmath.units import show
from rackmath.version import __version__

if TYPE_CHECKING:
    from rackmath.lab.budget import TimeLimit
    from rackmath.lab.experiment import Experiment

Job = Callable[[], "Experiment"]

_WHOLE, _QUICK = 240.0, 30.0
"""Time for all, and for their small sizes. [s]"""


@click.command("all", epilog="Example: rackmath lab all --html lab.html")
@click.option("--html", "out", metavar="FILE.html", help="Write a page that needs nothing beside itself.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), help="Default: the accelerator, if any.")
@click.option(
    "--seconds",
    type=SECONDS,
    help="Time that all experiments may take together; sizes that would not finish in their share are left out and "
    "listed.  [default: 240; with --quick 30]",
)
@click.option("--quick", is_flag=True, help="Small sizes: does everything run?")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def all_experiments(out: str | None, device: str | None, seconds: float | None, quick: bool, as_json: bool) -> None:
    """Run every experiment, four minutes in all unless told otherwise, and report them together.

    Interrupted, it reports what is done.
    """
    need_torch()
    if out is not None and not out.endswith((".html", ".htm")):
        raise InputError("--html", out, "end the name with .html")
    from rackmath.lab.budget import TimeLimit

    start = perf_counter()
    budget = TimeLimit(seconds if seconds is not None else _QUICK if quick else _WHOLE, render.show_progress)
    experiments: list[Experiment] = []
    is_interrupted = False
    try:
        # Each is kept as soon as it has ended.
        experiments.extend(job() for job in _jobs(device, quick, budget))
    except KeyboardInterrupt:
        is_interrupted = True
        render.show_note(f"stopped after {len(experiments)} experiments")
    if out is not None and experiments:
        write_text(Path(out), _page(experiments, perf_counter() - start), "--html")
        render.show_note(f"wrote {out}")
    if as_json:
        render.show_json(
            {
                "date": str(datetime.now(UTC).date()),
                "version": __version__,
                "seconds": perf_counter() - start,
                "experiments": [as_data(row) for row in experiments],
            }
        )
    else:
        _show(experiments)
    if is_interrupted:
        raise click.Abort


def _jobs(device: str | None, quick: bool, budget: TimeLimit) -> Iterator[Job]:
    """Experiments, each with its part of what is left of the time."""
    from rackmath.lab import decode, departures, exchange, feistel, kv_tiers, machine, revnet, roofline, stages

    here, host = machine.find(device), machine.find("cpu")
    parts = (budget.apart(1 / remaining) for remaining in range(8, 0, -1))
    first, ceilings = roofline.experiment(here, next(parts), small=quick)
    yield lambda: first
    if quick:
        yield lambda: decode.experiment(
            ceilings, next(parts), batches=(1, 4), contexts=(128, 256), prompt=32, library=False
        )
        yield lambda: departures.experiment(here, next(parts), seats=4)
        yield lambda: exchange.experiment(host, next(parts), ranks=2, tokens=(64, 256))
        yield lambda: stages.experiment(host, next(parts), stages=2, microbatches=(2, 4))
        yield lambda: revnet.experiment(here, next(parts), depths=(2, 4), batch=1, tokens=64)
        yield lambda: feistel.experiment(host, next(parts), rounds=(2, 8, 64), blocks=64, layers=8)
        yield lambda: kv_tiers.experiment(ceilings, next(parts), size=2**24)
        return
    yield lambda: decode.experiment(ceilings, next(parts))
    yield lambda: departures.experiment(here, next(parts))
    yield lambda: exchange.experiment(host, next(parts))
    yield lambda: stages.experiment(host, next(parts))
    yield lambda: revnet.experiment(here, next(parts))
    yield lambda: feistel.experiment(host, next(parts))
    yield lambda: kv_tiers.experiment(ceilings, next(parts))


def _show(experiments: list[Experiment]) -> None:
    for row in experiments:
        error = "" if row.median_error is None else f", median error {row.median_error:.0%}"
        render.show_lines(f"{row.title} ({row.name}): {row.seconds:.0f} s{error}", row.findings)


def _page(experiments: list[Experiment], seconds: float) -> str:
    """One page of HTML without scripts."""
    today, machine = datetime.now(UTC).date(), experiments[0].machine
    body = [
        f"<h1>The lecture on {escape(machine.name)}</h1>",
        f'<p class="small">{escape(machine.text())}; {today}; rackmath {escape(__version__)}; {seconds:.0f} s. '
        "Points are measured, lines predicted by the engine from the machine's own ceilings.</p>",
        "<table><tr><th>experiment</th><th class='n'>seconds</th><th class='n'>median error</th></tr>",
        *(
            f'<tr><td><a href="#{row.name}">{escape(row.title)}</a></td><td class="n">{row.seconds:.0f}</td>'
            f'<td class="n">{"" if row.median_error is None else f"{row.median_error:.0%}"}</td></tr>'
            for row in experiments
        ),
        "</table>",
    ]
    for row in experiments:
        body.append(f'<h2 id="{row.name}">{escape(row.title)}</h2>')
        body += [f"<p>{escape(line)}</p>" for line in row.findings]
        body.append(f"<figure>{svg_text(figure(row))}</figure>")
        if row.ceilings:
            ceilings = "; ".join(f"{name} {show(value)}" for name, value in row.ceilings.items())
            body.append(f'<p class="small">Ceilings, SI: {escape(ceilings)}</p>')
    return page("The lecture on this machine", body)
