"""``train``: what a run takes; budgets over a model's life; schedules of pipelines."""

from __future__ import annotations

import click

from rackmath.cli.train.budget import budget_command
from rackmath.cli.train.depth import depth_command
from rackmath.cli.train.pipeline import pipeline
from rackmath.cli.train.rl import rl_command
from rackmath.cli.train.run import run_command


class _RunByDefault(click.Group):
    """A group whose first argument is a model where it is no subcommand."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take ``train MODEL ...`` as ``train run MODEL ...``."""
        if args and args[0] not in self.commands:
            return "run", run_command, args
        return super().resolve_command(ctx, args)


@click.group(
    cls=_RunByDefault,
    subcommand_metavar="MODEL|COMMAND [ARGS]...",
    epilog="Example: rackmath train llama-3.1-405b --on h100-sxm --gpus 16384 --tokens 15.6T --batch-tokens 16M",
)
def train() -> None:
    """Training: days and dollars of a run (train MODEL, or train run MODEL), budgets, pipelines, RL, depth."""


train.add_command(run_command)
train.add_command(budget_command)
train.add_command(depth_command)
train.add_command(pipeline)
train.add_command(rl_command)
