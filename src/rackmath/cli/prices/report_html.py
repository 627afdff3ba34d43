"""The page of ``prices report``: tables and pictures in one file of HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rackmath.cli.page import page
from rackmath.cli.prices.page_text import hypothesis_rows
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.price_page import page_figure
from rackmath.figures.sizes import sizes_figure
from rackmath.figures.still import svg_text
from rackmath.io.catalogue import sources
from rackmath.prices.decode import DecodedPrice, Interval, Offer


def report_html(facts: Mapping[str, Any]) -> str:
    """Whole page."""
    reading: DecodedPrice = facts["decoded"]
    prior: DecodedPrice = facts["prior"]
    model, day = escape(facts["model"]), facts["day"]
    body = [
        f"<h1>What the prices of {model} say</h1>",
        f'<p class="small">Prices of {day}; rackmath {escape(facts["version"])}. Intervals hold for models that are '
        "priced as open-weight models are; how well they held on models left out stands in "
        "docs/accuracy-of-prices.md of the project.</p>",
        _summary(reading),
        "<h2>What hosts ask</h2>",
        _offers(facts["offers"]),
        _figure(_asked_figure(facts["model"], facts["offers"])),
        "<h2>What that implies</h2>",
        _implied(reading, prior),
        _figure(sizes_figure(facts["model"], reading, prior)),
        f"<h2>The ratios on the page of {escape(facts['provider'])}</h2>",
        "<p>Each ratio against physical hypotheses, which foretell it from models as the market has them, and against "
        "convention: what other providers print for other models. log10 BF is the decimal logarithm of the Bayes "
        "factor against convention; 0 is even, -2 is a hundred to one against. They are evidence, no verdicts.</p>",
        _ratios(facts["page"]),
        _figure(page_figure(facts["page"])),
        _changes(facts["page"]["changes"]),
        "<h2>What this cannot tell</h2>",
        _list(
            [
                *reading.cannot_tell,
                "a closed model's vendor may price unlike hosts of open-weight models; nothing here checks that",
                "ratios of one provider are not independent: their factors must not be multiplied",
            ]
        ),
        "<h2>Sources</h2>",
        _list(
            [
                "prices: genai-prices, a public dated record of list prices",
                f"market: {facts['market'].basis}, fitted by tools/prices.py; prices of {facts['market'].year:.1f}",
                *(_source(change.source) for change in facts["page"]["changes"] if change.source in sources()),
                "equations: docs/commands/prices.md of the project",
            ]
        ),
    ]
    return page(f"Prices of {facts['model']}", body)


def _summary(reading: DecodedPrice) -> str:
    active, total = reading.active_params, reading.total_params
    return (
        f"<p>Between {active.low90 / 1e9:.3g} and {active.high90 / 1e9:.3g} billion parameters are used per token "
        f"(nine chances in ten; even chances from {active.low50 / 1e9:.3g} to {active.high50 / 1e9:.3g}), of "
        f"{total.low90 / 1e9:,.0f} to {total.high90 / 1e9:,.0f} billion in all. The price is "
        f"{reading.product.low90:.2g} to {reading.product.high90:.2g} times the cost of an ideal H100; how that splits "
        "into idle time, margin and rent, prices do not say. The size of the KV cache is not identified by prices.</p>"
    )


def _offers(offers: Sequence[Offer]) -> str:
    rows = [
        (offer.provider, _price(offer.input), _price(offer.cached_input), _price(offer.output))
        for offer in sorted(offers, key=lambda offer: (offer.input or 0.0, offer.output or 0.0))
    ]
    return _table(("host", ">input", ">cached", ">output"), rows, "USD per million tokens")


def _price(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _implied(reading: DecodedPrice, prior: DecodedPrice) -> str:
    estimates = [
        (name, getattr(reading, field), getattr(prior, field), scale)
        for name, field, scale in (
            ("active parameters, billions", "active_params", 1e9),
            ("total parameters, billions", "total_params", 1e9),
            ("KV bytes per token at 16 bit", "kv_bytes_per_token", 1.0),
            ("price over ideal cost: margin x rent / utilisation", "product", 1.0),
            ("margin: price over cost, by stated priors of the split", "margin", 1.0),
        )
    ]
    rows = [(name, _span(now, size), _middle(now, size), _span(before, size)) for name, now, before, size in estimates]
    note = (
        f"dense with probability {reading.dense:.2f}; {reading.effective_draws:,.0f} effective draws, Pareto k "
        f"{reading.pareto_k:.2f}"
    )
    return _table(("", ">median (90 %)", ">50 %", ">before any price (90 %)"), rows, note)


def _span(span: Interval, scale: float) -> str:
    return f"{_number(span.median / scale)} ({_number(span.low90 / scale)} to {_number(span.high90 / scale)})"


def _middle(span: Interval, scale: float) -> str:
    return f"{_number(span.low50 / scale)} to {_number(span.high50 / scale)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _ratios(facts: Mapping[str, Any]) -> str:
    rows = [
        (name, value, hypothesis, foretold, factor, meaning)
        for reading in facts["readings"]
        for name, value, _, hypothesis, foretold, factor, meaning in hypothesis_rows(reading)
    ]
    return _table(("ratio", ">published", "hypothesis", ">foretold (90 %)", ">log10 BF", "would imply"), rows)


def _changes(changes: Sequence[Any]) -> str:
    if not changes:
        return '<p class="small">No change of these prices is dated.</p>'
    rows = [(change.day, change.what, change.before, change.after) for change in changes]
    return "<h2>What changed</h2>" + _table(("day", "what", ">from", ">to"), rows)


def _source(key: str) -> str:
    entry = sources()[key]
    return f"{entry.title}, {entry.publisher}" + (f", {entry.url}" if entry.url else "")


def _asked_figure(model: str, offers: Sequence[Offer]) -> Figure:
    hosts: dict[tuple[float, float], list[str]] = {}
    for offer in offers:
        if offer.input is not None and offer.output is not None:
            hosts.setdefault((offer.input, offer.output), []).append(offer.provider)
    labels = [f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0] for names in hosts.values()]
    points = Series(
        name="hosts with one price",
        x=[into for into, _ in hosts],
        y=[out for _, out in hosts],
        kind="points",
        labels=labels,
    )
    across, up = "input, $ per million tokens", "output, $ per million tokens"
    return Figure(
        title=f"what hosts ask for {model}", panels=[Panel(across=across, up=up, series=[points], show_labels=True)]
    )


def _figure(figure: Figure) -> str:
    return f"<figure>{svg_text(figure)}</figure>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    right = [name.startswith(">") for name in columns]
    head = "".join(_cell("th", name.removeprefix(">"), side) for name, side in zip(columns, right, strict=True))
    lines = [
        "<tr>" + "".join(_cell("td", cell, side) for cell, side in zip(row, right, strict=True)) + "</tr>"
        for row in rows
    ]
    caption = f'<p class="small">{escape(note)}</p>' if note else ""
    return f"<table><tr>{head}</tr>\n" + "\n".join(lines) + f"</table>{caption}"


def _cell(tag: str, text: str, right: bool) -> str:
    kind = ' class="n"' if right else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in dict.fromkeys(lines)) + "</ul>"
