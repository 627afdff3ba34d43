"""``prices cost``: from engine and workload to the price page of a provider that knows its costs."""

from __future__ import annotations

import click

from rackmath.api.token_costs import CostRequest, run_cost
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.prices.cost_text import show_cost
from rackmath.figures.write import check_picture, write_figure


@click.command("cost", epilog="Example: rackmath prices cost llama-3.1-70b --on h100-sxm --gpus 8 --input 4000")
@request_options(CostRequest)
@click.option("--plot", metavar="FILE", help="Draw cost and page: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cost_prices(request: CostRequest, plot: str | None, explain: bool, as_json: bool) -> None:
    """Cost of input, cached and output tokens by context, and the page that covers it: tiers, cache, batch, fast.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    picture = check_picture(plot)
    result = run_cost(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    show_cost(result.facts, explain)
