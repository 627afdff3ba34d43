"""The model behind list prices: sizes and margin with their ranges, and what prices cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from rackmath import units
from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields
from rackmath.api.plain import to_plain
from rackmath.api.shown import Shown
from rackmath.errors import InputError
from rackmath.figures import Figure
from rackmath.figures.plotly import plotly_figure
from rackmath.figures.sizes import sizes_figure
from rackmath.io import price_book, price_files
from rackmath.prices.decode import DecodedPrice, Interval, Offer, decode
from rackmath.prices.market import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """List prices of one model, or of the models of a table."""

    source: Annotated[
        str | None,
        Option(
            help="Name that genai-prices knows, or a table of offers.",
            kind=kinds.SUBJECT,
            metavar="[MODEL|FILE.csv]",
            argument=True,
        ),
    ] = None
    input: Annotated[float | None, Option(help="Price of a million input tokens, in USD.", kind=kinds.NUMBER)] = None
    cached_input: Annotated[
        float | None,
        Option(
            help="Price of a million cached input tokens, in USD.",
            kind=kinds.NUMBER,
            names=("--cached-input", "--cached"),
        ),
    ] = None
    output: Annotated[float | None, Option(help="Price of a million output tokens, in USD.", kind=kinds.NUMBER)] = None
    speed: Annotated[float | None, Option(help="Tokens per second that a reader sees.", kind=kinds.SPEED)] = None
    stream: Annotated[
        float | None,
        Option(
            help="Active 8-bit weights per second of known models on the same host, as in 4.2TB/s.",
            kind=kinds.BYTES_PER_SECOND,
        ),
    ] = None
    cliff: Annotated[
        float | None, Option(help="Context at which the price steps up, in tokens.", kind=kinds.NUMBER)
    ] = None
    date: Annotated[
        str | None,
        Option(help="When the prices held, as in 2026-11-21 (default: now; a table's own column date)."),
    ] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PriceResult(Shown):
    """What prices say of the models behind them."""

    request: PriceRequest
    models: tuple[DecodedPrice, ...]
    """One for each model, in the order of the table."""
    offers: tuple[tuple[Offer, ...], ...]
    """What each was decoded from."""
    market: Market
    """How models of known size are priced."""

    @property
    def only(self) -> DecodedPrice:
        """The one model that was asked for.

        Errors: :class:`InputError` where a table holds several: take one of :attr:`models`.
        """
        if len(self.models) != 1:
            raise InputError("models", len(self.models), "the table holds several: take one of `models`")
        return self.models[0]

    @property
    def active_params(self) -> Interval:
        """Active parameters of the only model. [parameters]"""
        return self.only.active_params

    @property
    def total_params(self) -> Interval:
        """Total parameters of the only model. [parameters]"""
        return self.only.total_params

    @property
    def margin(self) -> Interval:
        """Price over cost of the only model, under priors of utilisation and rent. [1]"""
        return self.only.margin

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a reader has to know of the numbers."""
        market = self.market
        return (
            f"prior and market: {market.basis}, prices of {market.year:.1f}; priced as open-weight models are",
            "8-bit weights on H100-like accelerators; another machine's rate moves margin, not parameters",
            "accuracy on architectures left out: docs/accuracy-of-prices.md",
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """What ``rackmath prices decode --json`` prints."""
        return to_plain(self.models)

    def picture(self) -> Figure:
        """Ranges of the only model's sizes before and after its prices are read, as data."""
        prior = decode([Offer(model=self.only.model, provider="nobody")], self.market)
        return sizes_figure(self.only.model, self.only, prior)

    def figure(self) -> Any:
        """Ranges before and after the prices are read, as a figure of Plotly."""
        return plotly_figure(self.picture())

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        sizes = ("active_params", "total_params", "margin")
        ends = ("low90", "median", "high90")
        return [
            (model.model, {f"{name} {end}": getattr(getattr(model, name), end) for name in sizes for end in ends})
            for model in self.models
        ]


def decode_prices(source: str | Path | None = None, **prices: Any) -> PriceResult:
    """Active and total parameters and margin behind list prices, as ``rackmath prices decode`` says them.

    Parameters
    ----------
    source
        A model that genai-prices knows, or the path of a table with the columns model, provider, input, output.
    **prices
        Fields of :class:`PriceRequest`: ``input``, ``cached_input``, ``output`` in USD per million tokens, ``speed``,
        ``date``.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    return run_decoding(PriceRequest(source=None if source is None else str(source), **prices))


def run_decoding(request: PriceRequest) -> PriceResult:
    """Answer a request.

    Errors: as of :func:`decode_prices`.
    """
    r = request
    at = units.day(r.date, "--date") if r.date else None
    market = price_files.market()
    offers = _offers(r.source, (r.input, r.cached_input, r.output), r.speed, at)
    models = tuple(decode(offer, market, speed=r.speed, stream=r.stream, cliff=r.cliff) for offer in offers)
    return PriceResult(request=r, models=models, offers=tuple(tuple(offer) for offer in offers), market=market)


def _offers(
    source: str | None, values: tuple[float | None, float | None, float | None], speed: float | None, at: date | None
) -> list[list[Offer]]:
    """Offers per model, from the one place that the user named."""
    has_price = any(value is not None for value in values)
    if source is not None and has_price:
        raise InputError("--input", values, "give prices or MODEL|FILE.csv, not both")
    if source is not None and source.lower().endswith(".csv"):
        if at is not None:
            raise InputError("--date", str(at), "a table says it in its column date")
        offers = list(price_files.offers_of(Path(source)).values())
        if speed is not None and len(offers) > 1:
            raise InputError("--speed", speed, f"is of one model, and the file has {len(offers)}")
        return offers
    if source is not None:
        return [price_book.published(source, at)]
    if not has_price and speed is None:
        raise InputError("MODEL", "", "name a model, a table, or give --input, --output or --speed")
    year = units.decimal_year(at) if at else None
    prices = dict(zip(("input", "cached_input", "output"), values, strict=True))
    return [[Offer(model="the model", provider="the offer", year=year, **prices)]]
