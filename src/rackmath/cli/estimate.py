"""``estimate``: one pass of a model on a system."""

from __future__ import annotations

import click

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.estimate_result import PICTURES
from rackmath.cli import render
from rackmath.cli.estimate_text import explain_estimate, show_estimate
from rackmath.cli.evidence_text import show_rows
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure

_LISTED = 20


@click.command(epilog="Example: rackmath estimate deepseek-v3 --on gb200-nvl72 --batch 2048 --context 8192")
@request_options(EstimateRequest)
@click.option("--explain", is_flag=True, help="Show equations, numbers and the operators behind the result.")
@click.option("--evidence", "show_evidence", is_flag=True, help="List the measurements near the answer.")
@click.option("--plot", metavar="FILE", help="Draw a picture: FILE.html, FILE.png or FILE.svg.")
@click.option("--picture", type=click.Choice(PICTURES), help="Sketch it here; with --plot what to draw [roofline].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def estimate(
    request: EstimateRequest, explain: bool, show_evidence: bool, plot: str | None, picture: str | None, as_json: bool
) -> None:
    """Estimate one decode or prefill pass: time with its range, what binds, memory, cost.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    plot_file = check_picture(plot)
    result = run_estimate(request)
    if plot_file is not None:
        write_figure(result.picture(picture or PICTURES[0]), plot_file)
    if as_json:
        render.show_json(result.to_dict())
        return
    show_estimate(result)
    if picture is not None and plot_file is None:
        render.show_sketch(result.picture(picture))
    if show_evidence and result.near is not None:
        show_rows("measurements nearest to it", result.near.rows.head(_LISTED).to_dicts())
    if explain:
        explain_estimate(result)
