"""``solve`` and ``claims``: the lecture's equations and what became of its claims."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.solve import ClaimsRequest, SolveRequest, run_claims, run_solve
from rackmath.cli import render
from rackmath.cli.options import request_options


@click.command(epilog="Example: rackmath lecture solve context-cliff --for kv N_active=100B R=300 w=1 L=200k")
@request_options(SolveRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--latex", is_flag=True, help="Print the steps as LaTeX.")
@click.option("--explain", is_flag=True, help="Show what each symbol means.")
def solve(request: SolveRequest, as_json: bool, latex: bool, explain: bool) -> None:
    """Solve an EQUATION of the blackboard for a SYMBOL, with numbers or without.

    Without an equation all are listed. Values take units and ranges: M=3.35TB/s, L=100k..200k.
    """
    answer = run_solve(request)
    if as_json:
        render.show_json(answer.facts)
    elif request.equation is None:
        _list_equations(answer.details)
    elif request.symbol is None:
        _show_equation(answer.details, answer.facts["symbols"])
    else:
        _show_solution(answer.details, latex, explain)


def _show_solution(result: Any, latex: bool, explain: bool) -> None:
    render.show_pairs(
        f"{result.equation.id}, chapter {result.equation.chapter}, {result.equation.time}: {result.equation.note}",
        [(f"{i}.", f"{s.latex if latex else s.text}    ({s.note})") for i, s in enumerate(result.steps, start=1)],
    )
    if result.missing:
        render.show_lines("for a number, give", (f"{name}=..." for name in result.missing))
    if result.others:
        render.show_lines("further solutions", (f"{v:.6g}" for v in result.others))
    if explain:
        render.show_table(
            "symbols",
            ["symbol", "unit", "meaning"],
            [(q.name, q.unit, q.meaning) for q in result.equation.quantities],
        )


def _show_equation(equation: Any, symbols: list[dict[str, Any]]) -> None:
    """An equation, its symbols with units, and what the lecture puts in."""
    names = [s["symbol"] for s in symbols]
    values = {s["symbol"]: s["default"] or "..." for s in symbols}
    render.show_pairs(
        f"{equation.id}, chapter {equation.chapter}, {equation.time}: {equation.note}",
        [("equation", equation.text), *(("the same", text) for text in equation.also)],
    )
    render.show_table(
        "symbols",
        ["symbol", "unit", ">the lecture's value", "meaning"],
        [(s["symbol"], s["unit"], s["default"] or "-", s["meaning"]) for s in symbols],
        note=f"rackmath lecture solve {equation.id} --for {names[0]} "
        + " ".join(f"{n}={values[n]}" for n in names[1:3]),
    )


def _list_equations(equations: Any) -> None:
    render.show_table(
        f"{len(equations)} equations",
        ["id", ">chapter", "at", "equation", "note"],
        [(e.id, e.chapter, e.time, e.text, e.note) for e in equations],
        note="rackmath lecture solve ID --for SYMBOL k=v ...",
    )


@click.command(epilog="Example: rackmath lecture claims --only drain-stable")
@request_options(ClaimsRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--explain", is_flag=True, help="Show what was given, and the command behind the real number.")
def claims(request: ClaimsRequest, as_json: bool, explain: bool) -> None:
    """Show the ledger: each claim of the lecture with its inputs and with real ones, and a verdict."""
    answer = run_claims(request)
    if as_json:
        render.show_json(answer.facts)
        return
    from rackmath.lecture.claims import listed, text_of

    result = answer.details
    render.show_table(
        f"{len(result)} claims",
        ["id", ">said", ">with its inputs", ">with real inputs", "unit", "verdict"],
        [
            (c.id, text_of(c.lecture), text_of(c.with_lecture_inputs), text_of(c.with_real_inputs), c.unit, c.short)
            for c in result
        ],
    )
    partly = [c for c in result if c.holds_for]
    render.show_lines(
        "what holds only for some", (f"{c.id}: {listed(c.holds_for)}; not for {listed(c.fails_for)}" for c in partly)
    )
    false = [c for c in result if c.replaced_by]
    render.show_lines("what replaces claims that do not hold", (f"{c.id}: {c.replaced_by}; {c.command}" for c in false))
    render.show_lines("why", (f"{c.id} ({c.time}): {c.why}" for c in result))
    if explain:
        render.show_lines("given", (f"{c.id}: {c.statement} [{c.given}]" for c in result))
        render.show_lines("real values from", (f"{c.id}: {c.source}" for c in result))
        render.show_lines("shown by", (f"{c.id}: {c.command}" for c in result if c.command))
