"""``prices decode``: the model behind list prices."""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np

from rackmath.api.decode import PriceRequest, run_decoding
from rackmath.api.study_summaries import decode_summary
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.errors import InputError
from rackmath.figures.write import check_picture, write_figure
from rackmath.prices.decode import DecodedPrice, Interval, Offer
from rackmath.prices.market import FLOOR, RIDGE, Market
from rackmath.units import count

_LEAST_DRAWS = 1e4
_WORST_TAIL = 0.7


@click.command("decode", epilog="Example: rackmath prices decode --input 0.6 --output 2.5 --date 2026-11-21")
@request_options(PriceRequest)
@click.option("--plot", metavar="FILE", help="Draw ranges before and after: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def decode_prices(request: PriceRequest, plot: str | None, explain: bool, as_json: bool) -> None:
    """Active and total parameters and margin behind list prices.

    MODEL is a name that genai-prices knows; all its hosts are read. FILE.csv has the columns model, provider, input,
    output, and may have cached_input; several hosts per model. Without either, give the prices as options.
    """
    picture = check_picture(plot)
    result = run_decoding(request)
    if picture is not None:
        if len(result.models) > 1:
            raise InputError("--plot", plot, f"draws one model, and the file has {len(result.models)}")
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.to_dict())
        return
    for model, offers in zip(result.models, result.offers, strict=True):
        _show(model, offers)
        if explain:
            render.show_lines("equations", _equations(result.market, model))
    render.show_lines("assumed", result.assumptions)


def _equations(market: Market, reading: DecodedPrice) -> tuple[str, ...]:
    """Equations of the answer, the numbers at the posterior's medians put in, the result."""
    active, total = reading.active_params.median / 1e9, reading.total_params.median / 1e9
    level, chunk = reading.product.median * FLOOR, float(np.exp(market.chunk))
    # Medians of a posterior need not satisfy its equations exactly; the line shows sizes, not digits.
    price = level * active * (1 + total / active * RIDGE / chunk)
    hosts = market.hosts
    return (
        "input price = C N (1 + r 295 / K)   N active parameters in billions, r total over active parameters",
        "295   tokens for which reading an 8-bit weight takes as long as using it, on an H100",
        f"K     tokens of a prompt that share a read of the weights: {chunk:,.0f}",
        f"C     floor x product = {FLOOR:.3g} $ x {reading.product.median:.3g} = {level:.3g} $",
        "floor 2e15 FLOP (a million tokens, a billion parameters) / 1,979 TFLOP/s x 2.35 $ per hour",
        f"prior of C: {np.exp(market.level):.3g} $ x N^-{market.economy:.2f}, spread {market.level_scale:.2f} in ln",
        f"medians put in: N = {active:.3g}, r = {total / active:.3g}: {price:.3g} $",
        f"hosts: the effects of {len(hosts.known)} are known; spread of other hosts {hosts.scale:.2f}, of single "
        f"prices {hosts.offer_scale:.2f} in ln",
        "posterior = prior(N, r, C) x density of a typical host's input price, by adaptive importance sampling",
    )


def _show(reading: DecodedPrice, offers: Sequence[Offer]) -> None:
    render.show_lines("in short", decode_summary(reading))
    rows = [
        (label, *(_shown(value, scale) for value in (span.median, span.low50, span.high50, span.low90, span.high90)))
        for label, span, scale in _quantities(reading)
    ]
    title = f"{reading.model}: offers {len(offers)}, with different prices {reading.hosts}"
    note = f"dense with probability {reading.dense:.2f}; {reading.effective_draws:,.0f} effective draws, "
    note += f"k {reading.pareto_k:.2f}"
    if reading.effective_draws < _LEAST_DRAWS or reading.pareto_k > _WORST_TAIL:
        note += "; the draws are too few or too uneven to be trusted: the prices are far from any known model"
    render.show_table(title, ("", "median", "50 % from", "to", "90 % from", "to"), rows, note)
    render.show_lines("cannot tell", reading.cannot_tell)


def _quantities(reading: DecodedPrice) -> tuple[tuple[str, Interval, float], ...]:
    return (
        ("active parameters, B", reading.active_params, 1e9),
        ("total parameters, B", reading.total_params, 1e9),
        ("KV bytes per token, 16 bit", reading.kv_bytes_per_token, 1.0),
        ("price over ideal cost", reading.product, 1.0),
        ("margin: price over cost", reading.margin, 1.0),
    )


def _shown(value: float, scale: float) -> str:
    return count(round(value / scale)) if value / scale >= 1000 else f"{value / scale:.3g}"
