"""``prices``: what a price page says of the models behind it, what it does not, and what a page should say."""

from __future__ import annotations

import click

from rackmath.cli.agent import agent
from rackmath.cli.prices.cost import cost_prices
from rackmath.cli.prices.decode import decode_prices
from rackmath.cli.prices.page import page_prices
from rackmath.cli.prices.report import report_prices
from rackmath.cli.prices.trend import trend_prices


@click.group(epilog="Example: rackmath prices decode kimi-k2.6 --date 2026-11-21")
def prices() -> None:
    """Read prices: what they imply, with ranges that hold, and what they cannot tell."""


prices.add_command(agent)
prices.add_command(cost_prices)
prices.add_command(decode_prices)
prices.add_command(page_prices)
prices.add_command(report_prices)
prices.add_command(trend_prices)
