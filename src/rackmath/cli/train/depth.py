"""``train depth``: activation memory against depth, stored, recomputed and reversible."""

from __future__ import annotations

import click

from rackmath.api.depth import DepthRequest, run_depth
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.models.architecture import Architecture
from rackmath.training.depth import WAYS, Depth
from rackmath.units import show


@click.command("depth", epilog="Example: rackmath train depth llama-3.1-70b --tokens 8192 --layers 80,160,320")
@request_options(DepthRequest)
@click.option("--plot", metavar="FILE", help="Draw memory against depth: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def depth_command(request: DepthRequest, plot: str | None, as_json: bool) -> None:
    """Activation memory of layers like a model's, by depth: standard, per block, square root, reversible.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    picture = check_picture(plot)
    result = run_depth(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show(*result.details)


def _show(
    architecture: Architecture, tokens: float, depths_by_layers: dict[int, list[Depth]], pays: dict[str, int]
) -> None:
    render.show_table(
        f"activations of {tokens:,.0f} tokens through layers like those of {architecture.name}, at 16 bit",
        ["way", ">more computation", *(f">{count} layers" for count in depths_by_layers)],
        [
            (
                way,
                f"{next(iter(depths_by_layers.values()))[place].overhead:.0%}",
                *(show(ways[place].memory * tokens, "B") for ways in depths_by_layers.values()),
            )
            for place, way in enumerate(WAYS)
        ],
    )
    render.show_lines(
        "where each pays",
        (
            "standard: while it fits, since nothing is computed twice",
            "per block: the honest rival of reversible layers; its input of each layer is all that grows",
            f"sqrt: below per block from {pays['sqrt']} layers on",
            f"reversible: below per block from {pays['reversible']} layers on, with the same computation;"
            " 16-bit streams lose the inverse",
        ),
    )
