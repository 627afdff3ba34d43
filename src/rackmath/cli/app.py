"""Entry point: a lazy group of commands, and errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn

import click

from rackmath.errors import RackmathError
from rackmath.version import __version__

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "board": ("rackmath.web.command", "The lecture and the tools as pages that answer while you drag."),
        "calibrate": ("rackmath.cli.validate:calibrate_rows", "Fit the engine's constants on measured rows."),
        "compare": ("rackmath.cli.compare:compare", "Models, systems and formats side by side; sweeps of any input."),
        "estimate": ("rackmath.cli.estimate", "Time, memory and cost of one decode or prefill pass."),
        "evidence": ("rackmath.cli.evidence", "Measurements behind the answers; keep your own beside them."),
        "explore": ("rackmath.cli.explore", "Which numbers of hardware and model an answer depends on, and how much."),
        "fit": ("rackmath.cli.fit", "Every model and format that fits on accelerators, fastest first."),
        "lab": ("rackmath.cli.lab", "The lecture's experiments on this machine, measured against predicted."),
        "lecture": (
            "rackmath.cli.lecture:lecture",
            "Equations and claims of the lecture, and the studies that are one remark each.",
        ),
        "memory": ("rackmath.cli.memory", "What an engine leaves for the cache when it has started, line by line."),
        "model": ("rackmath.cli.facts", "Exact counts of a model: parameters, cache, bytes; the models there are."),
        "plan": ("rackmath.cli.plan", "Search every deployment: frontier, best under limits, launch commands."),
        "predict": ("rackmath.cli.validate:predict_rows", "Predict rows of a table of measurements, with ranges."),
        "prices": ("rackmath.cli.prices", "What tokens cost, what price pages imply, what is behind list prices."),
        "quiz": ("rackmath.cli.quiz", "Cards of the book with computed answers, asked at growing intervals."),
        "simulate": ("rackmath.cli.simulate:simulate_command", "Replay a trace, or made-up traffic, against a fleet."),
        "sweep": ("rackmath.cli.sweep:sweep", "A dense grid of passes into a folder of Parquet, resumable."),
        "systems": ("rackmath.cli.systems", "Systems of the catalogue, their sources, and files of your own."),
        "traffic": ("rackmath.cli.traffic", "A trace as a small model, from which traffic like it is drawn."),
        "train": ("rackmath.cli.train", "Days and dollars of a training run; budgets; schedules of pipelines."),
    }
)
"""Command -> module that holds it, and its line in the help of the group."""

MOVED: Mapping[str, str] = MappingProxyType(
    {
        "agent": "prices agent",
        "cache": "lecture cache",
        "claims": "lecture claims",
        "context": "lecture context",
        "experts": "lecture experts",
        "fleet": "lecture fleet",
        "models": "model",
        "modes": "lecture modes",
        "racks": "lecture racks",
        "solve": "lecture solve",
        "sparsity": "lecture sparsity",
    }
)
"""Names that commands had once: they go on working, and on a terminal they say where the command is now."""


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command runs."""

    def __init__(self, *, lines: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        """Make a group of commands.

        Parameters
        ----------
        lines : mapping
            Command -> module that holds it, and its line in the help.
        """
        super().__init__(**settings)
        self.lines = lines

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return sorted(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.lines:
            return None
        module, _, name = self.lines[cmd_name][0].partition(":")
        return getattr(import_module(module), name or cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lines[name][1]) for name in self.list_commands(ctx)])


class _TopGroup(LazyGroup):
    """The group of all commands, which knows their old names as well."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take an old name for the new one, with a hint."""
        if args and args[0] in MOVED:
            # For people only: scripts may count on one line of standard error, or none.
            if sys.stderr.isatty():
                click.echo(f"rackmath {args[0]} is `rackmath {MOVED[args[0]]}` now", err=True)
            args = [*MOVED[args[0]].split(), *args[1:]]
        return super().resolve_command(ctx, args)


@click.group(cls=_TopGroup, lines=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rackmath")
def cli() -> None:
    """Work out how fast a language model runs on given hardware, what a token costs, and what binds.

    Example: rackmath estimate deepseek-v3 --on gb200-nvl72 --batch 2048 --context 8192

    Every command takes --html FILE.html as well: its answer and its picture as one page to send to somebody.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 bad input with one line on standard error."""
    # Matrices here have hundreds of rows: further threads of NumPy's only wait for each other, and on a busy machine
    # made `fit` eight times slower. Processes that are started from here inherit it; NumPy is not imported yet.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = _answered(sys.argv[1:] if arguments is None else arguments)
    except RackmathError as error:
        _refuse(str(error))
    except click.exceptions.Abort:
        _refuse("interrupted: run the command again")
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 2
    except click.UsageError as error:
        from rackmath.cli.usage_errors import usage_line

        _refuse(usage_line(error))
    except click.ClickException as error:
        _refuse(error.format_message())
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)


def _answered(words: list[str]) -> Any:
    """Run a command; with ``--html FILE`` its answer becomes a page as well."""
    if not any(word == "--html" or word.startswith("--html=") for word in words):
        return _run(words)
    from rackmath.cli.export import OPTION, command_of, export, split_option

    command = command_of(cli, words)
    if any(OPTION in parameter.opts for parameter in command.params):
        # Reports make pages of their own.
        return _run(words)
    words, file = split_option(words)
    return _run(words) if file is None else export(words, file, command, _run)


def _run(words: list[str]) -> Any:
    return cli.main(args=words, prog_name="rackmath", standalone_mode=False) or 0


def _refuse(line: str) -> NoReturn:
    click.echo("rackmath: " + " ".join(line.split()), err=True)
    sys.exit(2)
