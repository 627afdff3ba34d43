"""``prices trend``: what a token of equal capability cost over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rackmath.api.study_summaries import trend_summary
from rackmath.cli import render
from rackmath.cli.quantities import NUMBER
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture, write_figure
from rackmath.io import price_files
from rackmath.prices.trend import BLEND, Decline, ScoredOffer, decline, leading_scores


@click.command("trend", epilog="Example: rackmath prices trend --benchmark gpqa --score 50%")
@click.argument("source", metavar="[FILE.csv]", required=False)
@click.option("--benchmark", default="gpqa", show_default=True, help="Benchmark by whose scores models are compared.")
@click.option(
    "--score",
    type=NUMBER,
    help="Score that a model must reach, as in 0.5 or 50% (default: the scores of models that led when they appeared).",
)
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
    picture = check_picture(plot)
    tables = price_files.capability(Path(source) if source else None)
    if benchmark.lower() not in tables:
        raise InputError("--benchmark", benchmark, f"the table has {', '.join(sorted(tables))}")
    models = tables[benchmark.lower()]
    declines = [decline(models, level) for level in ([score] if score is not None else leading_scores(models))]
    if not declines:
        raise InputError("--benchmark", benchmark, "no score of the table was ever reached at a lower price")
    if picture is not None:
        write_figure(_figure(benchmark, models, declines), picture)
    if as_json:
        render.show_json({"benchmark": benchmark.lower(), "blend": BLEND, "scores": [_data(d) for d in declines]})
        return
    rows = [
        (
            f"{fall.score:.0%}",
            f"{fall.records[0].model}, {fall.records[0].year:.1f}",
            f"{fall.records[0].price:.3g}",
            f"{fall.records[-1].model}, {fall.records[-1].year:.1f}",
            f"{fall.records[-1].price:.3g}",
            f"{fall.factor:,.3g}",
            _rate(fall),
        )
        for fall in declines
    ]
    render.show_lines("in short", trend_summary(benchmark, declines))
    render.show_table(
        f"{benchmark}: cheapest price of a score, $ per million tokens",
        ("score", "first model, and when", ">$", "cheapest model, and when", ">$", ">cheaper by", ">a year (90 %)"),
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
        for fall in declines:
            render.show_lines(
                f"records of {fall.score:.0%}",
                [f"{r.year:.2f}  {r.price:.3g} $  {r.model}, {r.score:.1%}" for r in fall.records],
            )
    render.show_lines("assumed", _assumed(source))


def _rate(fall: Decline) -> str:
    if fall.per_year is None:
        return "less than a year"
    if fall.low is None or fall.high is None:
        return f"{fall.per_year:.2g}"
    return f"{fall.per_year:.2g} ({fall.low:.2g} to {fall.high:.2g})"


def _data(fall: Decline) -> dict[str, Any]:
    records = [{**asdict(record), "price": record.price} for record in fall.records]
    return {**asdict(fall), "factor": fall.factor, "records": records}


def _assumed(source: str | None) -> tuple[str, ...]:
    remarks = (
        "the price of a token, not of a task: models that reason write more tokens for one answer",
        "scores are those that vendors publish; test questions in the training data raise them",
    )
    if source:
        return remarks
    return (
        *remarks,
        "prices: the vendors' own pages on the day of release, and hosts of open-weight models in November 2026; hosts "
        "had these prices earlier than that, so prices fell faster if anything",
        "scores, days and prices with their sources: data/capability.csv of the package",
    )


def _figure(benchmark: str, models: Sequence[ScoredOffer], declines: Sequence[Decline]) -> Figure:
    """Every model as a point, and the cheapest price of each score as steps."""
    last = max(model.year for model in models)
    series = [
        Series(
            name="models",
            x=[model.year for model in models],
            y=[model.price for model in models],
            kind="points",
            labels=[f"{model.model}, {model.score:.0%}" for model in models],
        )
    ]
    for fall in declines:
        starts = [record.year for record in fall.records]
        series.append(
            Series(
                name=f"{fall.score:.0%} and better",
                x=[year for step in zip(starts, [*starts[1:], last], strict=True) for year in step],
                y=[record.price for record in fall.records for _ in range(2)],
            )
        )
    return Figure(
        title=f"the cheapest token by score in {benchmark.upper()}",
        panels=[Panel(across="year", up="$ per million tokens, 3 in to 1 out", series=series, log_up=True)],
        note="a step is the day on which a cheaper model reached the score",
    )
