"""Heads of EAGLE-3: sizes of the published one, what they read, and what they cost beside their target."""

from __future__ import annotations

from typing import Any

import pytest

from rackmath.api.drafts import draft_model_of
from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.engine import Layout, estimate
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.config import read_config
from rackmath.models.counts import total_params
from rackmath.models.eagle import EAGLE3, as_head, typical_head
from rackmath.models.operator import Pass
from rackmath.models.operators import operators, total_flops

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 1, "vocab_size": 128256,
    "draft_vocab_size": 32000, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 2048,
}  # fmt: skip
"""Fields of the head for Llama 3.1 8B, as EAGLE's and SpecForge's repositories have them."""
MATRICES = 3 * 4096**2 + 2 * 4096 * (4096 + 2 * 1024) + 4096**2 + 3 * 4096 * 14336 + 32000 * 4096
"""Joining matrix, projections of twice the width, output, feed-forward, output projection."""


def test_the_published_head_has_its_published_size() -> None:
    head = read_config(CONFIG, "head")
    # Norms of the token, of the state, before the feed-forward, and at the end.
    assert total_params(head) == MATRICES + 4 * 4096
    # A file of 811 MB, mebibytes that is, with its tables of tokens.
    assert 2 * total_params(head) / 2**20 == pytest.approx(811, rel=0.01)
    assert head.not_understood == ()


def test_the_typical_head_of_its_target_is_the_published_one() -> None:
    target = catalogue.model("llama-3.1-8b")
    assert total_params(typical_head(target)) == total_params(read_config(CONFIG, "head"))
    assert draft_model_of(EAGLE3, target) == typical_head(target)
    assert draft_model_of(None, target) is None


def test_each_token_meets_every_matrix_once() -> None:
    head = read_config(CONFIG, "head")
    work = Pass(phase="decode", sequences=1, new_tokens=1, context=1000)
    attention = 4 * 32 * 128 * 1000
    assert total_flops(operators(head, work)) == 2 * MATRICES + attention


def test_a_step_costs_a_pass_of_the_head_for_each_draft() -> None:
    system, target = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    head, layout = typical_head(target), Layout(tensor=8)
    point = {"batch": 16, "context": 2000}
    plain = estimate(target, system, layout, **point, draft_tokens=3)
    both = estimate(target, system, layout, **point, draft_tokens=3, draft=head)
    # Its 64 heads divide by eight ranks, so that each of them reads an eighth.
    alone = estimate(head, system, layout, **point)
    assert both.time == pytest.approx(float(plain.time + 3 * alone.time))
    assert both.memory.weights - plain.memory.weights == pytest.approx(float(alone.memory.weights))


def test_a_wider_target_is_joined_into_the_width_of_its_head() -> None:
    narrow = read_config(CONFIG | {"target_hidden_size": 8192}, "head")
    assert narrow.target_hidden == 8192
    assert total_params(narrow) - total_params(read_config(CONFIG, "head")) == 3 * 4096 * 4096
    assert draft_model_of(narrow, catalogue.model("llama-3.1-70b")) is narrow


def test_a_head_of_another_target_is_refused() -> None:
    with pytest.raises(InputError, match=r"--draft-model.*4096.*8192"):
        draft_model_of(read_config(CONFIG, "head"), catalogue.model("llama-3.1-70b"))


def test_a_head_without_grouped_attention_is_refused() -> None:
    with pytest.raises(InputError, match="draft_vocab_size"):
        as_head(catalogue.model("deepseek-v3"), 7168, 32000)


def test_an_answer_says_what_drafts() -> None:
    asked = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "batch": 8, "context": 2000, "no_evidence": True}
    result = run_estimate(EstimateRequest(**asked, draft_tokens=3, draft_model=EAGLE3, acceptance="0.7"))
    assert any("an EAGLE-3 head for llama-3.1-8b (425 M parameters)" in note for note in result.assumptions)
    assert result.tokens_per_step == pytest.approx(1 + 0.7 + 0.7**2 + 0.7**3)
