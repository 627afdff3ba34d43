"""``prices trend``: what a token of equal capability cost over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rackmath import price_files
from rackmath.cli import render
from rackmath.cli.figures import Figure, Panel, Series, check_picture, save
from rackmath.cli.quantities import NUMBER
from rackmath.errors import InputError
from rackmath.prices.trend import BLEND, Decline, Sold, decline

_LEVELS = {"mmlu": (0.42, 0.7, 0.8, 0.86), "gpqa": (0.35, 0.5, 0.6, 0.7, 0.8)}
"""Scores that are followed unless others are asked for: those of models that once led."""
_STEPS = 4
"""Scores of another benchmark: from its lowest to its highest."""


@click.command("trend", epilog="Example: rackmath prices trend --benchmark gpqa --score 50%")
@click.argument("source", metavar="[FILE.csv]", required=False)
@click.option("--benchmark", default="gpqa", show_default=True, help="Benchmark whose scores are compared.")
@click.option("--score", type=NUMBER, help="Score to reach, as in 0.5 or 50% (default: those of models that once led).")
@click.option("--plot", metavar="FILE", help="Draw prices of equal scores: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show every record and the equation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trend_prices(
    source: str | None, benchmark: str, score: float | None, plot: str | None, explain: bool, as_json: bool
) -> None:
    """Price of a token of equal capability over time: the cheapest model that reaches a score.

    FILE.csv has the columns model, benchmark, score, date, input and output (USD per million tokens); without it, the
    package's table of published scores and dated prices is read.
    """
    drawn = check_picture(plot)
    tables = price_files.capability(Path(source) if source else None)
    if benchmark.lower() not in tables:
        raise InputError("--benchmark", benchmark, f"the table has {', '.join(sorted(tables))}")
    sold = tables[benchmark.lower()]
    found = [decline(sold, level) for level in ([score] if score is not None else _levels(benchmark.lower(), sold))]
    if drawn is not None:
        save(_figure(benchmark, sold, found), drawn)
    if as_json:
        render.show_json(
            {
                "benchmark": benchmark.lower(),
                "blend": BLEND,
                "scores": [{"whole": one.whole, **_plain(one)} for one in found],
            }
        )
        return
    rows = [
        (
            f"{one.score:.0%}",
            f"{one.records[0].model}, {one.records[0].year:.1f}",
            f"{one.records[0].price:.3g}",
            f"{one.records[-1].model}, {one.records[-1].year:.1f}",
            f"{one.records[-1].price:.3g}",
            f"{one.whole:,.3g}",
            _rate(one),
        )
        for one in found
    ]
    render.show_table(
        f"{benchmark}: cheapest price of a score, $ per million tokens",
        ("score", "first, and when", ">$", "cheapest, and when", ">$", ">cheaper by", ">a year (90 %)"),
        rows,
    )
    if explain:
        render.show_lines(
            "equation",
            (
                f"price = ({BLEND:g} input + output) / {BLEND + 1:g}",
                "a record is cheaper than all before it that reach the score",
                "fall in a year = exp(-slope) of a line through ln price of the records; the range is Student's t",
            ),
        )
        for one in found:
            render.show_lines(
                f"records of {one.score:.0%}",
                [
                    f"{record.year:.2f}  {record.price:.3g} $  {record.model}, {record.score:.1%}"
                    for record in one.records
                ],
            )
    render.show_lines("assumed", _assumed(source))


def _levels(benchmark: str, sold: Sequence[Sold]) -> Sequence[float]:
    """The scores that models once led with; of another benchmark, some between its ends."""
    if benchmark in _LEVELS:
        return _LEVELS[benchmark]
    low, high = min(one.score for one in sold), max(one.score for one in sold)
    return sorted({round(low + (high - low) * step / _STEPS, 3) for step in range(_STEPS)})


def _rate(one: Decline) -> str:
    if one.per_year is None:
        return "too short a time"
    if one.low is None or one.high is None:
        return f"{one.per_year:.2g}"
    return f"{one.per_year:.2g} ({one.low:.2g} to {one.high:.2g})"


def _plain(one: Decline) -> dict[str, object]:
    return {
        "score": one.score,
        "per_year": one.per_year,
        "low": one.low,
        "high": one.high,
        "records": [
            {"model": r.model, "score": r.score, "year": r.year, "input": r.input, "output": r.output, "price": r.price}
            for r in one.records
        ],
    }


def _assumed(source: str | None) -> tuple[str, ...]:
    kept = (
        "a token, not a task: a model that reasons writes many more of them for one answer",
        "scores are those that vendors publish; questions that leaked into training raise them",
    )
    if source:
        return kept
    return (
        *kept,
        "prices: the vendors' own pages on the day of release, and hosts of open weights in November 2026; hosts asked "
        "theirs earlier than that, so the fall is rather faster",
        "scores, days and prices with their sources: data/capability.csv of the package",
    )


def _figure(benchmark: str, sold: Sequence[Sold], found: Sequence[Decline]) -> Figure:
    """Every sold model as a point, and the cheapest price of each score as steps."""
    last = max(one.year for one in sold)
    series = [
        Series(
            name="models",
            x=[one.year for one in sold],
            y=[one.price for one in sold],
            kind="points",
            labels=[f"{one.model}, {one.score:.0%}" for one in sold],
        )
    ]
    for one in found:
        across: list[float] = []
        up: list[float] = []
        for place, record in enumerate(one.records):
            until = one.records[place + 1].year if place + 1 < len(one.records) else last
            across += [record.year, until]
            up += [record.price, record.price]
        series.append(Series(name=f"{one.score:.0%} and better", x=across, y=up))
    return Figure(
        title=f"the cheapest token by score in {benchmark.upper()}",
        panels=[Panel(across="year", up="$ per million tokens, 3 in to 1 out", series=series, log_up=True)],
        note="a step is the day on which a cheaper model reached the score",
    )
