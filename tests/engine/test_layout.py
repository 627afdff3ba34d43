"""Layouts: reading, checking, enumerating."""

from __future__ import annotations

import pytest

from rackmath.engine.layout import Layout, candidate_layouts, context_widths, parse_layout
from rackmath.errors import InputError


def test_what_is_left_out_follows_from_the_accelerators(deepseek) -> None:
    assert parse_layout("tp8,ep72", 72, deepseek).text() == "tp8,ep72,pp1,dp9"
    assert parse_layout("tp4", None, deepseek).text() == "tp4,ep1,pp1,dp1"
    assert parse_layout(" TP2, pp2 ,dp3", None, deepseek).gpus == 12


@pytest.mark.parametrize(
    ("text", "gpus", "why"),
    [
        ("", 8, "write something like"),
        ("tp8,tp4", 8, "each kind once"),
        ("tpx", 8, "write something like"),
        ("tp0", 8, "at least 1"),
        ("tp3", 9, "128 heads"),
        ("tp256", 256, "128 heads"),
        ("tp8", 12, "do not divide"),
        ("tp4,dp1", 8, "--gpus says 8"),
        ("pp62", 62, "61 layers"),
        ("ep512,dp512", 512, "256 experts"),
        ("tp4,ep6,dp3", 12, "multiple"),
        ("tp2,ep4,dp3", 6, "multiple"),
        ("tp8,ep3", 8, "divide it"),
        ("tp8,cp3", 8, "cp must divide tp"),
        ("tp8,cp16", 8, "not exceed 8"),
    ],
)
def test_bad_layouts_are_refused_with_the_reason(deepseek, text: str, gpus: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_layout(text, gpus, deepseek)


def test_a_dense_model_has_no_experts_to_spread(llama) -> None:
    with pytest.raises(InputError, match="no experts"):
        parse_layout("tp8,ep8", 8, llama)


def test_a_cache_is_cut_by_tokens_only_where_ranks_hold_copies(llama, deepseek) -> None:
    # 8 key-value heads on 8 ranks leave no copies; on 16 two ranks hold each head; a latent is on all.
    assert context_widths(Layout(tensor=8), llama) == [1]
    assert context_widths(Layout(tensor=16), llama) == [1, 2]
    assert context_widths(Layout(tensor=8), deepseek) == [1, 2, 4, 8]
    with pytest.raises(InputError, match="not exceed 1"):
        parse_layout("tp8,cp2", 8, llama)
    assert parse_layout("tp16,cp2", 16, llama).text() == "tp16,ep1,pp1,dp1,cp2"


@pytest.mark.parametrize("gpus", [1, 8, 72, 96])
def test_candidates_use_all_accelerators_once(deepseek, gpus: int) -> None:
    found = [x.text() for x in candidate_layouts(deepseek, gpus)]
    assert found
    assert len(found) == len(set(found))
    assert all(x.gpus == gpus for x in candidate_layouts(deepseek, gpus))
