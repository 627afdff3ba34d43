"""``lab``: the lecture's experiments on this machine."""

from __future__ import annotations

import click

from rackmath.cli.lab.commands import EXPERIMENTS
from rackmath.cli.lab.report import all_experiments


@click.group(epilog="Example: rackmath lab feistel --blocks 64")
def lab() -> None:
    """The lecture's experiments on this machine, measured against predicted. Needs the extra lab (PyTorch)."""


for command in (*EXPERIMENTS, all_experiments):
    lab.add_command(command)
