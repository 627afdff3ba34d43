"""``train budget``: size and tokens of least cost over a model's life."""

from __future__ import annotations

import click

from rackmath.api.budget import BudgetRequest, run_budget
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.train.budget_text import equations, show_budget, show_known
from rackmath.figures.write import check_picture, write_figure
from rackmath.training.scaling_laws import law


@click.command("budget", epilog="Example: rackmath train budget --law besiroglu --loss 2.0 --inference-tokens 1e13")
@request_options(BudgetRequest)
@click.option("--plot", metavar="FILE", help="Draw cost against size at this loss: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def budget_command(request: BudgetRequest, plot: str | None, explain: bool, as_json: bool) -> None:
    """Parameters and tokens of least cost at a fixed loss, beside the lecture's equal costs; over-training.

    The loss is given, or that of a model of --params trained on --tokens. Costs are FLOPs at training's utilisation.
    """
    picture = check_picture(plot)
    result = run_budget(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    if request.published_models:
        show_known(request.law, result.facts)
        return
    scaling_law = law(request.law)
    show_budget(scaling_law, result.facts)
    if explain:
        render.show_lines("equations", equations(scaling_law, result.facts))
