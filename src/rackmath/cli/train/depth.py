"""``train depth``: activation memory against depth, stored, recomputed and reversible."""

from __future__ import annotations

import click

from rackmath import catalogue
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture
from rackmath.models.architecture import Architecture
from rackmath.training.depth import WAYS, Depth, below_from, depths
from rackmath.units import show

_DEEPEST = 10_000


@click.command("depth", epilog="Example: rackmath train depth llama-3.1-70b --tokens 8192 --layers 80,160,320")
@click.argument("model")
@click.option("--tokens", type=NUMBER, default=8192.0, show_default=True, help="Tokens of a micro-batch on a rank.")
@click.option("--layers", "asked", help="Depths, as in 32,64,128 (default: the model's, half and twice it).")
@click.option("--plot", metavar="FILE", help="Draw memory against depth: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def depth_command(model: str, tokens: float, asked: str | None, plot: str | None, as_json: bool) -> None:
    """Activation memory of layers like a model's, by depth: standard, per block, square root, reversible.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(plot)
    architecture = catalogue.model(model)
    if not 1 <= tokens <= 1e12:
        raise InputError("--tokens", tokens, "write a number from 1 to 1e12")
    own = len(architecture.layers)
    layers = _numbers(asked) if asked else sorted({max(own // 2, 1), own, 2 * own, 4 * own})
    found = {count: depths(architecture, count) for count in layers}
    pays = {way: below_from(architecture, way) for way in ("sqrt", "reversible")}
    facts = {
        "model": architecture.name,
        "tokens": tokens,
        "below_per_block_from": pays,
        "depths": [
            {"layers": count, "way": one.way, "bytes": one.memory * tokens, "overhead": one.overhead}
            for count, ways in found.items()
            for one in ways
        ],
    }
    if drawn is not None:
        save(_figure(architecture, tokens, max(layers)), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show(architecture, tokens, found, pays)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError("--layers", text, "write whole numbers with commas between") from error
    if not all(1 <= one <= _DEEPEST for one in found):
        raise InputError("--layers", text, f"write numbers from 1 to {_DEEPEST:,}")
    return sorted(set(found))


def _show(architecture: Architecture, tokens: float, found: dict[int, list[Depth]], pays: dict[str, int]) -> None:
    render.show_table(
        f"activations of {tokens:,.0f} tokens through layers like those of {architecture.name}, at 16 bit",
        ["way", ">more computation", *(f">{count} layers" for count in found)],
        [
            (
                way,
                f"{next(iter(found.values()))[place].overhead:.0%}",
                *(show(ways[place].memory * tokens, "B") for ways in found.values()),
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


def _figure(architecture: Architecture, tokens: float, deepest: int) -> Figure:
    across = sorted({max(round(deepest * i / 40), 1) for i in range(1, 41)})
    curves = [depths(architecture, count) for count in across]
    return Figure(
        title=f"activation memory of {tokens:,.0f} tokens against depth, layers of {architecture.name}",
        panels=[
            Panel(
                across="layers",
                up="GB",
                series=[
                    Series(
                        name=f"{way}, {curves[0][place].overhead:.0%} more computation",
                        x=across,
                        y=[ways[place].memory * tokens / 1e9 for ways in curves],
                    )
                    for place, way in enumerate(WAYS)
                ],
                log_up=True,
            )
        ],
        note="fused attention, 16 bit, one rank",
    )
