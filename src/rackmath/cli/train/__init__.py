"""``train``: laws, budgets, pipelines, and what a run takes."""

from __future__ import annotations

import click

from rackmath.cli.train.budget import budget_command
from rackmath.cli.train.pipeline import pipeline


@click.group(epilog="Example: rackmath train pipeline --schedule zb-h1 --stages 8 --microbatches 32")
def train() -> None:
    """Training: budgets over a model's life, schedules of pipelines."""


train.add_command(budget_command)
train.add_command(pipeline)
