"""Numbers that are set: each changes what it names, by the factor that it says, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.hardware.changes import UNITS, changed_system
from rackmath.io import catalogue
from rackmath.models.config.changes import changed_config
from rackmath.models.counts import total_params

H100 = catalogue.system("h100-sxm")


def numbers(system: Any) -> dict[str, Any]:
    chip = {f"chip.{f.name}": getattr(system.chip, f.name) for f in fields(system.chip)}
    return {f.name: getattr(system, f.name) for f in fields(system) if f.name not in ("chip", "sources")} | chip


@pytest.mark.parametrize("key", [key for key in UNITS if key != "power_cap"])
def test_twice_is_twice_and_nothing_else_moves(key: str) -> None:
    before, after = numbers(H100), numbers(changed_system(H100, key, "2x"))
    moved = {name for name in before if before[name] != after[name]}
    expected = {
        "bandwidth": {"chip.memory_bandwidth"},
        "memory": {"chip.memory_capacity", "chip.visible_memory"},
        "flops": {"chip.rates", "chip.vector_rate"},
        "power": {"chip.power"},
        "scale_up_latency": {"scale_up"},
        "scale_out_latency": {"scale_out"},
    }.get(key, {key})
    assert moved == expected
    name = sorted(expected)[0]
    old, new = before[name], after[name]
    if key == "flops":
        assert after["chip.vector_rate"] == 2 * before["chip.vector_rate"]
        assert dict(new) == {form: 2 * rate for form, rate in old}
    elif key.startswith("scale"):
        part = "latency" if key.endswith("latency") else "bandwidth"
        assert getattr(new, part) == 2 * getattr(old, part)
    else:
        assert new == 2 * old


@given(st.floats(1.0, 1e4))
def test_values_have_units(value: float) -> None:
    assert changed_system(H100, "chip.capacity", f"{value}GB").chip.memory_capacity == pytest.approx(value * 1e9)
    assert changed_system(H100, "price", f"{value}").price == pytest.approx(value / 3600)
    assert changed_system(H100, "price", f"{value}$/h").price == pytest.approx(value / 3600)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bandwidth", "0"),
        ("bandwidth", "-2x"),
        ("flops", "1e15"),
        ("colour", "2x"),
        ("bandwidth", "nan"),
        ("domain", "x"),
    ],
)
def test_bad_changes_are_refused(key: str, value: str) -> None:
    with pytest.raises(InputError):
        changed_system(H100, key, value)


def test_what_nobody_says_has_no_factor() -> None:
    with pytest.raises(InputError, match="nobody says"):
        changed_system(replace(H100, host_link=None), "host_link", "2x")
    with pytest.raises(InputError, match="network"):
        changed_system(catalogue.system("m2-ultra"), "scale_up", "2x")


def test_names_carry_changes() -> None:
    system = catalogue.system("h100-sxm[bandwidth=2x;price=2.5]")
    assert system.chip.memory_bandwidth == 2 * H100.chip.memory_bandwidth
    assert system.name == "h100-sxm[bandwidth=2x;price=2.5]"
    assert catalogue.system(system.name) == system
    with pytest.raises(InputError, match="key=value"):
        catalogue.system("h100-sxm[bandwidth]")


def test_a_model_with_twice_the_layers_or_experts() -> None:
    """Parameters outside of the layers stay: 32 more layers of Llama are 32 / 32 of those in its layers."""
    small, large = catalogue.model("llama-3.1-8b"), catalogue.model("llama-3.1-8b[layers=2x]")
    outside = 2 * small.vocabulary * small.hidden + small.hidden
    assert total_params(large) - outside == 2 * (total_params(small) - outside)
    assert large.name == "llama-3.1-8b[layers=2x]"
    mixture = catalogue.model("deepseek-v3[experts=512;top_k=16]")
    one = 3 * 7168 * 2048
    assert total_params(mixture) - total_params(catalogue.model("deepseek-v3")) == 58 * 256 * (one + 7168)


def test_lists_per_layer_follow_the_layers() -> None:
    config = {"num_hidden_layers": 4, "layer_types": ["a", "b", "a", "b"], "other": [1, 2, 3]}
    changed = changed_config(config, "layers", "6")
    assert changed == {"num_hidden_layers": 6, "layer_types": ["a", "b", "a", "b", "a", "b"], "other": [1, 2, 3]}
    assert config["num_hidden_layers"] == 4
    nested = changed_config({"text_config": {"hidden_size": 64}, "hidden_size": 7}, "hidden", "0.5x")
    assert nested == {"text_config": {"hidden_size": 32}, "hidden_size": 7}


@pytest.mark.parametrize(
    ("key", "value"), [("experts", "2x"), ("layers", "0"), ("layers", "x"), ("layers", "1e9"), ("rope", "2x")]
)
def test_bad_numbers_of_models_are_refused(key: str, value: str) -> None:
    with pytest.raises(InputError):
        catalogue.model(f"llama-3.1-8b[{key}={value}]")


@pytest.mark.parametrize("name", catalogue.model_names())
def test_once_the_layers_is_the_same_model(name: str) -> None:
    """All models of the catalogue but the one whose layers are a list."""
    if name == "nemotron-3-ultra":
        with pytest.raises(InputError, match="it has hidden"):
            catalogue.model(f"{name}[layers=1x]")
        return
    assert total_params(catalogue.model(f"{name}[layers=1x]")) == total_params(catalogue.model(name))


def printed(*words: str) -> str:
    result = CliRunner().invoke(cli, words, catch_exceptions=True)
    return result.output if result.exit_code == 0 else str(result.exception)


def test_commands_take_changes() -> None:
    words = (
        "estimate",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--gpus",
        "1",
        "--batch",
        "1",
        "--context",
        "1k",
        "--ideal",
    )
    before, after = printed(*words, "--json"), printed(*words, "--set", "bandwidth=2x", "--json")
    assert '"system": "h100-sxm[bandwidth=2x]"' in after
    assert before != after
    assert "key=value" in printed(*words, "--set", "bandwidth")
    assert "names no model to change" in printed(
        "lecture", "sparsity", "--on", "h100-sxm", "--dense", "1e9", "--set", "model.x=1"
    )


def test_brackets_of_names_are_printed() -> None:
    text = printed(
        "compare", "llama-3.1-8b", "--on", "h100-sxm[bandwidth=2x]", "--gpus", "1", "--input", "1k", "--output", "100"
    )
    assert "h100-sxm[band" in text.replace("\n", "")


@given(st.text(alphabet="h100-sxm[]=;.x2 ", max_size=30))
def test_any_name_is_read_or_refused(name: str) -> None:
    for read in (catalogue.system, catalogue.model):
        try:
            read(name)
        except InputError as error:
            assert str(error)
