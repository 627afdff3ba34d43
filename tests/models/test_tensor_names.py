"""Rules of quantised configs: matched as fnmatch does, and bounded, for a config comes from anybody."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import regex
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.config import tensor_names
from rackmath.models.config.tensor_names import checked, matches

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
    "tie_word_embeddings": False,
}  # fmt: skip
NAMES = st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True)


def ignoring(*patterns: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}
    block = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(patterns)}
    return CONFIG | {"quantization_config": block}


def model(folder: Path, config: dict[str, Any]):
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return catalogue.model(str(path))


@given(NAMES, NAMES)
def test_a_rule_without_wildcards_matches_as_fnmatch_does(pattern: str, name: str) -> None:
    expected = fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*") or fnmatchcase(name, "*" + pattern)
    if not name.startswith(tensor_names._BLOCKS):
        assert matches(pattern, name) == expected


def test_an_expression_keeps_what_it_names_in_16_bit(tmp_path: Path) -> None:
    model(tmp_path, ignoring("re:.*self_attn\\.o_proj$"))
    assert matches("re:.*self_attn\\.o_proj$", "self_attn.o_proj")
    assert not matches("re:.*self_attn\\.o_proj$", "self_attn.q_proj")
    assert matches("re:^(?!.*q_proj).*self_attn.*", "self_attn.o_proj")


@pytest.mark.parametrize(
    "pattern",
    ["re:(([a-z_.0]+)*)+!$", "re:(([a-z_.0]+)*)+[A-Z]$", "re:(?:(?:[a-z]+[._]?)+)+[A-Z]", "re:.*.*.*.*.*.*.*.*[A-Z]$"],
)
def test_no_pattern_of_a_config_runs_for_long(tmp_path: Path, pattern: str) -> None:
    began = perf_counter()
    try:
        model(tmp_path, ignoring(pattern))
    except InputError as error:
        assert "takes too long" in str(error)
    # Python's own engine needs longer than anybody waits; a busy machine is given its time.
    assert perf_counter() - began < 20


def test_a_pattern_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any, **options: Any) -> None:
        assert options["concurrent"]
        assert 0 < options["timeout"] <= 5
        raise TimeoutError

    monkeypatch.setattr(regex, "match", slow)
    with pytest.raises(InputError, match="takes too long"):
        matches("re:never seen before", "self_attn.q_proj")


def test_an_expression_that_takes_much_work_is_refused_though_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 0.06, 1.0, 1.04))
    monkeypatch.setattr(tensor_names, "thread_time", lambda: next(clock))
    with pytest.raises(InputError, match="takes too long"):
        matches("re:much work", "self_attn.q_proj")
    monkeypatch.setattr(tensor_names, "_spellings", lambda name: (name,))
    assert not matches("re:some work", "self_attn.q_proj")


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["re:(("], "no regular expression"),
        (["x" * 501], "at most 500 characters"),
        (["a*"] * 1001, "1,000 for all layers"),
        (["re:a"] * 101, "at most 100"),
        ([f"model.layers.{i}.mlp" for i in range(200_001)], "at most 200,000"),
    ],
)
def test_rules_that_are_too_many_too_long_or_broken_are_refused(patterns: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(patterns, "ignore")


def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(ignoring("re:((")), encoding="utf-8")
    result = CliRunner().invoke(cli, ["model", str(path)])
    assert isinstance(result.exception, InputError)
    assert "\n" not in str(result.exception)
