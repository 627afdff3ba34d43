"""``sparsity``: how sparse a model should be for a number of users."""

from __future__ import annotations

from math import isinf
from typing import Any

import click

from rackmath.api.sparsity import SparsityRequest, run_sparsity
from rackmath.api.study_summaries import sparsity_summary
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.units import counted, show


@click.command(epilog="Example: rackmath lecture sparsity --on gb200-nvl72 --dense 70e9")
@request_options(SparsityRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sparsity(request: SparsityRequest, as_json: bool) -> None:
    """Find the mixture of least cost among those worth one dense model, for each number of users.

    Sizes follow the routed law of Clark et al.; costs are the ideal bound on one scale-up
    domain.
    """
    result = run_sparsity(request)
    if as_json:
        render.show_json(result.facts)
        return
    _show_sparsity(result.facts, *result.details)


def _show_sparsity(facts: dict[str, Any], models: list[dict[str, Any]], users: list[float]) -> None:
    best = facts["best_experts"]
    render.show_lines("in short", sparsity_summary(facts))
    render.show_table(
        f"mixtures worth {facts['dense_params'] / 1e9:g} G dense parameters on one domain of {facts['system']}:"
        " GPU time per token (* least)",
        [
            ">experts",
            ">active",
            ">total",
            ">memory",
            ">balance batch",
            *(f">{counted(u, 'user')}" for u in users),
            "law",
        ],
        [
            (
                f"{m['experts']:g}",
                show(m["active_params"]),
                show(m["total_params"]),
                f"{m['memory_share']:.0%}",
                f"{m['balance_batch']:,.0f}",
                *(_cell(m["gpu_seconds"][j], best[j] == m["experts"]) for j in range(len(users))),
                "fitted" if m["within_fit"] else "beyond",
            )
            for m in models
        ],
        note="few users read only the experts they choose; users beyond the memory wait; law: inside its fit or beyond",
    )


def _cell(seconds: float, least: bool) -> str:
    return "-" if isinf(seconds) else f"{show(seconds, 's')}{'*' if least else ''}"
