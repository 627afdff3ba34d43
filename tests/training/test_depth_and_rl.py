"""Activation memory against depth on measured runs, and the loop of reinforcement learning in closed form."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath import catalogue
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.training.depth import OVERHEAD, WAYS, below_from, depths, memory_with_depth
from rackmath.training.rollouts import Loop, loop_cost

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


COSTS = {"read": 1e-4, "write": 1e-3, "train": 6e-4, "flops_read": 1e11, "flops_train": 3e11}


@given(
    rollouts=st.floats(1, 1e5), answer=st.floats(1, 1e5), prompt=st.floats(1, 1e5), trained=st.floats(0.01, 1),
    straggle=st.floats(1, 10), gpus=st.floats(1, 1e4),
)  # fmt: skip
def test_a_step_of_the_loop(
    rollouts: float, answer: float, prompt: float, trained: float, straggle: float, gpus: float
) -> None:
    base = {"rollouts": rollouts, "answer": answer, "prompt": prompt, "trained": trained, "straggle": straggle}
    waits, flows = (loop_cost(Loop(**base, lag=lag), gpus, **COSTS) for lag in (0, 2))
    read, write = rollouts * prompt * 1e-4, rollouts * answer * 1e-3
    train = trained * rollouts * (prompt + answer) * 6e-4
    assert waits.time == pytest.approx((read + straggle * write + train) / gpus)
    assert flows.time == pytest.approx((read + write + train) / gpus)
    assert flows.writers == pytest.approx((read + write) / (read + write + train))
    # Side by side both halves take the same time.
    assert (read + write) / (flows.writers * gpus) == pytest.approx(flows.time)
    assert train / ((1 - flows.writers) * gpus) == pytest.approx(flows.time)
    assert waits.decode_efficiency == pytest.approx((1e11 / 1e-3) / (3e11 / 6e-4))


@given(refresh=st.floats(0, 1e3), gpus=st.floats(1, 1e4), lag=st.sampled_from([0, 1]))
def test_servers_wait_for_new_weights(refresh: float, gpus: float, lag: int) -> None:
    loop = Loop(rollouts=100, answer=1000, prompt=100, lag=lag)
    found = loop_cost(loop, gpus, refresh=refresh, **COSTS)
    rolled, train = 100 * 100 * 1e-4 + 100 * 1000 * 1e-3, 100 * 1100 * 6e-4
    if lag:
        # Writers work but for the wait, trainers all the time, and nobody is left over.
        assert rolled / (found.writers * gpus) + refresh == pytest.approx(found.time)
        assert train / ((1 - found.writers) * gpus) == pytest.approx(found.time)
    else:
        assert found.time == pytest.approx((rolled + train) / gpus + refresh)
    assert found.refreshing == pytest.approx(found.writers * gpus * refresh)


def run(*arguments: str) -> dict[str, object]:
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
    # The lecture takes 0.3 for how much worse decoding uses the machine.
    assert 0.1 < plain["cost"]["decode_efficiency"] < 0.8
    assert plain["gpu_hours"] == pytest.approx(plain["days"] * 24 * 256)
    half = run(*asked, "--trained", "0.5")
    assert half["cost"]["training"] == pytest.approx(plain["cost"]["training"] / 2, rel=0.1)


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
