"""The blackboard by request: equations, solutions, claims."""

from __future__ import annotations

import pytest

import rackmath as rm

CLIFF = {"N_active": "100B", "R": 300, "w": 1, "L": "200k"}


def test_an_equation_is_solved_from_texts_and_from_a_mapping() -> None:
    typed = rm.SolveRequest(equation="context-cliff", symbol="kv", values=[f"{k}={v}" for k, v in CLIFF.items()])
    mapped = rm.SolveRequest(equation="context-cliff", symbol="kv", values=CLIFF)
    assert typed == mapped
    solution = rm.answer(mapped).to_dict()
    # Bytes of cache per token at which reading the cache takes as long as multiplying: N / (R L) at a byte a weight.
    assert solution["value"] == pytest.approx(100e9 / (300 * 200e3))


def test_without_a_symbol_the_equation_and_without_an_equation_all() -> None:
    every = rm.answer(rm.SolveRequest()).to_dict()
    assert len(every) > 20
    chosen = rm.answer(rm.SolveRequest(equation="context-cliff")).to_dict()
    assert {s["symbol"] for s in chosen["symbols"]} >= {"kv", "L"}


def test_values_that_say_no_number_are_refused() -> None:
    for values in (("L",), ("L=1", "L=2"), ("=3",)):
        with pytest.raises(rm.InputError):
            rm.answer(rm.SolveRequest(equation="context-cliff", symbol="kv", values=values))


def test_a_claim_by_its_id() -> None:
    (claim,) = rm.answer(rm.ClaimsRequest(only="drain-stable")).to_dict()
    assert claim["id"] == "drain-stable"
    with pytest.raises(rm.InputError, match="--only"):
        rm.answer(rm.ClaimsRequest(only="nosuch"))
