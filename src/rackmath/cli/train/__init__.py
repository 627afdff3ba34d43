"""``train``: laws, budgets, pipelines, and what a run takes."""

from __future__ import annotations

import click

from rackmath.cli.train.pipeline import pipeline


@click.group(epilog="Example: rackmath train pipeline --schedule zb-h1 --stages 8 --microbatches 32")
def train() -> None:
    """Training: schedules of pipelines."""


train.add_command(pipeline)
