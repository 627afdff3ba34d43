"""``prices report``: one self-contained page about one model's prices."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from rackmath import units
from rackmath.api.price_page import pages
from rackmath.cli import render
from rackmath.cli.prices.report_html import report_html
from rackmath.errors import InputError
from rackmath.io import price_book, price_files
from rackmath.io.tables import write_text
from rackmath.prices.decode import Offer, decode
from rackmath.prices.page import Listing
from rackmath.version import __version__

_OWN_NAME = "MODEL.html"


@click.command("report", epilog="Example: rackmath prices report kimi-k2.6 --html kimi.html --date 2026-11-21")
@click.argument("model")
@click.option("--html", "out", metavar="[FILE]", is_flag=False, flag_value=_OWN_NAME, help="Page to write.")
@click.option("--provider", help="Whose page is read (default: who has the fullest price list of it).")
@click.option("--date", "day", help="Day of the prices, as in 2026-11-21 (default: today).")
def report_prices(model: str, out: str | None, provider: str | None, day: str | None) -> None:
    """One page of HTML: what hosts ask, what that implies and with which range, what it cannot tell, sources.

    MODEL is a name that genai-prices knows. The page needs nothing beside itself. --html without FILE takes the
    model's name.
    """
    if out is None:
        raise InputError("--html", None, "name the page to write, or give --html alone for MODEL.html")
    at = units.day(day, "--date") if day else datetime.now(UTC).date()
    plain = model.rsplit("/", 1)[-1]
    path = Path(f"{plain}.html" if out == _OWN_NAME else out)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("--html", out, "end the name with .html")
    write_text(path, report_html(_facts(model, provider, at)), "--html")
    render.show_note(f"wrote {path}")


def _facts(model: str, provider: str | None, at: date) -> dict[str, Any]:
    """Everything that the page says."""
    market = price_files.market()
    offers = price_book.published(model, at)
    prices = price_book.price_list(model, provider, at)
    own_page = _listing(prices.provider, model, at)
    page_facts = pages(prices.provider, own_page.prices.model, at)[0]
    return {
        "model": model,
        "day": str(at),
        "offers": offers,
        "decoded": decode(offers, market),
        "prior": decode([Offer(model=model, provider="nobody")], market),
        "provider": prices.provider,
        "page": {
            **page_facts,
            "changes": [change for change in page_facts["changes"] if change.model == own_page.prices.model],
        },
        "market": market,
        "version": __version__,
    }


def _listing(provider: str, model: str, at: date) -> Listing:
    """A provider's entry of a model, whatever prefix it has there."""
    plain = model.rsplit("/", 1)[-1].lower()
    for listing in price_book.listings(provider, at):
        if listing.prices.model.rsplit("/", 1)[-1].lower() == plain:
            return listing
    raise InputError("--provider", provider, f"has no entry named {plain}")
