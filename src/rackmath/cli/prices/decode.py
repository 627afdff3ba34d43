"""``prices decode``: the model behind list prices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import click
import numpy as np

from rackmath import price_book, price_files, units
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.prices.decode_figure import sizes_figure
from rackmath.cli.quantities import NUMBER, SPEED
from rackmath.errors import InputError
from rackmath.figures.write import check_picture
from rackmath.prices.decode import Decoded, Interval, Offer, decode
from rackmath.prices.market import FLOOR, RIDGE, Market
from rackmath.units import parse

_LEAST_DRAWS = 1e4
_WORST_TAIL = 0.7


@click.command("decode", epilog="Example: rackmath prices decode --input 0.6 --output 2.5 --date 2026-11-21")
@click.argument("source", metavar="[MODEL|FILE.csv]", required=False)
@click.option("--input", "input_price", type=NUMBER, help="Price of a million input tokens, in USD.")
@click.option("--cached", type=NUMBER, help="Price of a million cached input tokens, in USD.")
@click.option("--output", "output_price", type=NUMBER, help="Price of a million output tokens, in USD.")
@click.option("--speed", type=SPEED, help="Tokens per second that a reader sees.")
@click.option("--stream", help="Active 8-bit weights per second of known models on the same host, as in 4.2TB/s.")
@click.option("--cliff", type=NUMBER, help="Context at which the price steps up, in tokens.")
@click.option("--date", "day", help="When the prices held, as in 2026-11-21 (default: now; a table's own column date).")
@click.option("--plot", metavar="FILE", help="Draw ranges before and after: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def decode_prices(
    source: str | None,
    input_price: float | None,
    cached: float | None,
    output_price: float | None,
    speed: float | None,
    stream: str | None,
    cliff: float | None,
    day: str | None,
    plot: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Active and total parameters and margin behind list prices.

    MODEL is a name that genai-prices knows; all its hosts are read. FILE.csv has the columns model, provider, input,
    output, and may have cached_input; several hosts per model. Without either, give the prices as options.
    """
    drawn = check_picture(plot)
    at = units.day(day, "--date") if day else None
    market = price_files.market()
    given = (input_price, cached, output_price)
    offers = _offers(source, given, speed, at)
    flow = parse(stream, "B/s", "--stream") if stream else None
    found = [decode(asked, market, speed=speed, stream=flow, cliff=cliff) for asked in offers]
    if drawn is not None:
        if len(found) > 1:
            raise InputError("--plot", plot, f"draws one model, and the file has {len(found)}")
        prior = decode([Offer(model=found[0].model, provider="nobody")], market)
        save(sizes_figure(found[0].model, found[0], prior), drawn)
    if as_json:
        render.show_json(found)
        return
    for one, asked in zip(found, offers, strict=True):
        _show(one, asked)
        if explain:
            render.show_lines("equations", _equations(market, one))
    render.show_lines(
        "assumed",
        (
            f"prior and market: {market.basis}, prices of {market.year:.1f}; priced as open-weight models are",
            "8-bit weights on H100-like accelerators; another machine's rate moves margin, not parameters",
            "accuracy on architectures left out: docs/accuracy-of-prices.md",
        ),
    )


def _equations(market: Market, one: Decoded) -> tuple[str, ...]:
    """Equations of the answer, the numbers at the posterior's medians put in, the result."""
    active, total = one.active_params.median / 1e9, one.total_params.median / 1e9
    level, chunk = one.product.median * FLOOR, float(np.exp(market.chunk))
    # Medians of a posterior need not satisfy its equations exactly; the line shows sizes, not digits.
    price = level * active * (1 + total / active * RIDGE / chunk)
    hosts = market.hosts
    return (
        "input price = C N (1 + r 295 / K)   N active parameters in billions, r total over active parameters",
        "295   tokens for which reading an 8-bit weight takes as long as using it, on an H100",
        f"K     tokens of a prompt that share a read of the weights: {chunk:,.0f}",
        f"C     floor x product = {FLOOR:.3g} $ x {one.product.median:.3g} = {level:.3g} $",
        "floor 2e15 FLOP (a million tokens, a billion parameters) / 1,979 TFLOP/s x 2.35 $ per hour",
        f"prior of C: {np.exp(market.level):.3g} $ x N^-{market.economy:.2f}, spread {market.level_scale:.2f} in ln",
        f"medians put in: N = {active:.3g}, r = {total / active:.3g}: {price:.3g} $",
        f"hosts: the effects of {len(hosts.known)} are known; spread of other hosts {hosts.scale:.2f}, of single "
        f"prices {hosts.offer_scale:.2f} in ln",
        "posterior = prior(N, r, C) x density of a typical host's input price, by adaptive importance sampling",
    )


def _offers(
    source: str | None, given: tuple[float | None, float | None, float | None], speed: float | None, at: date | None
) -> list[list[Offer]]:
    """Offers per model, from the one place that the user named."""
    priced = any(value is not None for value in given)
    if source is not None and priced:
        raise InputError("--input", given, "give prices or MODEL|FILE.csv, not both")
    if source is not None and source.lower().endswith(".csv"):
        if at is not None:
            raise InputError("--date", str(at), "a table says it in its column date")
        found = list(price_files.offers_of(Path(source)).values())
        if speed is not None and len(found) > 1:
            raise InputError("--speed", speed, f"is of one model, and the file has {len(found)}")
        return found
    if source is not None:
        return [price_book.published(source, at)]
    if not priced and speed is None:
        raise InputError("MODEL", "", "name a model, a table, or give --input, --output or --speed")
    year = units.decimal_year(at) if at else None
    return [[Offer(model="given", provider="given", input=given[0], cached=given[1], output=given[2], year=year)]]


def _show(one: Decoded, offers: Sequence[Offer]) -> None:
    rows = [
        (label, *(_shown(value, scale) for value in (span.median, span.low50, span.high50, span.low90, span.high90)))
        for label, span, scale in _quantities(one)
    ]
    title = f"{one.model}: offers {len(offers)}, with different prices {one.hosts}"
    note = f"dense with probability {one.dense:.2f}; {one.effective_draws:,.0f} effective draws, k {one.pareto_k:.2f}"
    if one.effective_draws < _LEAST_DRAWS or one.pareto_k > _WORST_TAIL:
        note += "; the draws are too few or too uneven to be trusted: the prices are far from any known model"
    render.show_table(title, ("", "median", "50 % from", "to", "90 % from", "to"), rows, note)
    render.show_lines("cannot tell", one.cannot_tell)


def _quantities(one: Decoded) -> tuple[tuple[str, Interval, float], ...]:
    return (
        ("active parameters, B", one.active_params, 1e9),
        ("total parameters, B", one.total_params, 1e9),
        ("KV bytes per token, 16 bit", one.kv_bytes_per_token, 1.0),
        ("price over ideal cost", one.product, 1.0),
        ("margin: price over cost", one.margin, 1.0),
    )


def _shown(value: float, scale: float) -> str:
    return render.count(round(value / scale)) if value / scale >= 1000 else f"{value / scale:.3g}"
