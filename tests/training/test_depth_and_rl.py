"""Activation memory against depth on measured runs, and the loop of reinforcement learning in closed form."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.training.depth import OVERHEAD, WAYS, below_from, depths, memory_with_depth
from rackmath.training.rollouts import Array, Loop, Servers, StepTime, loop_cost, writing_time

ROWS = Path(__file__).parents[3] / "shared/training/validation.csv"
MEASURED = {"std": "standard", "ckpt": "per block", "sqrt": "sqrt", "rev": "reversible"}
MIB = 2.0**20


def measured() -> dict[str, dict[int, float]]:
    if not ROWS.exists():
        pytest.skip("../shared/training is not here")
    found: dict[str, dict[int, float]] = {}
    with ROWS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "reversible-memory":
                config = dict(part.split("=", 1) for part in row["config"].split(";"))
                if config["mode"] in MEASURED:
                    found.setdefault(MEASURED[config["mode"]], {})[int(config["layers"])] = float(row["value"])
    return found


def test_memory_against_depth_as_measured() -> None:
    """Blocks of width 256 on 1,024 tokens at 32 bit; what a layer keeps and what works beside it are read off the standard
    run at two depths, the rest follows: a boundary is 1 MiB."""
    rows = measured()
    layer = (rows["standard"][32] - rows["standard"][4]) / 28
    beside = rows["standard"][4] - 4 * layer
    for way, known in rows.items():
        for layers, value in known.items():
            # A block that is computed again needs a working set of the same size as any.
            said = memory_with_depth(layer, 1.0, layers, way) + beside
            assert said == pytest.approx(value, rel=0.05, abs=3.0), (way, layers)
    # The slope of recomputation per block is one boundary, exactly; reversible layers have none.
    assert (rows["per block"][32] - rows["per block"][4]) / 28 == pytest.approx(1.0)
    assert memory_with_depth(layer, 1.0, 32, "per block") - memory_with_depth(
        layer, 1.0, 4, "per block"
    ) == pytest.approx(28)
    assert len(set(rows["reversible"].values())) == 1
    assert memory_with_depth(layer, 1.0, 32, "reversible") == memory_with_depth(layer, 1.0, 4, "reversible")


@given(layer=st.floats(2, 60), layers=st.integers(1, 400))
def test_ways_are_ordered(layer: float, layers: int) -> None:
    found = {way: memory_with_depth(layer, 1.0, layers, way) for way in WAYS}
    assert found["per block"] <= layers * layer + layer
    assert found["reversible"] <= found["per block"] + 1
    assert found["standard"] == layers * layer
    # Chen's bound: two square roots of the depth.
    assert found["sqrt"] <= (layers**0.5 + 1.5) * layer + layers**0.5 + 1


def test_one_more_layer_per_block_keeps_its_input_in_sixteen_bits() -> None:
    model = catalogue.model("llama-3.1-70b")
    deep, deeper = ({d.way: d.memory for d in depths(model, layers)} for layers in (80, 81))
    assert deeper["per block"] - deep["per block"] == pytest.approx(2 * 8192)
    assert deeper["reversible"] == deep["reversible"]
    # Two streams of inputs, and what one layer keeps.
    assert deep["reversible"] == pytest.approx(2 * 2 * 8192 + (deeper["standard"] - deep["standard"]))


def test_where_reversible_layers_pay() -> None:
    model = catalogue.model("llama-3.1-70b")
    assert below_from(model, "reversible") == 3
    turn = below_from(model, "sqrt")
    for layers, better in ((turn, True), (turn - 1, False)):
        ways = {one.way: one.memory for one in depths(model, layers)}
        assert (ways["sqrt"] < ways["per block"]) is better
    assert OVERHEAD["reversible"] == pytest.approx(1 / 3)
    with pytest.raises(InputError, match="any depth"):
        below_from(model, "standard")


def server(step: Callable[[Array, Array], Array], seats: float = 1e9, read: float = 0.0) -> Servers:
    return Servers(gpus=8, step=step, sequences=np.array([seats]), read=read)


def constant(seconds: float) -> StepTime:
    return lambda batch, context: np.full(np.broadcast_shapes(batch.shape, context.shape), seconds)


def per_sequence(seconds: float) -> StepTime:
    return lambda batch, context: seconds * batch + 0 * context


COSTS = {"train": 6e-4, "flops_read": 1e11, "flops_train": 3e11}


@given(
    rollouts=st.integers(1, 10_000), answer=st.floats(1, 1e5), prompt=st.floats(1, 1e5), trained=st.floats(0.01, 1),
    straggle=st.floats(1, 10), many=st.integers(1, 100), refresh=st.floats(0, 1e3),
)  # fmt: skip
def test_a_step_waits_for_its_longest_answer_one_token_after_the_other(
    rollouts: int, answer: float, prompt: float, trained: float, straggle: float, many: int, refresh: float
) -> None:
    """Steps that take as long at any batch: as many as the longest answer has tokens, however many accelerators."""
    loop = Loop(rollouts=rollouts, answer=answer, prompt=prompt, training_share=trained, straggler_ratio=straggle)
    cost = loop_cost(loop, 8 * many, server(constant(0.01), read=1e-5), refresh=refresh, **COSTS)
    training = trained * rollouts * (prompt + answer) * 6e-4 / (8 * many)
    reading = math.ceil(rollouts / many) * prompt * 1e-5
    assert cost.writing_time == pytest.approx(straggle * answer * 0.01)
    assert cost.training_time == pytest.approx(training)
    assert cost.generation_time == pytest.approx(reading + straggle * answer * 0.01)
    assert cost.time == pytest.approx(cost.generation_time + training + refresh)


@given(answer=st.floats(100, 1e5), straggle=st.floats(1, 10), each=st.integers(1, 5000))
def test_steps_as_long_as_their_batch_take_all_tokens(answer: float, straggle: float, each: int) -> None:
    """Where a step takes a time per sequence, a server's time is that of its tokens, but for the last answer's."""
    loop = Loop(rollouts=each, answer=answer, prompt=1, straggler_ratio=straggle)
    made = float(writing_time(each, loop, np.array([1e9]), per_sequence(1e-3))[0])
    tokens = each * answer * 1e-3
    # The steps of the last answer are whole ones: part of a sequence cannot run.
    assert tokens * 0.98 <= made <= tokens * 1.03 + straggle * answer * 1e-3


@given(seats=st.integers(1, 100), times=st.integers(1, 50), straggle=st.floats(1, 4))
def test_answers_beyond_the_seats_follow_those_that_end(seats: int, times: int, straggle: float) -> None:
    loop = Loop(rollouts=1, answer=1000, prompt=1, straggler_ratio=straggle)
    made = float(writing_time(seats * times, loop, np.array([float(seats)]), constant(0.01))[0])
    assert made == pytest.approx((times - 1) * 1000 * 0.01 + straggle * 1000 * 0.01)


def test_contexts_grow_by_what_was_written() -> None:
    """Steps as long as their context: the sum over an answer of P + q."""
    loop = Loop(rollouts=1, answer=1000, prompt=500, straggler_ratio=1.0)
    made = writing_time(1, loop, np.array([9.0]), lambda batch, context: 1e-6 * (context + 0 * batch))
    assert float(made[0]) == pytest.approx(1e-6 * (1000 * 500 + 1000**2 / 2))


@pytest.mark.parametrize("refresh", [0.0, 5.0])
@pytest.mark.parametrize("lag", [1, 3, 50])
def test_overlap_takes_the_longer_of_both_on_the_best_division(lag: int, refresh: float) -> None:
    """Every number of servers tried: the loop's is the best of them."""
    servers = server(lambda batch, context: 0.01 + 1e-4 * batch + 1e-7 * context, seats=256)
    loop = Loop(rollouts=4000, answer=2000, prompt=300, straggler_ratio=3.0, lag=lag)
    cost = loop_cost(loop, 512, servers, refresh=refresh, **COSTS)
    times: list[float] = []
    for many in range(1, 64):
        each = math.ceil(4000 / many) * lag
        wrote = float(writing_time(each, loop, servers.sequences, servers.step)[0]) / lag
        times.append(max(wrote + refresh, 4000 * 2300 * 6e-4 / (512 - 8 * many)))
    assert cost.time == pytest.approx(min(times))
    assert cost.servers == 1 + times.index(min(times))
    # An answer of a step may take as many steps as rollouts may be old, and no fewer.
    assert lag * cost.time >= 3.0 * 2000 * 0.01
    assert cost.decode_efficiency == pytest.approx(
        4000 * 2000 * 1e11 / (cost.servers * 8 * cost.writing_time) / (3e11 / 6e-4)
    )


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(InputError, match="--gpus"):
        loop_cost(Loop(rollouts=8, answer=10, prompt=10, lag=1), 8, server(constant(1.0)), **COSTS)
    with pytest.raises(InputError, match="refresh"):
        loop_cost(Loop(rollouts=8, answer=10, prompt=10), 8, server(constant(1.0)), refresh=-1.0, **COSTS)


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["train", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_rollouts_go_through_the_serving_engine() -> None:
    asked = ["rl", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "256", "--steps", "100"]
    plain, late = run(*asked), run(*asked, "--lag", "1")
    assert late["days"] < plain["days"]
    assert plain["days_range"][0] < plain["days"] < plain["days_range"][1]
    assert plain["tokens_written"] == 100 * 4096 * 8000
    assert plain["tokens_trained"] == 100 * 4096 * 8512
    assert plain["step_time"] == pytest.approx(
        plain["generation_time"] + plain["training_time"] + plain["refresh_time"]
    )
    assert plain["gpu_hours"] == pytest.approx(plain["days"] * 24 * 256)
    half = run(*asked, "--trained", "0.5")
    assert half["training_time"] == pytest.approx(plain["training_time"] / 2, rel=0.1)
    assert "one step off" in " ".join(late["assumptions"])


def test_few_rollouts_take_as_long_as_one_answer() -> None:
    """Eight answers of 16,000 tokens on 32 servers: each is written alone, at the time of a single decode step."""
    asked = ["rl", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "256", "--rollouts", "8", "--straggle", "1"]
    cost = run(*asked, "--answer", "16000")
    alone = CliRunner().invoke(
        cli,
        ["estimate", "llama-3.1-70b", "--on", "h100-sxm", "--layout", cost["server_layout"], "--batch", "1",
         "--context", "8512", "--json"],
    )  # fmt: skip
    step = json.loads(alone.stdout)["time"]
    assert cost["generation_time"] == pytest.approx(16_000 * step, rel=0.03)
    assert cost["cost"]["decode_efficiency"] < 0.01


def test_depth_as_json_and_picture(tmp_path: Path) -> None:
    found = run("depth", "llama-3.1-8b", "--layers", "32,64", "--tokens", "1000")
    assert len(found["depths"]) == 8
    standard = next(one for one in found["depths"] if one["way"] == "standard" and one["layers"] == 64)
    assert standard["bytes"] == pytest.approx(1000 * 64 * 4096 * 34)
    out = tmp_path / "depth.svg"
    CliRunner().invoke(cli, ["train", "depth", "llama-3.1-8b", "--plot", str(out)])
    assert out.stat().st_size > 3000


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["depth", "llama-3.1-8b", "--layers", "0"], "--layers"),
        (["depth", "llama-3.1-8b", "--layers", "x"], "--layers"),
        (["depth", "llama-3.1-8b", "--tokens", "nan"], "--tokens"),
        (["rl", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "8", "--rollouts", "-1"], "--rollouts"),
        (["rl", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "8", "--straggle", "0"], "--straggle"),
        (["rl", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "8", "--lag", "-1"], "--lag"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], field: str) -> None:
    result = CliRunner().invoke(cli, ["train", *arguments])
    assert isinstance(result.exception, InputError)
    assert field in str(result.exception)
