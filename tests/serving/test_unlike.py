"""Layers on unlike accelerators: llama.cpp's rule, the best split against all of them, and times that add up."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import rackmath as rm
from rackmath.api.split import Run, split, systems_of
from rackmath.cli.app import cli
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.io.constants_file import NOW
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.unlike import (
    CardLoad,
    LayerSizes,
    by_memory,
    by_shares,
    by_speed,
    fits,
    held,
    prompt_time,
    seconds,
    tensor_split,
)

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(lambda counts: sum(counts) > 0)


def split_of(
    model: str, *cards: str, context: float = 8192.0, weights: str = "q4_k_m", engine: str = "llama.cpp"
) -> dict[str, Any]:
    architecture = requantise(catalogue.model(model), weights=weight_format(weights))
    return split(architecture, systems_of(cards), Run(batch=1, context=context, engine=engine, year=NOW, ideal=False))


def cards_of(draw_times: list[list[float]], rooms: list[float]) -> list[CardLoad]:
    return [CardLoad(room=room, times=tuple(times), outside=0.5) for times, room in zip(draw_times, rooms, strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 6))
def test_no_split_is_faster_than_the_one_by_speed(data: st.DataObject, count: int, layers: int) -> None:
    times = data.draw(
        st.lists(st.lists(st.floats(0.1, 9), min_size=layers, max_size=layers), min_size=count, max_size=count)
    )
    rooms = data.draw(st.lists(st.floats(0.5, 8), min_size=count, max_size=count))
    sizes = LayerSizes(
        layers=tuple(data.draw(st.lists(st.floats(0.2, 2), min_size=layers, max_size=layers))), outside=0.3
    )
    cards = cards_of(times, rooms)
    every = [
        counts
        for counts in product(range(layers + 1), repeat=count)
        if sum(counts) == layers and fits(cards, sizes, counts)
    ]
    ours = by_speed(cards, sizes)
    if ours is None:
        assert not every
    else:
        assert fits(cards, sizes, ours)
        assert all(sum(seconds(cards, ours)) <= sum(seconds(cards, counts)) + 1e-9 for counts in every)


def test_a_layer_as_large_as_its_memory_fits() -> None:
    """0.2 + 0.8174745047203708 - 0.2 is more than 0.8174745047203708 in floating point."""
    sizes = LayerSizes(layers=(0.2, 0.8174745047203708, 0.5), outside=0.3)
    assert by_speed(cards_of([[1.0] * 3] * 3, [1.0, 0.8174745047203708, 1.0]), sizes) == [1, 1, 1]


def test_llama_cpp_s_rule_by_hand() -> None:
    """24 and 12 GB, 32 layers: layers 0 to 21 lie below 2/3 of 33, the other 10 and the output do not."""
    cards = [CardLoad(room=24e9, times=(1.0,) * 32, outside=0.0), CardLoad(room=12e9, times=(1.0,) * 32, outside=0.0)]
    assert by_memory(cards, LayerSizes(layers=(1e9,) * 32, outside=0.0)) == [22, 10]


@given(COUNTS)
def test_the_printed_flag_deals_what_it_says(counts: list[int]) -> None:
    assert by_shares(tensor_split(counts), sum(counts)) == counts


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=5), st.integers(1, 100))
def test_a_prompt_takes_between_the_longest_stage_and_all_of_them(stages: list[float], pieces: int) -> None:
    time = prompt_time(stages, pieces)
    assert max(stages) - 1e-12 <= time <= sum(stages) + 1e-12
    assert prompt_time(stages, 1) == pytest.approx(sum(stages))


def test_one_accelerator_takes_what_the_estimate_says() -> None:
    way = split_of("llama-3.1-8b", "rtx-4090", context=4000)["ways"][1]
    alone = rm.estimate(
        "llama-3.1-8b", rm.load_system("rtx-4090", gpus=1), batch=1, context=4000, weights="q4_k_m",
        engine="llama.cpp", no_evidence=True,
    )  # fmt: skip
    assert way["time"] == pytest.approx(alone.time)
    assert way["bytes"][0] == pytest.approx(float(alone.step.memory.total))


def test_equal_accelerators_take_together_what_one_would_with_room_for_all() -> None:
    one = split_of("qwen3-8b", "rtx-3090")["ways"]
    two = split_of("qwen3-8b", "rtx-3090:2")["ways"]
    assert two[0]["time"] == pytest.approx(one[0]["time"])
    assert sum(two[0]["layers"]) == sum(one[0]["layers"])
    assert two[0]["prompt_tokens_per_second"] > 1.5 * one[0]["prompt_tokens_per_second"]


def test_a_mixture_with_dense_layers_is_split_layer_by_layer() -> None:
    facts = split_of("deepseek-v3", "h200-sxm:4", "h100-sxm:4", weights="fp8", engine="vllm")
    assert [sum(way["layers"]) for way in facts["ways"]] == [61, 61]
    assert sum(facts["ways"][1]["bytes"]) == pytest.approx(facts["bytes"])
    assert facts["ways"][1]["time"] <= (facts["ways"][0]["time"] or float("inf"))


def test_bytes_are_kept_whole() -> None:
    sizes = LayerSizes(layers=(1.0, 2.0, 3.0), outside=0.5)
    assert held(sizes, [2, 0, 1]) == [3.0, 0.0, 3.5]
    assert held(sizes, [3, 0]) == [6.5, 0.0]


@pytest.mark.parametrize(
    ("cards", "message"),
    [
        (("rtx-4090:0",), "how many"),
        (("rtx-4090:x",), "how many"),
        (("rtx-4090:99",), "64 at most"),
        (("no-such-card",), "no-such-card"),
    ],
)
def test_cards_that_cannot_be_meant(cards: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_of("llama-3.1-70b", *cards)


def test_fit_deals_layers_to_unlike_cards() -> None:
    asked = ["fit", "--on", "rtx-4090", "--card", "rtx-3090:2", "--models", "llama-3.1-70b", "--weights", "q4_k_m"]
    text = CliRunner().invoke(cli, asked, catch_exceptions=False).output
    assert "layers by memory" in text
    assert "layers by speed" in text
    assert "--tensor-split" in text
    row = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)[0]
    assert row["time"] == pytest.approx(split_of("llama-3.1-70b", "rtx-4090", "rtx-3090:2")["ways"][1]["time"])


def test_more_models_fit_beside_another_card() -> None:
    def models(*more: str) -> set[str]:
        asked = ["fit", "--on", "rtx-4090", *more, "--engine", "llama.cpp", "--models", "llama-3.1-8b,llama-3.1-70b"]
        return {row["model"] for row in json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)}

    assert models() == {"llama-3.1-8b"}
    assert models("--card", "rtx-3090") == {"llama-3.1-8b", "llama-3.1-70b"}


def test_what_does_not_fit_says_by_how_much() -> None:
    with pytest.raises(DoesNotFit, match=r"do not fit 11\.4 GB"):
        split_of("llama-3.1-70b", "rtx-3060")
