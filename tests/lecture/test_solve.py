"""Every equation: units, every symbol solved and put back, steps shown, ranges and branches."""

from __future__ import annotations

import json

import pytest
import sympy as sp
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.lecture.equations import EQUATIONS, Equation, equation
from rackmath.lecture.solve import check_units, evaluate, solve
from rackmath.lecture.symbols import QUANTITIES, dimension_of

# Values that keep every equation inside its domain: fractions below one, batches below saturation.
START = {
    "k": 8.0, "E": 256.0, "B": 20.0, "n": 2.0, "P": 4.0, "m": 6.0, "u": 0.5, "f_leave": 0.5, "bubble": 0.3, "success": 0.7,
    "eff_rl": 0.3, "eff_inf": 0.5, "L": 3.0, "kv": 0.01, "M": 11.0, "N_active": 5.0, "C": 7.0, "N_total": 13.0, "w": 1.5,
    "price": 2.0, "bandwidth": 9.0, "price_path": 0.01,
}  # fmt: skip


def test_there_are_at_least_25_with_a_place_in_the_lecture() -> None:
    assert len(EQUATIONS) >= 25
    assert len({e.id for e in EQUATIONS}) == len(EQUATIONS)
    assert all(1 <= e.chapter <= 6 and e.note for e in EQUATIONS)


@pytest.mark.parametrize("entry", EQUATIONS, ids=lambda e: e.id)
def test_both_sides_have_the_same_unit(entry: Equation) -> None:
    check_units(entry)


@pytest.mark.parametrize("entry", EQUATIONS, ids=lambda e: e.id)
def test_every_symbol_is_solved_and_put_back(entry: Equation) -> None:
    names = [q.name for q in entry.quantities]
    values = {name: START.get(name, 3.7) for name in names}
    left = entry.equality.lhs.name if isinstance(entry.equality.lhs, sp.Symbol) else None
    if left is not None:
        values[left] = evaluate(entry.id, left, **{k: v for k, v in values.items() if k != left})
    else:
        free = names[0]
        values[free] = evaluate(entry.id, free, **{k: v for k, v in values.items() if k != free})
    solved = 0
    for name in names:
        rest = {k: v for k, v in values.items() if k != name}
        try:
            found = solve(entry.id, name, rest)
        except InputError:
            # Inside a max() the other side may bind, and then no value of this symbol is the answer.
            assert entry.equality.rhs.atoms(sp.Max, sp.Min)
            continue
        assert found.value is not None
        candidates = [found.value, *found.others]
        numbers = {QUANTITIES[k].symbol: v for k, v in rest.items()}
        for value in candidates:
            at = {**numbers, QUANTITIES[name].symbol: value}
            left, right = (float(sp.sympify(side).subs(list(at.items()))) for side in entry.equality.args)
            assert left == pytest.approx(right, rel=1e-6)
        if not entry.equality.rhs.atoms(sp.Max, sp.Min):
            assert any(v == pytest.approx(values[name], rel=1e-6) for v in candidates)
        assert found.steps[0].note.startswith("lecture chapter")
        assert all(step.text and step.latex for step in found.steps)
        solved += 1
    assert solved >= len(names) / 2


@pytest.mark.parametrize("entry", EQUATIONS, ids=lambda e: e.id)
def test_without_numbers_the_algebra_is_shown_and_the_gaps_are_named(entry: Equation) -> None:
    name = entry.quantities[0].name
    found = solve(entry.id, name, {})
    assert found.value is None
    assert set(found.missing) == {q.name for q in entry.quantities} - {name}
    assert found.latex


def test_known_answers_of_the_lecture() -> None:
    assert evaluate("balance-batch", "B_star", R=300, S=8) == 2400
    assert evaluate("context-cliff", "kv", N_active=1e11, M=1, C=300, L=200_000) == pytest.approx(1666.67, abs=0.01)
    assert evaluate("pipeline-bubble", "bubble", P=4, m=4) == pytest.approx(3 / 7)
    assert evaluate("served-tokens", "N_tokens", rate_served=5e7, lifetime="60 d") == pytest.approx(2.592e14)
    assert evaluate("two-racks", "slowdown", n=2, r=8) == 4
    assert evaluate("drain-time", "t_drain", H="288 GB", M="20 TB/s") == pytest.approx(0.0144)


def test_a_maximum_is_solved_on_the_side_that_binds() -> None:
    given_ = {"N_active": 1e11, "C": 72e15, "N_total": 8e11, "w": 1, "L": 0, "kv": 2000, "M": 288e12}
    floor = 8e11 / 288e12
    # Ten floors are compute-bound: B = t C / N_active.
    assert solve("step-time", "B", {**given_, "t": 10 * floor}).value == pytest.approx(10 * floor * 72e15 / 1e11)
    with pytest.raises(InputError, match="no positive real solution"):
        solve("step-time", "B", {**given_, "t": floor / 2})


@settings(max_examples=30, deadline=None)
@given(low=st.floats(10, 1e3), factor=st.floats(1, 100))
def test_ranges_contain_every_value_inside_them(low: float, factor: float) -> None:
    found = solve("balance-batch", "B_star", {"R": f"{low!r}..{low * factor!r}", "S": "2..8"})
    for r in (low, low * factor**0.5, low * factor):
        for s in (2, 5, 8):
            assert found.low * (1 - 1e-9) <= r * s <= found.high * (1 + 1e-9)


def test_where_no_closed_form_exists_numbers_are_still_found() -> None:
    touched = evaluate("experts-touched", "D_touched", E=256, k=8, B=8)
    found = solve("experts-touched", "E", {"D_touched": touched, "k": 8, "B": 8})
    assert any(v == pytest.approx(256, rel=1e-9) for v in (found.value, *found.others))
    assert any("bisection" in step.note for step in found.steps)


@pytest.mark.parametrize(
    ("name", "symbol", "values", "field"),
    [
        ("balance-bach", "R", {}, "EQUATION"),
        ("balance-batch", "Z", {}, "--for"),
        ("balance-batch", "R", {"Q": 1}, "Q"),
        ("balance-batch", "R", {"R": 1}, "R"),
        ("balance-batch", "R", {"S": "many"}, "S"),
        ("balance-batch", "R", {"S": "-3"}, "S"),
        ("balance-batch", "R", {"S": "9..3"}, "S"),
        ("balance-batch", "R", {"S": "1..2..3"}, "S"),
        ("drain-time", "H", {"M": "3 TB"}, "M"),
    ],
)
def test_bad_input_is_refused_by_name(name: str, symbol: str, values: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        solve(name, symbol, values)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_unlike_units_are_found() -> None:
    wrong = Equation("wrong", 1, "-", "t = N_total*w", "bytes are no seconds")
    with pytest.raises(ValueError, match="left"):
        check_units(wrong)
    mixed = sp.Symbol("t", positive=True) + sp.Symbol("M", positive=True)
    with pytest.raises(ValueError, match="unlike"):
        dimension_of(mixed)


def test_every_quantity_is_used_and_described() -> None:
    used = {q.name for e in EQUATIONS for q in e.quantities}
    assert set(QUANTITIES) - used == {"t_compute", "t_memory"} - used
    assert all(q.meaning and q.latex for q in QUANTITIES.values())
    assert equation("step-time").latex


def test_the_cliff_takes_the_ratio_itself_or_its_parts() -> None:
    by_ratio = evaluate("context-cliff", "kv", N_active=1e11, R=300, w=1, L=200_000)
    assert by_ratio == pytest.approx(evaluate("context-cliff", "kv", N_active=1e11, C=300, M=1, L=200_000))
    assert by_ratio == pytest.approx(1e11 / (300 * 200_000))
    assert "multiply-adds per byte at one byte per parameter" in equation("context-cliff").note


@given(pre=st.floats(1e9, 1e15), eff=st.floats(0.01, 1), other=st.floats(0.01, 1), a=st.floats(2, 6))
def test_equal_costs_is_one_equation(pre: float, eff: float, other: float, a: float) -> None:
    rl = evaluate("equal-costs", "D_rl", D_pre=pre, a_rl=a, eff_rl=eff)
    inference = evaluate("equal-costs", "D_inf", D_pre=pre, eff_inf=other)
    costs = [6 * pre, a * rl / eff, 2 * inference / other]
    assert costs == pytest.approx([costs[0]] * 3)
    assert evaluate("equal-costs", "D_inf", D_rl=rl, a_rl=a, eff_rl=eff, eff_inf=other) == pytest.approx(inference)


def test_an_equation_without_an_unknown_shows_itself() -> None:
    shown = CliRunner().invoke(cli, ["solve", "context-cliff"])
    assert shown.exit_code == 0
    for text in ("kv = N_active*w/(R*L)", "kv = N_active*M/(C*L)", "the lecture's value", "hardware ratio"):
        assert text in shown.output
    facts = json.loads(CliRunner().invoke(cli, ["solve", "equal-costs", "--json"]).stdout)
    assert {s["symbol"] for s in facts["symbols"]} == {"D_pre", "a_rl", "D_rl", "eff_rl", "D_inf", "eff_inf"}
    assert {s["symbol"]: s["default"] for s in facts["symbols"]}["eff_rl"] == "0.3"


def test_units_of_multiplications() -> None:
    """90 PFLOP/s are 45e15 multiplications a second."""
    assert evaluate("compute-time", "t_compute", B=1, N_active="90B", C="90PFLOP/s") == pytest.approx(2e-6)
