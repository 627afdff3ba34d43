"""``solve`` and ``claims``: the lecture's equations and what became of its claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from rackmath.cli import render
from rackmath.errors import InputError


@click.command(epilog="Example: rackmath lecture solve context-cliff --for kv N_active=100B R=300 w=1 L=200k")
@click.argument("equation", required=False)
@click.argument("values", nargs=-1, metavar="[K=V]...")
@click.option("--for", "symbol", metavar="SYMBOL", help="The unknown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--latex", is_flag=True, help="Print the steps as LaTeX.")
@click.option("--explain", is_flag=True, help="Show what each symbol means.")
def solve(
    equation: str | None, values: tuple[str, ...], symbol: str | None, as_json: bool, latex: bool, explain: bool
) -> None:
    """Solve an EQUATION of the blackboard for a SYMBOL, with numbers or without.

    Without an equation all are listed. Values take units and ranges: M=3.35TB/s, L=100k..200k.
    """
    from rackmath.lecture.equations import EQUATIONS

    if equation is None:
        _list_equations(as_json, EQUATIONS)
        return
    from rackmath.lecture.equations import equation as find
    from rackmath.lecture.solve import solve as run

    if symbol is None:
        _show_equation(find(equation), as_json)
        return
    from rackmath.api.solve import solution_facts

    result = run(equation, symbol, _given(values))
    if as_json:
        render.show_json(solution_facts(result))
        return
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


def _show_equation(chosen: Any, as_json: bool) -> None:
    """An equation, its symbols with units, and what the lecture puts in."""
    from rackmath.lecture.symbols import LECTURE

    forms = [replace(chosen, text=text) for text in (chosen.text, *chosen.also)]
    held = {q.name: q for form in forms for q in form.quantities}
    names = list(held)
    symbols = [
        {"symbol": name, "unit": q.unit, "default": LECTURE.get(name), "meaning": q.meaning} for name, q in held.items()
    ]
    if as_json:
        render.show_json(
            {"id": chosen.id, "equation": chosen.text, "also": chosen.also, "note": chosen.note, "symbols": symbols}
        )
        return
    render.show_pairs(
        f"{chosen.id}, chapter {chosen.chapter}, {chosen.time}: {chosen.note}",
        [("equation", chosen.text), *(("the same", text) for text in chosen.also)],
    )
    render.show_table(
        "symbols",
        ["symbol", "unit", ">the lecture's value", "meaning"],
        [(s["symbol"], s["unit"], s["default"] or "-", s["meaning"]) for s in symbols],
        note=f"rackmath lecture solve {chosen.id} --for {names[0]} "
        + " ".join(f"{n}={LECTURE.get(n, '...')}" for n in names[1:3]),
    )


def _list_equations(as_json: bool, equations: Any) -> None:
    if as_json:
        render.show_json(
            [
                {
                    "id": e.id,
                    "chapter": e.chapter,
                    "time": e.time,
                    "equation": e.text,
                    "latex": e.latex,
                    "symbols": {q.name: {"unit": q.unit, "meaning": q.meaning} for q in e.quantities},
                    "note": e.note,
                }
                for e in equations
            ]
        )
        return
    render.show_table(
        f"{len(equations)} equations",
        ["id", ">chapter", "at", "equation", "note"],
        [(e.id, e.chapter, e.time, e.text, e.note) for e in equations],
        note="rackmath lecture solve ID --for SYMBOL k=v ...",
    )


def _given(values: tuple[str, ...]) -> dict[str, str]:
    quantities: dict[str, str] = {}
    for text in values:
        key, sign, value = text.partition("=")
        if not sign or not key or not value:
            raise InputError("value", text, "write symbol=number, for example B=2400 or M=3.35TB/s")
        if key in quantities:
            raise InputError(key, value, "is given twice")
        quantities[key] = value
    return quantities


@click.command(epilog="Example: rackmath lecture claims --only drain-stable")
@click.option("--only", metavar="ID", help="One claim, by id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--explain", is_flag=True, help="Show what was given, and the command behind the real number.")
def claims(only: str | None, as_json: bool, explain: bool) -> None:
    """Show the ledger: each claim of the lecture with its inputs and with real ones, and a verdict."""
    from rackmath.lecture.claims import claims as run
    from rackmath.lecture.claims import listed, rows, text_of

    if only is not None and only not in {row["id"] for row in rows()}:
        raise InputError("--only", only, "`rackmath lecture claims` lists the ids")
    result = run(None if only is None else lambda name: name == only)
    if as_json:
        render.show_json(result)
        return
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
