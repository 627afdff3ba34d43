"""One command per experiment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackmath.cli import render
from rackmath.cli.lab.show import deliver, need_torch
from rackmath.cli.quantities import NUMBER, SECONDS, WholeNumber
from rackmath.errors import InputError
from rackmath.io.tables import write_text

if TYPE_CHECKING:
    from rackmath.lab.budget import TimeLimit
    from rackmath.lab.ceilings import Ceilings

_HOST = "cpu"
"""Where ranks, ciphers and small networks live, whatever accelerator the machine has."""
_CEILINGS = 0.2
"""Part of an experiment's time that measures the machine's ceilings first."""


def _output(command: Callable[..., None]) -> Callable[..., None]:
    """Options that every experiment has."""
    for option in (
        click.option(
            "--seconds",
            type=SECONDS,
            default=60.0,
            show_default=True,
            help="Time that the experiment may take; sizes that would not finish in that time are left out and listed.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--plot", metavar="FILE", help="Draw it: FILE.html, FILE.png or FILE.svg."),
    ):
        command = option(command)
    return command


_device = click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), help="Default: the accelerator, if any.")


def _budget(seconds: float) -> TimeLimit:
    from rackmath.lab.budget import TimeLimit

    return TimeLimit(seconds, render.show_progress)


def _ceilings(device: str | None, budget: TimeLimit) -> Ceilings:
    """The machine's own ceilings, which predictions need."""
    from rackmath.lab import ceilings, machine

    return ceilings.measure(machine.find(device), budget.part(_CEILINGS))


@click.command("roofline", epilog="Example: rackmath lab roofline --out my-machine.toml --plot roofline.svg")
@click.option("--out", metavar="FILE.toml", help="Write the machine as a system for --on.")
@click.option("--small", is_flag=True, help="Few and small shapes.")
@_device
@_output
def roofline(out: str | None, seconds: float, small: bool, device: str | None, plot: str | None, as_json: bool) -> None:
    """Achieved products by precision and shape, bandwidth by size, latency; a hardware record for other commands."""
    need_torch()
    from rackmath.lab import machine
    from rackmath.lab import roofline as laboratory
    from rackmath.lab.record import record

    if out is not None and not out.endswith(".toml"):
        raise InputError("--out", out, "end the name with .toml")
    experiment, ceilings = laboratory.experiment(machine.find(device), _budget(seconds), small=small)
    if out is not None:
        write_text(Path(out), record(ceilings, datetime.now(UTC).date()), "--out")
        render.show_note(f"lab: wrote {out}, give it to any command as --on {out}")
    deliver(experiment, plot, as_json)


@click.command("decode", epilog="Example: rackmath lab decode --plot decode.svg")
@click.option("--most", type=WholeNumber(1, 4096), default=256, show_default=True, help="Largest batch.")
@click.option("--longest", type=WholeNumber(128, 131_072), default=8192, show_default=True, help="Longest context.")
@click.option("--library/--own", default=True, help="Decode transformers' own classes as well, if installed.")
@_device
@_output
def decode(
    most: int, longest: int, library: bool, seconds: float, device: str | None, plot: str | None, as_json: bool
) -> None:
    """A decoder with a KV cache, dense and with experts: floor, hyperbola, knee, slope of the cache, coverage."""
    need_torch()
    from rackmath.lab import decode as laboratory

    budget = _budget(seconds)
    experiment = laboratory.experiment(
        _ceilings(device, budget),
        budget,
        batches=[b for b in laboratory.BATCHES if b <= most],
        contexts=[c for c in laboratory.CONTEXTS if c <= longest],
        library=library,
    )
    deliver(experiment, plot, as_json)


@click.command("train-departs", epilog="Example: rackmath lab train-departs --load 0.7 --seconds 20")
@click.option("--seats", type=WholeNumber(1, 1024), default=16, show_default=True, help="Sequences of a train.")
@click.option("--load", type=NUMBER, default=0.5, show_default=True, help="Arrivals over seats.")
@_device
@_output
def train_departs(seats: int, load: float, seconds: float, device: str | None, plot: str | None, as_json: bool) -> None:
    """A serving loop on a timetable under Poisson arrivals: waits, departures, the worst case against 2 t."""
    need_torch()
    from rackmath.lab import departures, machine

    experiment = departures.experiment(machine.find(device), _budget(seconds), seats=seats, load=load)
    deliver(experiment, plot, as_json)


@click.command("alltoall", epilog="Example: rackmath lab alltoall --ranks 4 --ratio 8")
@click.option("--ranks", type=WholeNumber(2, 32), default=4, show_default=True, help="Processes.")
@click.option("--ratio", type=NUMBER, default=8.0, show_default=True, help="First network over the second.")
@_output
def alltoall(ranks: int, ratio: float, seconds: float, plot: str | None, as_json: bool) -> None:
    """Expert parallelism over processes: bytes and time of dispatch and combine, one rack and two, reductions."""
    need_torch()
    from rackmath.lab import exchange, machine

    experiment = exchange.experiment(machine.find(_HOST), _budget(seconds), ranks=ranks, ratio=ratio)
    deliver(experiment, plot, as_json)


@click.command("pipeline", epilog="Example: rackmath lab pipeline --stages 4")
@click.option("--stages", type=WholeNumber(2, 8), default=4, show_default=True, help="Processes, a divisor of 8.")
@click.option("--pace", type=SECONDS, default=0.02, show_default=True, help="Of a stage's forward pass at least, in s.")
@_output
def pipeline(stages: int, pace: float, seconds: float, plot: str | None, as_json: bool) -> None:
    """Stages in processes: the bubble of GPipe and 1F1B against the scheduler; decoding with the cache per stage."""
    need_torch()
    from rackmath.lab import machine
    from rackmath.lab import stages as laboratory

    experiment = laboratory.experiment(machine.find(_HOST), _budget(seconds), stages=stages, pace=pace)
    deliver(experiment, plot, as_json)


@click.command("revnet", epilog="Example: rackmath lab revnet --deepest 16 --plot revnet.svg")
@click.option("--deepest", type=WholeNumber(4, 1024), default=32, show_default=True, help="Layers.")
@_device
@_output
def revnet(deepest: int, device: str | None, seconds: float, plot: str | None, as_json: bool) -> None:
    """Reversible layers: memory by depth, gradients, time, and what the inverse loses, against checkpoints."""
    need_torch()
    from rackmath.lab import machine
    from rackmath.lab import revnet as laboratory

    depths = sorted({*(d for d in laboratory.DEPTHS if d <= deepest), deepest})
    deliver(laboratory.experiment(machine.find(device), _budget(seconds), depths=depths), plot, as_json)


@click.command("feistel", epilog="Example: rackmath lab feistel --json")
@click.option(
    "--blocks", type=WholeNumber(16, 1_000_000), default=512, show_default=True, help="Blocks of text that are sampled."
)
@_output
def feistel(blocks: int, seconds: float, plot: str | None, as_json: bool) -> None:
    """A Feistel cipher on bytes: avalanche by round, differentials; the same statistics for random networks."""
    need_torch()
    from rackmath.lab import feistel as laboratory
    from rackmath.lab import machine

    deliver(laboratory.experiment(machine.find(_HOST), _budget(seconds), blocks=blocks), plot, as_json)


@click.command("kv-tiers", epilog="Example: rackmath lab kv-tiers --model llama-3.1-8b --usd-per-hour 0.10")
@click.option("--model", default="llama-3.1-8b", show_default=True, help="Whose cache waits.")
@click.option("--size", type=WholeNumber(2**24, 2**40), default=2**28, show_default=True, help="Of the file, in B.")
@click.option("--usd-per-hour", type=NUMBER, default=0.10, show_default=True, help="Rent of this machine.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Where the file lies.")
@_device
@_output
def kv_tiers(
    model: str,
    size: int,
    usd_per_hour: float,
    folder: Path | None,
    device: str | None,
    seconds: float,
    plot: str | None,
    as_json: bool,
) -> None:
    """Blocks of a cache from RAM, a mapped file and disk: times, drain times, the cheapest tier by hold time."""
    need_torch()
    from rackmath.lab import kv_tiers as laboratory

    budget = _budget(seconds)
    experiment = laboratory.experiment(
        _ceilings(device, budget),
        budget,
        model=model,
        size=size,
        usd_per_hour=usd_per_hour,
        folder=folder,
    )
    deliver(experiment, plot, as_json)


EXPERIMENTS: tuple[Any, ...] = (roofline, decode, train_departs, alltoall, pipeline, revnet, feistel, kv_tiers)
