"""``evidence``: published measurements near a question, and a user's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from rackmath.api.evidence import AddRequest, EvidenceRequest, counts, run_add, run_evidence
from rackmath.cli import render
from rackmath.cli.evidence_text import show_rows
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure

_CAUSES = 2
"""Constants that are named as causes of one measurement."""


@click.group(
    epilog="Example: rackmath evidence list --near --model deepseek-v3 --on h200-sxm --engine sglang --batch 64"
)
def evidence() -> None:
    """List the measurements behind the answers, and keep measurements of your own beside them."""


@evidence.command("list", epilog="Example: rackmath evidence list --model llama-3.1-70b --on h100-sxm --limit 5")
@request_options(EvidenceRequest)
@click.option("--plot", metavar="FILE", help="Draw measured over computed time by date: FILE.html, FILE.png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_evidence(request: EvidenceRequest, plot: str | None, as_json: bool) -> None:
    """List measurements by model, system, engine and source, or those that lie near a question.

    `ratio` is measured over computed time: above 1 the engine was slower than physics and the engine's constants say.
    With --near, `corr.` is the correlation of a row's ratio with that of the question, at most 1.
    """
    picture = check_picture(plot)
    result = run_evidence(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.to_dict())
        return
    frame = result.details
    show_rows(f"{len(frame):,} measurements", frame.head(request.limit).to_dicts())
    if not request.near:
        for name, rows in counts(frame).items():
            render.show_pairs(f"by {name}", [(text or "-", f"{count:,}") for text, count in rows])


@evidence.command(
    "add",
    epilog="Example: rackmath evidence add run.json --set hardware=h200-sxm --set n_gpus=8 --set tp=8",
)
@request_options(AddRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def add_evidence(request: AddRequest, as_json: bool) -> None:
    """Keep measurements of your own; answers near them are corrected by them from now on.

    Reads CSV in the columns of `rackmath predict`, and JSON that `vllm bench serve`, SGLang's bench_serving, InferenceX
    and guidellm write; with --prometheus the metrics of a running server, in Prometheus' text format. They are kept in
    one file in the platform's folder for data, or in the folder that RACKMATH_DATA names; delete it to forget them.
    What lies outside of what was expected is explained by the engine's constants that are most probably others.
    """
    result = run_add(request)
    facts: dict[str, Any] = result.to_dict()
    if as_json:
        render.show_json(facts)
        return
    render.show_pairs(
        f"kept in {facts['path']}",
        [
            ("added", str(facts["added"])),
            ("replaced", str(facts["replaced"])),
            ("kept in all", str(facts["kept"])),
            ("refused", str(len(facts["refused"]))),
        ],
    )
    render.show_table(
        "beside what is expected with them",
        ["metric", ">measured", ">expected", ">low", ">high", "inside"],
        [
            (
                _name(row),
                f"{row['measured']:.4g}",
                *(f"{row[k]:.4g}" if row.get(k) else "-" for k in ("predicted", "low", "high")),
                {True: "yes", False: "no"}.get(row["inside"], "-"),
            )
            for row in facts["rows"][:12]
        ],
    )
    render.show_lines("what would explain those outside", [line for row in facts["rows"][:12] for line in _causes(row)])
    render.show_lines("refused", [f"{row['row']}: {row['reason']}" for row in facts["refused"][:12]])


def _name(row: dict[str, Any]) -> str:
    """Metric and statistic of a measurement."""
    return f"{row['metric']} {row['statistic']}".strip()


def _causes(row: dict[str, Any]) -> Iterator[str]:
    """Most probable causes of one measurement, a line each."""
    for cause in row["explained_by"][:_CAUSES]:
        unit = "" if cause["unit"] == "1" else f" {cause['unit']}"
        alone = (
            "would not explain it alone"
            if cause["needed"] is None
            else f"{cause['needed']:.3g}{unit} in place of {cause['value']:.3g}{unit} would explain it alone"
        )
        yield f"{_name(row)}: {cause['term']} ({cause['meaning']}), {cause['part']:.0%} of it: {alone}"
