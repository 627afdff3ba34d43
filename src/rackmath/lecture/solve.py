"""Solve any equation of the blackboard for any of its symbols, and show how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import isfinite
from typing import Any

import sympy as sp

from rackmath.errors import InputError, NotUnderstood
from rackmath.lecture.equations import Equation, equation, latex
from rackmath.lecture.roots import positive_roots
from rackmath.lecture.symbols import QUANTITIES, dimension_of
from rackmath.units import parse, show

Interval = tuple[float, float]
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Step:
    """One line of algebra."""

    text: str
    latex: str
    note: str


@dataclass(frozen=True, slots=True)
class Solution:
    """What came out.

    ``value`` is None where a number is missing; ``low`` and ``high`` differ from it
    where an input was a range. ``others`` are further solutions.
    """

    equation: Equation
    symbol: str
    unit: str
    expression: str
    latex: str
    value: float | None
    low: float | None
    high: float | None
    others: tuple[float, ...]
    steps: tuple[Step, ...]
    missing: tuple[str, ...]


def solve(name: str, symbol: str, quantities: Mapping[str, str | float]) -> Solution:
    """Solve an equation of the blackboard for one symbol.

    Parameters
    ----------
    name : str
        Id of the equation.
    symbol : str
        The unknown.
    given : mapping
        Values of the other symbols: numbers in SI, text with a unit
        (``"3.35 TB/s"``) or a range (``"100k..200k"``).

    Errors: :class:`InputError` for unknown symbols, impossible values, or where no
    positive real solution exists.
    """
    form = equation(name).holding((symbol, *quantities))
    names = [q.name for q in form.quantities]
    if symbol not in names:
        raise InputError("--for", symbol, f"{name} holds {', '.join(names)}")
    values = {key: _interval(key, value, names) for key, value in quantities.items()}
    if symbol in values:
        other_names = ", ".join(n for n in names if n != symbol)
        raise InputError(symbol, quantities[symbol], f"is the unknown; give {other_names}")
    unit = QUANTITIES[symbol].unit
    check_units(form)
    branches = _branches(form, symbol)
    steps = [Step(_plain(form.equality), form.latex, f"lecture chapter {form.chapter}, {form.time}")]
    unknown = QUANTITIES[symbol].symbol
    for branch in branches:
        steps += branch.steps
    closed_forms = [b.value for b in branches if b.value is not None]
    expression = " or ".join(str(v) for v in closed_forms) or _plain(form.equality)
    formula = r" \;\text{or}\; ".join(latex(sp.Eq(unknown, v, evaluate=False)) for v in closed_forms) or form.latex
    missing = tuple(n for n in names if n != symbol and n not in values)
    if missing:
        return Solution(form, symbol, unit, expression, formula, None, None, None, (), tuple(steps), missing)
    result = _numbers(form, symbol, branches, values)
    right = branches[result.branch].value
    steps.append(_inserted(form.equality if right is None else sp.Eq(unknown, right, evaluate=False), values))
    low, high = _shown(result.low, unit), _shown(result.high, unit)
    steps.append(
        Step(
            f"{symbol} = {_shown(result.value, unit)}",
            f"{QUANTITIES[symbol].latex} = {sp.latex(sp.Float(result.value, 6))}\\,\\mathrm{{{unit}}}",
            f"range {low} to {high}" if result.low != result.high else "result",
        )
    )
    return Solution(
        form,
        symbol,
        unit,
        expression,
        formula,
        result.value,
        result.low,
        result.high,
        result.others,
        tuple(steps),
        (),
    )


def evaluate(name: str, symbol: str, **quantity: float | str) -> float:
    """Value of ``symbol`` with all other symbols given; for use inside the ledger."""
    value = solve(name, symbol, quantity).value
    assert value is not None, f"{name}: symbols missing for {symbol}"
    return value


def check_units(entry: Equation) -> None:
    """Raise :class:`ValueError` where the two sides of an equation have unlike units."""
    left, right = dimension_of(entry.equality.lhs), dimension_of(entry.equality.rhs)
    if left != right:
        raise ValueError(f"{entry.id}: {left} on the left, {right} on the right")


@dataclass(frozen=True, slots=True)
class _Branch:
    """A solution on one side of a max() or min(), with the lines that lead to it."""

    value: Any
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Root:
    value: float
    low: float
    high: float
    others: tuple[float, ...]
    branch: int


def _branches(entry: Equation, symbol: str) -> list[_Branch]:
    """Solve each side of a max() or min() on its own; without one there is one branch."""
    unknown = QUANTITIES[symbol].symbol
    equality = entry.equality
    switch = next(iter(equality.rhs.atoms(sp.Max, sp.Min)), None)
    if switch is None or (unknown not in switch.free_symbols and equality.lhs == unknown):
        return [_Branch(equality.rhs, ())] if equality.lhs == unknown else _solved(equality, unknown, "")
    if equality.lhs == unknown:
        return [_Branch(equality.rhs, ())]
    branches: list[_Branch] = []
    for side in switch.args:
        case = sp.Eq(equality.lhs, equality.rhs.subs(switch, side), evaluate=False)
        if unknown in case.free_symbols:
            branches += _solved(
                case, unknown, f"where {side} is the {'larger' if switch.func is sp.Max else 'smaller'} one"
            )
    if not branches:
        raise NotUnderstood("--for", symbol, f"{entry.id} cannot be solved for it in closed form")
    return branches


def _solved(equality: Any, unknown: sp.Symbol, note: str) -> list[_Branch]:
    """Solve one equation without max(), with the algebra shown.

    Where no closed form exists the branch has no value and numbers are found by
    bisection once all other symbols have values.
    """
    lines: list[Step] = []
    if note:
        lines.append(Step(_plain(equality), latex(equality), note))
    fractions_free = _without_fractions(equality)
    if fractions_free is not None:
        lines.append(Step(_plain(fractions_free), latex(fractions_free), "multiply both sides by the denominators"))
    solutions = _closed_forms(equality, unknown)
    if not solutions:
        note = f"no closed form for {unknown.name}: bisection"
        return [_Branch(None, (*lines, Step(_plain(equality), latex(equality), note)))]
    branches: list[_Branch] = []
    for value in solutions:
        line = sp.Eq(unknown, value, evaluate=False)
        branches.append(_Branch(value, (*lines, Step(_plain(line), latex(line), f"solve for {unknown.name}"))))
    return branches


def _closed_forms(equality: Any, unknown: sp.Symbol) -> list[Any]:
    # A power of the unknown needs a base that is known to be positive.
    bases = {p.base: sp.Dummy(positive=True) for p in equality.atoms(sp.Pow) if unknown in p.exp.free_symbols}
    try:
        solutions = sp.solve(equality.subs(bases), unknown)
    except NotImplementedError:
        # SymPy's way to say that it knows no closed form: bisection follows.
        return []
    back = {dummy: base for base, dummy in bases.items()}
    return [sp.simplify(s.subs(back)) if back else s for s in solutions]


def _without_fractions(equality: Any) -> Any | None:
    left, right = sp.together(equality.lhs), sp.together(equality.rhs)
    (a, b), (c, d) = sp.fraction(left), sp.fraction(right)
    if b == 1 and d == 1:
        return None
    return sp.Eq(a * d, c * b, evaluate=False)


def _numbers(entry: Equation, symbol: str, branches: list[_Branch], values: Mapping[str, Interval]) -> _Root:
    """Evaluate at the corners of all ranges; the middle is the geometric mean of each."""
    middle = {
        k: (low if low == high else (low * high) ** 0.5 if low > 0 else (low + high) / 2)
        for k, (low, high) in values.items()
    }
    range_symbols = [k for k, (low, high) in values.items() if low != high]
    centre = _candidates(entry, symbol, branches, middle)
    if not centre:
        raise InputError(symbol, None, f"no positive real solution of {entry.id} with these values")
    corners: list[float] = []
    for choice in product(*(values[k] for k in range_symbols)):
        at = {**middle, **dict(zip(range_symbols, choice, strict=True))}
        corners += [v for v, _ in _candidates(entry, symbol, branches, at)[:1]]
    value, branch = centre[0]
    spread = [*corners, value]
    return _Root(value, min(spread), max(spread), tuple(v for v, _ in centre[1:]), branch)


def _candidates(
    entry: Equation, symbol: str, branches: list[_Branch], at: Mapping[str, float]
) -> list[tuple[float, int]]:
    """Positive real values that satisfy the whole equation, with the branch they come from."""
    numbers = {QUANTITIES[k].symbol: sp.Float(v, 30) for k, v in at.items()}
    unknown = QUANTITIES[symbol].symbol
    roots: list[tuple[float, int]] = []
    for i, branch in enumerate(branches):
        if branch.value is None:
            roots += [(root, i) for root in positive_roots(entry.equality, unknown, numbers)]
            continue
        try:
            number = complex(branch.value.subs(numbers).evalf(30))
        except TypeError:
            continue
        if abs(number.imag) > _TOLERANCE * abs(number) or not isfinite(number.real) or number.real < 0:
            continue
        left = entry.equality.lhs.subs({**numbers, unknown: number.real})
        right = entry.equality.rhs.subs({**numbers, unknown: number.real})
        holds = abs(float(left) - float(right)) <= 1e-7 * max(abs(float(left)), abs(float(right)), 1e-300)
        if holds and not any(abs(number.real - v) <= _TOLERANCE * abs(v) for v, _ in roots):
            roots.append((float(number.real), i))
    return roots


def _interval(key: str, value: str | float, names: list[str]) -> Interval:
    if key not in names:
        raise InputError(key, value, f"this equation holds {', '.join(names)}")
    unit = QUANTITIES[key].unit
    texts = str(value).split("..") if isinstance(value, str) else [value]
    if len(texts) > 2:
        raise InputError(key, value, "write a number or a range like 100k..200k")
    low, high = (_number(key, text, unit) for text in (texts[0], texts[-1]))
    if low > high:
        raise InputError(key, value, "the lower end of a range comes first")
    return low, high


def _number(key: str, text: str | float, unit: str) -> float:
    """Read a value in the unit of its symbol; units per token or parameter read as plain ones."""
    plain_units = {"B/token": "B", "B/param": "B", "1/s": "1", "FLOP/token": "1", "USD/s": "USD/s"}
    plain = plain_units.get(unit, unit if unit in ("B", "B/s", "s", "USD", "FLOP/s", "FLOP") else "1")
    if key == "C" and isinstance(text, str) and text.rstrip().lower().endswith(("flop/s", "flops")):
        # The blackboard counts multiplications; a data sheet counts each with its addition as two.
        number = parse(text, "FLOP/s", key) / 2
    else:
        number = parse(text, plain, key)
    if number < 0:
        raise InputError(key, text, "quantities of the blackboard are not negative")
    return number


def _inserted(line: Any, values: Mapping[str, Interval]) -> Step:
    """Write a line with numbers in place of symbols, not yet worked out."""
    spans = {QUANTITIES[k].symbol: sp.Symbol(_spread(low, high), positive=True) for k, (low, high) in values.items()}
    expression = line.xreplace(spans)
    return Step(_plain(expression), latex(expression), "numbers in")


def _spread(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"({low:.6g}..{high:.6g})"


def _shown(value: float, unit: str) -> str:
    if unit in ("s", "B", "B/s", "FLOP/s", "FLOP"):
        return f"{value:.6g} {unit} ({show(value, unit)})"
    return f"{value:.6g}" if unit == "1" else f"{value:.6g} {unit}"


def _plain(equality: Any) -> str:
    return f"{equality.lhs} = {equality.rhs}"
