"""Figures of training that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.training.activations import kept
from rackmath.training.budget import Life
from rackmath.training.options import Recipe, all_options
from rackmath.training.pipelines import StageTimes, run
from rackmath.training.rollouts import Array, Loop, writing_time


def test_what_a_layer_of_experts_keeps() -> None:
    """Mixtral by hand: queries, keys and values, what the last product reads, router, two experts, norms."""
    mixtral = catalogue.model("mixtral-8x7b")
    attention, router, norms = 4096 + 2 * 1024 + 4096, 8, 2 * 2 * 4096
    experts = 2 * (14336 + 14336 + 14336) + 2 * 4096
    again = 4096 + 2 * 14336 + norms // 2
    assert kept(mixtral, "none") == (32 * 2 * (attention + router + experts + norms), 0)
    assert kept(mixtral, "selective") == (32 * 2 * (attention + router + experts + norms - again), 0)
    assert kept(mixtral, "full") == (32 * 2 * 4096, 2 * (attention + router + experts + norms))


def test_stages_are_interleaved_as_soon_as_each_chunk_has_a_layer_and_each_stage_a_micro_batch() -> None:
    """32 layers on 16 stages in two chunks each, with 16 micro-batches: the least of both. Eight are too few."""
    for sequences, chunks in ((16.0, {1.0, 2.0}), (8.0, {1.0})):
        recipe = Recipe(sequences=sequences, length=4096)
        options = all_options(catalogue.model("mixtral-8x7b"), catalogue.system("h100-sxm"), 16, recipe)
        deep = [chunk for layout, chunk in zip(options.layouts, options.chunks, strict=True) if layout.pipeline == 16]
        assert set(deep) == chunks


def test_experts_are_spread_over_every_group_that_divides() -> None:
    """Over none, or over whole tensor groups that divide tensor times data ranks and the experts."""
    options = all_options(
        catalogue.model("mixtral-8x7b"), catalogue.system("h100-sxm"), 16, Recipe(sequences=64, length=4096)
    )
    spread = {(layout.tensor, layout.pipeline, layout.expert) for layout in options.layouts}
    expected = {
        (tensor, stages, expert)
        for tensor in (1, 2, 4, 8)
        for stages in (1, 2, 4, 8, 16)
        for expert in (1, 2, 4, 8)
        if 16 % (tensor * stages) == 0 and (expert == 1 or (expert % tensor == 0 and (16 // stages) % expert == 0))
    }
    assert spread == expected


@pytest.mark.parametrize(("layers", "gpus", "stages"), [(35, 36, {1, 2, 3, 4, 6, 12}), (32, 32, {1, 2, 4, 8, 16, 32})])
def test_stages_are_from_one_to_all_layers(layers: int, gpus: int, stages: set[int]) -> None:
    """Beyond eight they divide the layers or by four: nine and eighteen of 36 do not, and 36 are more than 35 layers."""
    llama = catalogue.model("llama-3.1-8b")
    deep = replace(llama, layers=llama.layers[:1] * layers)
    options = all_options(deep, catalogue.system("h100-sxm"), gpus, Recipe(sequences=72.0 * gpus, length=4096))
    assert {float(layout.pipeline) for layout in options.layouts} == stages
    for layout in options.layouts:
        assert layout.tensor * layout.pipeline * layout.data == gpus


def test_answers_that_follow_others_are_read_at_their_mean_age() -> None:
    """Steps as long as their context. A token of answers up to 2 A, evenly long, has 2 A / 3 before it in the mean."""
    loop = Loop(rollouts=1, answer=1000, prompt=500, straggler_ratio=2.0)

    def step(batch: Array, context: Array) -> Array:
        return 1e-6 * (context + 0 * batch)

    once, thrice = (float(writing_time(10.0 * n, loop, np.array([10.0]), step)[0]) for n in (1, 3))
    assert thrice - once == pytest.approx(2 * 1000 * 1e-6 * (500 + 2 * 1000 / 3))


def test_efficiencies_lie_between_a_ten_thousandth_and_a_hundred() -> None:
    for name in ("decode_efficiency", "prefill_efficiency"):
        for value in (1e-4, 100.0):
            Life(**{name: value})
        for value in (0.9e-4, 101.0):
            with pytest.raises(InputError, match=name.replace("_", "-")):
                Life(**{name: value})


def test_long_schedules_stop_where_less_than_a_pass_is_left() -> None:
    ran = run("zb-2p", 8, 2600, StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0))
    assert 0 <= ran.longest_span - ran.work < 1.0
