"""Equations of the blackboard, one of them solved for a symbol, and what became of the lecture's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.errors import InputError

if TYPE_CHECKING:
    from rackmath.lecture.equations import Equation
    from rackmath.lecture.solve import Solution


def _values(value: Any, field: str) -> tuple[str, ...]:
    """Texts of the form symbol=number, or a mapping of symbols to numbers."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return tuple(f"{symbol}={number}" for symbol, number in pairs.items())
    return kinds.TEXTS.read(value, field)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """An equation of the blackboard, and what is known of its symbols."""

    equation: Annotated[
        str | None,
        Option(
            help="Equation of the blackboard, by its id; without one all are listed.",
            metavar="[EQUATION]",
            argument=True,
        ),
    ] = None
    values: Annotated[
        tuple[str, ...] | Mapping[str, Any],
        Option(
            help="Symbols and their numbers with units and ranges, as M=3.35TB/s or L=100k..200k.",
            kind=replace(kinds.TEXTS, read=_values),
            metavar="[K=V]...",
            argument=True,
        ),
    ] = ()
    symbol: Annotated[str | None, Option(help="The unknown.", names=("--for",), metavar="SYMBOL")] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsRequest:
    """The ledger of the lecture's claims, or one of them."""

    only: Annotated[str | None, Option(help="One claim, by its id.", metavar="ID")] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_solve(r: SolveRequest) -> Result:
    """Solve an equation for a symbol; without a symbol the equation, without an equation all of them.

    ``details`` is the solution, the equation, or all equations.
    Errors: :class:`~rackmath.errors.InputError` for unknown names and for values that are none of the equation's.
    """
    from rackmath.lecture.equations import EQUATIONS, equation
    from rackmath.lecture.solve import solve

    if r.equation is None:
        return Result(request=r, facts=[_listed(e) for e in EQUATIONS], details=EQUATIONS)
    if r.symbol is None:
        formula = equation(r.equation)
        return Result(request=r, facts=_equation_facts(formula), details=formula)
    solution = solve(r.equation, r.symbol, _quantities(r.values))
    return Result(request=r, facts=solution_facts(solution), details=solution)


def run_claims(r: ClaimsRequest) -> Result:
    """Compute claims of the lecture with its inputs and with real ones; ``details`` are their records.

    Errors: :class:`~rackmath.errors.InputError` for an unknown id.
    """
    from rackmath.lecture.claims import claims, rows

    if r.only is not None and r.only not in {row["id"] for row in rows()}:
        raise InputError("--only", r.only, "`rackmath lecture claims` lists the ids")
    records = claims(None if r.only is None else lambda name: name == r.only)
    return Result(request=r, facts=records, details=records)


def _quantities(values: tuple[str, ...] | Mapping[str, Any]) -> dict[str, str]:
    quantities: dict[str, str] = {}
    for text in values:
        symbol, sign, number = text.partition("=")
        if not sign or not symbol or not number:
            raise InputError("value", text, "write symbol=number, for example B=2400 or M=3.35TB/s")
        if symbol in quantities:
            raise InputError(symbol, number, "is given twice")
        quantities[symbol] = number
    return quantities


def _listed(e: Equation) -> dict[str, Any]:
    return {
        "id": e.id,
        "chapter": e.chapter,
        "time": e.time,
        "equation": e.text,
        "latex": e.latex,
        "symbols": {q.name: {"unit": q.unit, "meaning": q.meaning} for q in e.quantities},
        "note": e.note,
    }


def _equation_facts(e: Equation) -> dict[str, Any]:
    """An equation, its symbols with units, and what the lecture puts in."""
    from rackmath.lecture.symbols import LECTURE

    forms = [replace(e, text=text) for text in (e.text, *e.also)]
    quantities = {q.name: q for form in forms for q in form.quantities}
    symbols = [
        {"symbol": name, "unit": q.unit, "default": LECTURE.get(name), "meaning": q.meaning}
        for name, q in quantities.items()
    ]
    return {"id": e.id, "equation": e.text, "also": e.also, "note": e.note, "symbols": symbols}


def solution_facts(solution: Solution) -> dict[str, Any]:
    """What ``rackmath lecture solve --json`` prints."""
    return {
        "equation": solution.equation.id,
        "symbol": solution.symbol,
        "value": solution.value,
        "low": solution.low,
        "high": solution.high,
        "others": solution.others,
        "unit": solution.unit,
        "expression": solution.expression,
        "latex": solution.latex,
        "missing": solution.missing,
        "steps": [{"text": s.text, "latex": s.latex, "note": s.note} for s in solution.steps],
    }
