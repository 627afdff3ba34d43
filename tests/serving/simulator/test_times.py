"""Tables of step times against the engine that filled them."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.engine.timer import engine_timer
from rackmath.io import catalogue
from rackmath.serving.simulator.times import step_times
from tests.conftest import make_system


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
@pytest.mark.parametrize(
    ("prompts", "length", "cached_tokens"), [(1, 2000, 0), (4, 2000, 0), (16, 500, 0), (64, 128, 0), (4, 2000, 1000)]
)
def test_prompts_of_one_step_attend_to_their_own_tokens(
    model: str, prompts: int, length: int, cached_tokens: int
) -> None:
    """A step of 8,192 tokens reads four prompts of 2,000: each token attends to a thousand in the mean, not to 4,096."""
    system, layout = make_system(), Layout()
    timer = engine_timer(catalogue.model(model), system, None)
    tables = step_times(
        layout, timer, max_num_seqs=8, max_num_batched_tokens=8192, draft_tokens=0.0, shortest=100.0, longest=2100.0
    )
    tokens = prompts * length
    said = tables.prompt[tokens] + tables.pair * tokens * (cached_tokens + (length + 1) / 2)
    engine = timer(
        "prefill",
        layout,
        np.array([float(prompts)]),
        np.array([float(cached_tokens + length)]),
        0.0,
        float(cached_tokens),
    )
    assert said == pytest.approx(float(np.asarray(engine)[0]), rel=0.04)
    assert tables.error < 0.04


def test_pieces_of_a_long_prompt_attend_to_those_before_them() -> None:
    system, layout = make_system(), Layout()
    timer = engine_timer(catalogue.model("llama-3.1-8b"), system, None)
    tables = step_times(
        layout, timer, max_num_seqs=8, max_num_batched_tokens=2048, draft_tokens=0.0, shortest=100.0, longest=32_000.0
    )
    for before in (0.0, 8192.0, 28_000.0):
        engine = timer("prefill", layout, 1.0, before + 2048.0, 0.0, before)
        assert tables.prompt[2048] + tables.pair * 2048 * (before + 1024.5) == pytest.approx(float(engine), rel=0.03)


@pytest.mark.parametrize("layout", [Layout(), Layout(tensor=2, data=2), Layout(pipeline=2)])
def test_decode_steps_are_those_of_all_groups_and_stages(layout: Layout) -> None:
    """Eight sequences of each of two groups are a batch of sixteen; so are those of two stages."""
    timer = engine_timer(catalogue.model("llama-3.1-8b"), make_system(), None)
    settings = {"max_num_seqs": 64, "max_num_batched_tokens": 512, "draft_tokens": 0.0, "shortest": 100.0}
    tables = step_times(layout, timer, **settings, longest=4000.0, turns=float(layout.pipeline))
    assert tables.base[0] == tables.slope[0] == tables.prompt[0] == 0
    for batch in (1, 8, 64):
        engine = timer("decode", layout, float(batch * layout.data * layout.pipeline), 2000.0, 0.0)
        assert tables.base[batch] + tables.slope[batch] * batch * 2000.0 == pytest.approx(float(engine), rel=0.01)


@pytest.mark.parametrize("prompts", [1, 4])
def test_prompts_of_one_micro_batch_pass_all_stages_together(prompts: int) -> None:
    """Of four stages each takes a fourth of the layers: a micro-batch takes as long as on one accelerator, and sending."""
    timer = engine_timer(catalogue.model("llama-3.1-8b"), make_system(), None)
    settings = {"max_num_seqs": 8, "max_num_batched_tokens": 8192, "draft_tokens": 0.0, "shortest": 100.0}
    one, four = (
        step_times(Layout(pipeline=stages), timer, **settings, longest=2100.0, turns=float(stages)) for stages in (1, 4)
    )
    assert four.prompt[2000 * prompts] == pytest.approx(one.prompt[2000 * prompts], rel=0.08)


def test_tables_follow_the_leaps_of_a_pipeline_that_is_filled_piece_by_piece() -> None:
    """A piece more is a turn of a stage more: 512 tokens over four cards take four turns, 513 five."""
    timer = engine_timer(catalogue.model("llama-3.1-8b"), make_system(), None, piece=512.0)
    settings = {"max_num_seqs": 4, "max_num_batched_tokens": 2048, "draft_tokens": 0.0, "shortest": 100.0}
    layout = Layout(pipeline=4)
    tables = step_times(layout, timer, **settings, longest=2100.0, piece=512.0)
    assert tables.error < 0.02
    for tokens in (512, 513, 1000, 1024, 1025, 2048):
        said = tables.prompt[tokens] + tables.pair * tokens * (tokens + 1) / 2
        assert said == pytest.approx(float(timer("prefill", layout, 1.0, float(tokens), 0.0, 0.0)), rel=0.02)


@pytest.mark.parametrize("layout", [Layout(), Layout(data=4), Layout(pipeline=4), Layout(pipeline=2, data=2)])
def test_a_part_of_a_prompt_costs_its_part_in_every_layout(layout: Layout) -> None:
    """Five quarters of a prompt lie between one and two: a largest of four parts of five would be two."""
    timer = engine_timer(catalogue.model("llama-3.1-8b"), make_system(), None)
    turns = float(layout.pipeline)
    tables = step_times(
        layout, timer, max_num_seqs=8, max_num_batched_tokens=8192, draft_tokens=0.0, shortest=100.0, longest=2000.0,
        turns=turns,
    )  # fmt: skip
    one, two = (
        float(timer("prefill", layout, layout.data * turns * n, 2000.0, 0.0, 0.0)) * turns / (2 * turns - 1)
        for n in (1.0, 2.0)
    )
    said = tables.prompt[2500] + tables.pair * 2500 * 1000.5
    assert said == pytest.approx(one + 0.25 * (two - one), rel=0.03)
    assert tables.error < 0.04
