"""What ``plan`` and its kin ask for: a model, a system, requests, limits, and the choices that are open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rackmath.cli.quantities import NUMBER, REQUEST_RATE, SECONDS, TIME_PER_TOKEN, Whole
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW

_OPTIONS = (
    click.option("--gpus", type=Whole(), required=True, help="Accelerators at most."),
    click.option("--input", "input_", type=NUMBER, required=True, help="Tokens of a prompt."),
    click.option("--output", type=NUMBER, required=True, help="Tokens of an answer."),
    click.option("--ttft", type=SECONDS, help="Limit on the mean time to first token, in seconds."),
    click.option("--tpot", type=TIME_PER_TOKEN, help="Limit on the mean time per output token, in seconds."),
    click.option(
        "--cached-prefix", type=NUMBER, default=0.0, help="Part of a prompt whose cache is there already, 0 to 1."
    ),
    click.option("--rate", type=REQUEST_RATE, help="Requests per second to serve; by default as many as possible."),
    click.option("--weights", help="Formats of the weights to try, such as fp8,nvfp4 (default: what the chip has)."),
    click.option("--kv", help="Formats of the cache to try, such as bf16,fp8 (default: what the chip has)."),
    click.option("--drafted", help="Tokens to speculate, such as 0,1,3 (default: 0 to 3 where the model has MTP)."),
    click.option(
        "--acceptance", help="Chance that a drafted token is accepted, given those before it (default: as measured)."
    ),
    click.option("--draft-model", metavar="MODEL", help="Model that drafts, as in --draft-model llama-3.2-1b."),
    click.option("--bill-used", is_flag=True, help="Pay for accelerators in use only, not for whole boxes."),
    click.option("--one-pool", is_flag=True, help="Leave out prompts that are read on accelerators of their own."),
    click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True),
    click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from."),
    click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's."),
    click.option("--ideal", "as_ideal", is_flag=True, help="The pure bound, without an engine's losses."),
)


def planning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of :func:`rackmath.sweeps.asked.asked`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
