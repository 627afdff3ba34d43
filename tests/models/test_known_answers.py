"""Figures of models that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

import pytest

from rackmath.io import catalogue
from rackmath.models import counts
from rackmath.models.cache import Cache, cache_bytes, stored_bytes
from rackmath.models.formats import BF16, FP32
from rackmath.models.operator import Pass
from rackmath.models.operators import operators


def test_what_a_sequence_of_llama_holds() -> None:
    """2 · 8 heads · 128 · 32 layers at 16 bit for each of 1,000 tokens."""
    assert cache_bytes(catalogue.model("llama-3.1-8b"), 1000.0) == 1000 * 2 * 8 * 128 * 32 * 2


def test_an_entry_for_several_tokens_is_held_when_they_are_all_there() -> None:
    cache = Cache(growing=96, per=4)
    for context, entries in ((3, 0), (4, 1), (7, 1), (1001, 250)):
        assert stored_bytes(cache, float(context), BF16, FP32) == entries * 96 * 2


def test_attention_of_a_pass_is_one_matrix_for_each_sequence_and_pair_of_heads() -> None:
    work = Pass(phase="decode", sequences=7.0, new_tokens=1.0, context=500.0)
    attention = next(op for op in operators(catalogue.model("llama-3.1-8b"), work) if op.name == "attention")
    assert attention.matrices == pytest.approx(7 * 8)
    assert attention.rows == 500


def test_qwen3_5_9b_has_the_parameters_of_its_checkpoint() -> None:
    """The 775 tensors of the published checkpoint hold 9,653,104,368 numbers: text, vision and a layer that drafts."""
    model = catalogue.model("Qwen/Qwen3.5-9B")
    layers = 6_919_561_728
    assert counts.total_params(model) == layers + 2 * 248_320 * 4096 + 4096
    assert counts.total_params(model) + counts.encoder_params(model) == 9_409_813_744
    assert counts.mtp_params(model) == 9_653_104_368 - 9_409_813_744


def test_qwen3_14b_has_the_parameters_of_its_card() -> None:
    """14.8 B, 13.2 B of them outside of the embedding table and the head."""
    model = catalogue.model("Qwen/Qwen3-14B")
    assert counts.total_params(model) == 14_768_307_200
    assert round(counts.total_params(model) - 2 * 151_936 * 5120, -8) == 13_200_000_000
