"""``predict`` and ``calibrate``: measured rows against the engine, and the engine against them."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackmath.api.predict import PredictRequest, PredictResult, explain_row, run_prediction, table_of
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.errors import InputError
from rackmath.io import constants_file, tables
from rackmath.validation import measured_files

_SHOWN = 12


@click.command(
    "predict",
    epilog="Example: rackmath predict rows.csv --out predicted.csv   (columns as in the documentation of predict; "
    "leave value empty to predict only)",
)
@request_options(PredictRequest)
@click.option("--out", type=click.Path(path_type=Path), help="CSV to write: rows with predicted, low, high and reason.")
@click.option(
    "--explain",
    "row_id",
    metavar="ID",
    help="Id of a row to explain instead: cells, constants, time by terms.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def predict_rows(request: PredictRequest, out: Path | None, row_id: str | None, as_json: bool) -> None:
    """Predict every row of a table of measurements, with a 90 % range or a reason to decline.

    Writes the rows with predicted, low and high in each row's own unit, and reason; prints
    error and coverage by group for the rows that have a value.
    """
    if row_id is not None:
        _explain(request, row_id, as_json)
        return
    if out is None:
        raise InputError("--out", None, "name the file to write, or a row to --explain")
    if isinstance(request.rows, Path) and out.resolve() == request.rows.resolve():
        raise InputError("--out", str(out), "is the input; name another file")
    result = run_prediction(request, render.show_progress, os.cpu_count() or 1)
    result.write(out, "--out")
    if as_json:
        render.show_json(result.to_dict())
        return
    _show(out, result)


@click.command(
    "calibrate",
    epilog="Example: rackmath calibrate mine.csv --add run.json --set hardware=H200-SXM-141GB --set n_gpus=8 "
    "--set tp=8 --set weights=fp8 --out mine.toml",
)
@click.argument("rows", metavar="[ROWS.csv]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--add", "more_rows", multiple=True, type=click.Path(path_type=Path), help="More rows: CSV, or JSON of a benchmark."
)
@click.option(
    "--set", "columns", multiple=True, metavar="COLUMN=VALUE", help="What the JSON of a benchmark leaves out."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="TOML to write.")
@click.option("--from-scratch", is_flag=True, help="Fit everything anew, ranges from groups left out (minutes).")
@click.option(
    "--left-out", "left_out", type=click.Path(path_type=Path), help="CSV of rows predicted without their group."
)
def calibrate_rows(
    rows: Path | None,
    more_rows: tuple[Path, ...],
    columns: tuple[str, ...],
    out: Path,
    from_scratch: bool,
    left_out: Path | None,
) -> None:
    """Fit the constants of the engine on measured rows, and write them with their uncertainty.

    By default the shipped constants are moved as far as the rows can tell. JSON that
    `vllm bench serve`, SGLang's bench_serving and InferenceX write is read as well.
    """
    from rackmath.validation.calibrate import calibrate
    from rackmath.validation.calibration_text import constants_text, left_out_rows

    table = [
        row
        for path in ([rows] if rows else []) + list(more_rows)
        for row in measured_files.rows_of(path, columns, "ROWS.csv")
    ]
    if not table:
        raise InputError("ROWS.csv", None, "give a table of rows, or --add with the JSON of a benchmark")
    shipped_constants = None if from_scratch else constants_file.constants()
    spread = None if from_scratch else constants_file.deviations()
    calibration = calibrate(
        table, shipped_constants, spread, progress=lambda stage: click.echo(f"calibrate: {stage}", err=True)
    )
    command = (
        f"rackmath calibrate {rows.name if rows else ''} --out {out.name}{' --from-scratch' if from_scratch else ''}"
    )
    tables.write_text(out, constants_text(calibration, " ".join(command.split())), "--out")
    if left_out is not None:
        tables.write_csv(left_out, *left_out_rows(calibration), "--left-out")
    render.show_pairs(
        f"constants written to {out}",
        [
            ("rows used", f"{len(calibration.questions):,}"),
            ("not used", f"{len(calibration.excluded):,}"),
            ("constants", f"{len(calibration.fitted.priors)}"),
        ],
    )
    render.show_lines("first rows not used", [f"{name}: {reason}" for name, reason in calibration.excluded[:_SHOWN]])


def _explain(request: PredictRequest, row_id: str, as_json: bool) -> None:
    """Explain one row of a table."""
    explanation = explain_row(table_of(request), row_id, constants_file.constants(request.constants))
    if as_json:
        render.show_json({title: [list(pair) for pair in pairs] for title, pairs in explanation.parts})
        return
    for title, pairs in explanation.parts:
        render.show_pairs(title, list(pairs))


def _show(out: Path, result: PredictResult) -> None:
    total, groups, predictions = result.score, result.groups, result.predictions

    def percent(value: float | None) -> str:
        return "" if value is None else f"{value:.0%}"

    render.show_pairs(
        f"predictions written to {out}",
        [
            ("rows", f"{total.rows:,}"),
            ("predicted", f"{total.predicted:,}; the others have a reason"),
            ("error", f"median {percent(total.median_abs_error)}, p90 {percent(total.p90_abs_error)}"),
            ("inside the range", percent(total.coverage_90)),
        ],
    )
    lines = [
        (
            g.name,
            g.rows,
            g.predicted,
            percent(g.median_abs_error),
            percent(g.p90_abs_error),
            percent(g.bias),
            percent(g.coverage_90),
        )
        for g in groups
    ]
    render.show_table("by group", ["group", ">rows", ">predicted", ">median", ">p90", ">bias", ">inside"], lines)
    reasons: dict[str, int] = {}
    for p in predictions:
        if p.predicted is None:
            reasons[p.reason] = reasons.get(p.reason, 0) + 1
    common = sorted(reasons.items(), key=lambda item: -item[1])[:_SHOWN]
    render.show_lines("declined, most often because", [f"{n:,} rows: {reason}" for reason, n in common])
