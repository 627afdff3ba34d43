"""``explore``: how an answer follows the numbers behind it."""

from __future__ import annotations

import shlex
from typing import Any

import click

from rackmath.api.explore import explore as explored
from rackmath.cli import render
from rackmath.cli.options import request_of_words
from rackmath.cli.quantities import WholeNumber
from rackmath.errors import InputError
from rackmath.figures.write import check_picture, write_figure

_COMMANDS = ("estimate", "plan", "train", "memory")


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: rackmath explore estimate llama-3.1-70b --on h200-sxm --gpus 4 --batch 64 --context 8k --limit 9",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option("--over", metavar="KEY=A..B", help="Follow one number over a range, as bandwidth=1x..4x.")
@click.option("--limit", type=WholeNumber(0), default=15, show_default=True, help="Numbers to show; 0 shows all.")
@click.option("--plot", metavar="FILE", help="Draw it: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explore(command: tuple[str, ...], over: str | None, limit: int, plot: str | None, as_json: bool) -> None:
    """Say which numbers of the hardware and of the model an answer depends on, and how strongly.

    COMMAND is a command of estimate, plan, train or memory, in quotation marks or as it is. Each number of its system
    is moved by a tenth, each of its model doubled; the elasticity is the relative change of the outcome over that of
    the number.
    """
    picture = check_picture(plot)
    result = explored(_request(command), over, render.show_progress)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
    elif over is not None:
        _show_curve(result.facts)
    else:
        _show_elasticities(result.facts, limit)


def _request(command: tuple[str, ...]) -> Any:
    text = " ".join(command)
    try:
        words = shlex.split(text) if len(command) == 1 else list(command)
    except ValueError as error:
        raise InputError("COMMAND", text, f"{error}: quote it as in a shell") from error
    words = words[1:] if words[:1] == ["rackmath"] else words
    if not words or words[0] not in _COMMANDS:
        raise InputError("COMMAND", text, f"write one of {', '.join(_COMMANDS)}, as 'plan deepseek-v3 --on ...'")
    return request_of_words(words)


def _show_elasticities(f: dict[str, Any], limit: int) -> None:
    names = list(f["outcomes"])
    rows = f["elasticities"] if limit == 0 else f["elasticities"][:limit]
    values = ", ".join(f"{name} {value:.4g}" for name, value in f["outcomes"].items() if value is not None)
    render.show_lines("now", [values])
    jumps = any(row["another_deployment"] for row in rows)
    render.show_table(
        "elasticity: relative change of the outcome over that of the number, the strongest first",
        ["number", *(f">{name}" for name in names)],
        [
            [
                f"{row['number']}{' *' if row['another_deployment'] else ''}",
                *("-" if row[name] is None else f"{row[name]:+.2f}" for name in names),
            ]
            for row in rows
        ],
        note="* another deployment is best where this number is changed: outcomes jump to its own" if jumps else "",
    )
    render.show_lines("left out", (f"{row['number']}: {row['reason']}" for row in f["left_out"]))


def _show_curve(f: dict[str, Any]) -> None:
    names = [name for name in f["points"][0] if name not in ("value", "number")]
    render.show_table(
        f"over {f['over']}",
        [f["over"], *(f">{name}" for name in names)],
        [
            [point["value"], *("-" if point[name] is None else f"{point[name]:.4g}" for name in names)]
            for point in f["points"]
        ],
    )
