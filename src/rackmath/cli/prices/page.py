"""``prices page``: the ratios on a price page, and what each would imply under each hypothesis."""

from __future__ import annotations

import click

from rackmath.api.price_page import PageRequest, run_page
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.prices.page_text import show_market, show_page
from rackmath.errors import InputError
from rackmath.figures.write import check_picture, write_figure


@click.command("page", epilog="Example: rackmath prices page anthropic --date 2026-11-21")
@request_options(PageRequest)
@click.option("--plot", metavar="FILE", help="Draw ratios beside what is foretold: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def page_prices(request: PageRequest, plot: str | None, explain: bool, as_json: bool) -> None:
    """Ratios of a price page: cliffs, output and cached over input, writes, batch, fast; and what each implies.

    PROVIDER is a name that genai-prices knows; without one, all of them, a line each. Prices that genai-prices
    does not date are taken to have always held.
    """
    picture = check_picture(plot)
    if picture is not None and request.provider is None:
        raise InputError("--plot", plot, "name a PROVIDER: one page is drawn")
    result = run_page(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    if request.provider is not None:
        show_page(result.facts[0], explain)
    else:
        show_market(result.facts)
