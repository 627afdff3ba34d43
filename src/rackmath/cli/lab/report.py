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
from rackmath.cli.figures import svg_text
from rackmath.cli.lab.show import as_data, figure, need_torch
from rackmath.cli.page import page
from rackmath.errors import InputError
from rackmath.tables import write_text
from rackmath.units import show
from rackmath.version import __version__

if TYPE_CHECKING:
    from rackmath.lab.experiment import Experiment

Job = Callable[[], "Experiment"]


@click.command("all", epilog="Example: rackmath lab all --html lab.html")
@click.option("--html", "out", metavar="FILE.html", help="Write a page that needs nothing beside itself.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), help="Default: the accelerator, if any.")
@click.option("--quick", is_flag=True, help="Small sizes: does everything run?")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def all_experiments(out: str | None, device: str | None, quick: bool, as_json: bool) -> None:
    """Run every experiment, some minutes in all, and report them together.

    Interrupted, it reports what is done.
    """
    need_torch()
    if out is not None and not out.endswith((".html", ".htm")):
        raise InputError("--html", out, "end the name with .html")
    started = perf_counter()
    done: list[Experiment] = []
    stopped = False
    try:
        for name, job in _jobs(device, quick):
            render.show_progress(f"{name}: {perf_counter() - started:.0f} s so far")
            done.append(job())
    except KeyboardInterrupt:
        stopped = True
        render.show_note(f"stopped after {len(done)} experiments")
    if out is not None and done:
        write_text(Path(out), _page(done, perf_counter() - started), "--html")
        render.show_note(f"wrote {out}")
    if as_json:
        render.show_json(
            {
                "date": str(datetime.now(UTC).date()),
                "version": __version__,
                "seconds": perf_counter() - started,
                "experiments": [as_data(one) for one in done],
            }
        )
    else:
        _show(done)
    if stopped:
        raise click.Abort


def _jobs(device: str | None, quick: bool) -> Iterator[tuple[str, Job]]:
    from rackmath.lab import decode, departures, exchange, feistel, kv_tiers, machine, revnet, roofline, stages

    here, host = machine.find(device), machine.find("cpu")
    first, ceilings = roofline.experiment(
        here, seconds=0.02 if quick else 0.15, small=quick, progress=render.show_progress
    )
    yield "roofline", lambda: first
    say = render.show_progress
    if quick:
        yield (
            "decode",
            lambda: decode.experiment(
                ceilings, batches=(1, 4), contexts=(128, 256), library=False, seconds=0.02, progress=say
            ),
        )
        yield "train-departs", lambda: departures.experiment(here, seats=4, seconds=1.0, progress=say)
        yield "alltoall", lambda: exchange.experiment(host, ranks=2, tokens=(64, 256), repeats=3, progress=say)
        yield "pipeline", lambda: stages.experiment(host, stages=2, microbatches=(2, 4), repeats=2, progress=say)
        yield "revnet", lambda: revnet.experiment(here, depths=(2, 4), batch=1, tokens=64, seconds=0.1, progress=say)
        yield "feistel", lambda: feistel.experiment(host, rounds=(2, 8, 64), blocks=64, layers=8)
        yield "kv-tiers", lambda: kv_tiers.experiment(ceilings, size=2**24, repeats=3, progress=say)
        return
    yield "decode", lambda: decode.experiment(ceilings, seconds=0.3, progress=say)
    yield "train-departs", lambda: departures.experiment(here, progress=say)
    yield "alltoall", lambda: exchange.experiment(host, progress=say)
    yield "pipeline", lambda: stages.experiment(host, progress=say)
    yield "revnet", lambda: revnet.experiment(here, progress=say)
    yield "feistel", lambda: feistel.experiment(host)
    yield "kv-tiers", lambda: kv_tiers.experiment(ceilings, progress=say)


def _show(done: list[Experiment]) -> None:
    for one in done:
        error = "" if one.median_error is None else f", median error {one.median_error:.0%}"
        render.show_lines(f"{one.title} ({one.name}): {one.seconds:.0f} s{error}", one.findings)


def _page(done: list[Experiment], seconds: float) -> str:
    """One page of HTML without scripts."""
    today = datetime.now(UTC).date()
    body = [
        f"<h1>The lecture on {escape(done[0].machine.name)}</h1>",
        f'<p class="small">{escape(done[0].machine.text())}; {today}; rackmath {escape(__version__)}; {seconds:.0f} s. '
        "Points are measured, lines predicted by the engine from the machine's own ceilings.</p>",
        "<table><tr><th>experiment</th><th class='n'>seconds</th><th class='n'>median error</th></tr>",
        *(
            f'<tr><td><a href="#{one.name}">{escape(one.title)}</a></td><td class="n">{one.seconds:.0f}</td>'
            f'<td class="n">{"" if one.median_error is None else f"{one.median_error:.0%}"}</td></tr>'
            for one in done
        ),
        "</table>",
    ]
    for one in done:
        body.append(f'<h2 id="{one.name}">{escape(one.title)}</h2>')
        body += [f"<p>{escape(line)}</p>" for line in one.findings]
        body.append(f"<figure>{svg_text(figure(one))}</figure>")
        if one.ceilings:
            listed = "; ".join(f"{name} {show(value)}" for name, value in one.ceilings.items())
            body.append(f'<p class="small">Ceilings, SI: {escape(listed)}</p>')
    return page("The lecture on this machine", body)
