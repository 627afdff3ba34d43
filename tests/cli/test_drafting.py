"""Speculative decoding at the command line: one number of accepted tokens behind speed, throughput and cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from rackmath.api.drafts import drafting
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file

DEEPSEEK = ["deepseek-v3", "--on", "h200-sxm", "--layout", "tp8", "--batch", "8", "--context", "4096"]
LLAMA = ["llama-3.1-70b", "--on", "h200-sxm", "--layout", "tp4", "--gpus", "4", "--batch", "8", "--context", "4096"]
VLLM = constants_file.engine_of(catalogue.system("h200-sxm"), "vllm", 2026.5)


def estimate(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["estimate", *arguments, "--no-evidence", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("draft_tokens", ["0", "1", "3"])
def test_speed_throughput_and_cost_count_the_same_tokens(draft_tokens: str) -> None:
    facts = estimate(*DEEPSEEK, "--draft-tokens", draft_tokens, "--usd-per-gpu-hour", "2")
    made = facts["accepted_tokens"]
    assert facts["tokens_per_second_per_user"] == pytest.approx(made / facts["time"])
    assert facts["tokens_per_second"] == pytest.approx(8 * facts["tokens_per_second_per_user"])
    assert facts["usd_per_million_tokens"] == pytest.approx(8 * 2 / 3600 / facts["tokens_per_second"] * 1e6)
    assert made == 1 if draft_tokens == "0" else 1 < made < 1 + int(draft_tokens)


def test_acceptance_by_position() -> None:
    facts = estimate(*DEEPSEEK, "--draft-tokens", "3", "--acceptance", "0.9,0.5,0.25")
    assert facts["accepted_tokens"] == pytest.approx(1 + 0.9 + 0.9 * 0.5 + 0.9 * 0.5 * 0.25)
    assert estimate(*DEEPSEEK, "--draft-tokens", "3", "--acceptance", "0")["accepted_tokens"] == 1
    assert estimate(*DEEPSEEK, "--draft-tokens", "3", "--acceptance", "1")["accepted_tokens"] == 4


UNSCHEDULED = ["--set", "engine.host=0s", "--set", "engine.host_sequence=0s"]
"""A pass that follows another one: the host has scheduled both."""


def test_a_draft_model_costs_a_pass_per_token_and_its_memory() -> None:
    drafts = ["--acceptance", "0.7"]
    alone = estimate(*LLAMA, "--draft-tokens", "3", *drafts)
    both = estimate(*LLAMA, "--draft-tokens", "3", *drafts, "--draft-model", "llama-3.2-1b")
    own = estimate("llama-3.2-1b", *LLAMA[1:], *UNSCHEDULED)
    assert both["time"] == pytest.approx(alone["time"] + 3 * own["time"])
    assert both["time_ideal"] == pytest.approx(alone["time_ideal"] + 3 * own["time_ideal"])
    assert sum(both["terms"].values()) == pytest.approx(both["time_ideal"])
    assert sum(both["lost"].values()) == pytest.approx(both["time"] - both["time_ideal"])
    assert both["memory"]["weights"] == pytest.approx(alone["memory"]["weights"] + own["memory"]["weights"])
    assert both["memory"]["cache"] == pytest.approx(alone["memory"]["cache"] + own["memory"]["cache"])
    assert both["accepted_tokens"] == alone["accepted_tokens"]
    assert any("drafted by llama-3.2-1b" in note for note in both["assumptions"])


def test_a_draft_model_whose_heads_do_not_divide_stands_on_every_rank() -> None:
    """Gemma 3 1B has 4 heads: on 8 ranks each holds all of it."""
    base = ["llama-3.1-70b", "--on", "h200-sxm", "--layout", "tp8", "--batch", "8", "--context", "4096"]
    drafts = ["--draft-tokens", "2", "--acceptance", "0.7"]
    alone, both = estimate(*base, *drafts), estimate(*base, *drafts, "--draft-model", "gemma-3-1b")
    own = estimate("gemma-3-1b", "--on", "h200-sxm", "--gpus", "1", "--batch", "8", "--context", "4096", *UNSCHEDULED)
    assert both["memory"]["weights"] - alone["memory"]["weights"] == pytest.approx(own["memory"]["weights"])
    assert both["time"] - alone["time"] == pytest.approx(2 * own["time"])


def test_no_model_is_said_to_have_layers_that_it_has_not() -> None:
    with pytest.raises(InputError, match=r"llama-3\.1-70b brings no layers that draft"):
        drafting(catalogue.model("llama-3.1-70b"), VLLM, 3, None, None)
    with_text = drafting(catalogue.model("llama-3.1-70b"), VLLM, 3, "0.3", None)
    assert "looking up the text" in with_text.note
    own = drafting(catalogue.model("deepseek-v3"), VLLM, 2, None, None)
    assert "deepseek-v3's own layers" in own.note
    assert "--draft-tokens 0" in drafting(catalogue.model("deepseek-v3"), VLLM, 0, None, None).note
    assert "brings no layers" in drafting(catalogue.model("llama-3.1-70b"), VLLM, 0, None, None).note


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--draft-tokens", "1.5"], "--draft-tokens"),
        (["--draft-tokens", "65"], "--draft-tokens"),
        (["--draft-tokens", "2", "--acceptance", "1.2"], "--acceptance"),
        (["--draft-tokens", "2", "--acceptance", "x"], "--acceptance"),
        (["--draft-tokens", "3", "--acceptance", "0.5,0.5"], "--acceptance"),
        (["--acceptance", "0.5"], "--acceptance"),
        (["--draft-model", "llama-3.2-1b"], "--draft-model"),
        (["--draft-tokens", "2", "--phase", "prefill"], "--draft-tokens"),
    ],
)
def test_what_contradicts_itself_is_refused(arguments: list[str], field: str) -> None:
    result = CliRunner().invoke(cli, ["estimate", *DEEPSEEK, *arguments])
    assert isinstance(result.exception, InputError)
    assert field in str(result.exception)


def test_a_plan_pays_for_its_draft_model() -> None:
    asked = ["plan", "llama-3.1-70b", "--on", "h200-sxm", "--gpus", "4", "--input", "2000", "--output", "300",
             "--weights", "bf16", "--kv", "bf16", "--one-pool", "--json"]  # fmt: skip
    plans = [
        json.loads(CliRunner().invoke(cli, [*asked, "--draft-tokens", "3", "--acceptance", "0.7", *more]).stdout)
        for more in ([], ["--draft-model", "llama-3.2-1b"], ["--draft-model", "llama-3.2-3b"])
    ]
    best = [one["best"]["tokens_per_second_per_gpu"] for one in plans]
    assert best[0] > best[1] > best[2]
    assert any("llama-3.2-3b" in note for note in plans[2]["assumptions"])


def test_what_does_not_fit_has_no_speed() -> None:
    asked = ["llama-3.1-70b", "--on", "h200-sxm", "--gpus", "1", "--layout", "tp1", "--batch", "8", "--context", "4096"]
    facts = estimate(*asked)
    assert not facts["fits"]
    for name in ("tokens_per_second", "tokens_per_second_per_gpu", "tokens_per_second_per_user"):
        assert facts[name] is None
    assert facts["usd_per_million_tokens"] is None
    text = CliRunner().invoke(cli, ["estimate", *asked]).output
    assert "no speed" in text
    assert "tokens/s" not in text
    assert "$ per million" not in text
