"""Scaling laws and budgets: published digits, brute force, and what holds at every optimum."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.budget import BudgetRequest, run_budget
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import law_files
from rackmath.training.budget import Life, at_equal_cost, budget, cheapest, equal_costs, split
from rackmath.training.scaling_laws import (
    LAWS,
    critical_overhead,
    deepseek_optimum,
    efficiency_leverage,
    kaplan_loss,
    krajewski_loss,
    law,
    llama_tokens,
)

ROWS = Path(__file__).parents[3] / "shared/training/validation.csv"
GRID = {"hoffmann": "sardana", "besiroglu": "besiroglu"}
"""Sardana's code calls its own rounding of Hoffmann's law by that name."""


def rows(kind: str) -> list[tuple[dict[str, str], str, float]]:
    if not ROWS.exists():
        pytest.skip("../shared/training is not here")
    with ROWS.open(encoding="utf-8") as file:
        return [
            (
                dict(part.split("=", 1) for part in row["config"].split(";") if "=" in part),
                row["metric"],
                float(row["value"]),
            )
            for row in csv.DictReader(file)
            if row["kind"] == kind
        ]


def test_sardana_s_own_code_to_its_digits() -> None:
    for config, metric, value in rows("inference-aware-grid"):
        found, base = law(GRID[config["coef"]]), float(config["base_params"])
        life = Life(answer_tokens=float(config["inference_tokens"]))
        plain = budget(found, base, found.optimal_tokens(base), life)
        best = cheapest(found, plain.loss, life)
        got = {"opt_params": best.params, "opt_tokens": best.tokens, "flops_ratio": best.total / plain.total}[metric]
        assert got == pytest.approx(value, rel=5e-6), config


def test_sardana_s_printed_example() -> None:
    """Loss 1.947 and 2 T tokens served: 24.18 B parameters on 2.657 T tokens at 95.22 % of the FLOPs."""
    found, life = law("sardana"), Life(answer_tokens=2e12)
    best, plain = cheapest(found, 1.947, life), cheapest(found, 1.947, Life())
    assert best.params == pytest.approx(24.18e9, rel=2e-4)
    assert best.tokens == pytest.approx(2.657e12, rel=2e-4)
    assert best.params / plain.params == pytest.approx(0.7096, abs=1e-4)
    assert best.tokens / plain.tokens == pytest.approx(1.4677, abs=1e-4)
    assert best.total / budget(found, plain.params, plain.tokens, life).total == pytest.approx(0.9522, abs=1e-4)


def test_compute_optima_as_printed() -> None:
    names = {"hoffmann_tex": "hoffmann", "besiroglu": "besiroglu"}
    for config, metric, value in rows("compute-optimal"):
        params, tokens = law(names[config["law"]]).optimal(float(config["flops"]))
        assert {"params": params, "tokens_per_param": tokens / params}[metric] == pytest.approx(value, rel=5e-3)


@given(name=st.sampled_from(sorted(LAWS)), flops=st.floats(1e18, 1e27))
def test_no_other_size_has_a_lower_loss_for_the_compute(name: str, flops: float) -> None:
    found = law(name)
    params, tokens = found.optimal(flops)
    assert 6 * params * tokens == pytest.approx(flops)
    assert found.balance(params, tokens) == pytest.approx(1.0)
    assert found.optimal_tokens(params) == pytest.approx(tokens)
    best = found.loss(params, tokens)
    for part in (0.5, 0.9, 1.1, 2.0):
        assert found.loss(params * part, tokens / part) > best


@given(
    name=st.sampled_from(["hoffmann", "besiroglu", "muennighoff"]), base=st.floats(1e8, 1e12), served=st.floats(1e9, 1e16),
    rl=st.floats(0, 3), slow=st.floats(0.1, 1), success=st.floats(0.1, 1),
)  # fmt: skip
def test_the_least_cost_by_brute_force(
    name: str, base: float, served: float, rl: float, slow: float, success: float
) -> None:
    found = law(name)
    loss = float(found.loss(base, found.optimal_tokens(base)))
    life = Life(answer_tokens=served, prompt_tokens=served / 3, decode_efficiency=slow, rl_share=rl, success=success)
    best = cheapest(found, loss, life)
    assert best.loss == pytest.approx(loss, rel=1e-9)
    for size in np.geomspace(best.params / 3, best.params * 3, 41):
        tokens = found.tokens_for(float(size), loss)
        # Close to the smallest size tokens grow without end; the command takes up to 1e25.
        if tokens < 1e25:
            assert budget(found, float(size), tokens, life).total >= best.total * (1 - 1e-9)
    # What stands at every optimum: x^beta = 1 + inference / training, with RL in training.
    right = 1 + best.cost_inference / (best.cost_pretrain + best.cost_rl)
    assert best.overtraining**found.beta == pytest.approx(right, rel=1e-6)
    assert best.cost_inference == pytest.approx(2 * best.params * success * served * (1 / 3 + 1 / slow))
    assert best.cost_pretrain == pytest.approx(6 * best.params * best.tokens)
    assert best.cost_rl == pytest.approx(rl * best.cost_pretrain)


@pytest.mark.parametrize(
    ("name", "equal", "ten", "hundred"),
    [("besiroglu", 6.7, 1.3, 4.4), ("muennighoff", 7.1, 1.25, 4.1), ("hoffmann", 11.4, 0.93, 2.7), ("sardana-all", 18.0, 0.74, 2.0)],
)  # fmt: skip
def test_equal_costs_and_a_hundredfold_are_not_the_same_point(
    name: str, equal: float, ten: float, hundred: float
) -> None:
    found = law(name)
    assert at_equal_cost(found) == pytest.approx(equal, rel=0.01)
    assert split(found, at_equal_cost(found)) == pytest.approx(1.0)
    assert split(found, 10) == pytest.approx(ten, rel=0.02)
    assert split(found, 100) == pytest.approx(hundred, rel=0.02)
    assert at_equal_cost(law("besiroglu"), 2.0) == pytest.approx(20, rel=0.02)


@given(base=st.floats(1e9, 1e11), served=st.floats(1e11, 1e15))
def test_the_lecture_s_rule_is_feasible_and_never_cheaper(base: float, served: float) -> None:
    found, life = law("besiroglu"), Life(answer_tokens=served)
    loss = float(found.loss(base, found.optimal_tokens(base)))
    best = cheapest(found, loss, life)
    try:
        rule = equal_costs(found, loss, life)
    except InputError:
        # So few tokens that no size reaches the loss.
        assert found.floor + found.data * (served / 3) ** (-found.beta) >= loss
        return
    assert rule.cost_inference == pytest.approx(rule.cost_pretrain)
    assert rule.loss == pytest.approx(loss)
    assert rule.total >= best.total * (1 - 1e-9)


def test_laws_of_other_forms() -> None:
    assert llama_tokens(3.8e25) == pytest.approx(16.3e12, rel=0.01)
    assert efficiency_leverage(0.031, 12, 1e22) == pytest.approx(7.25, abs=0.01)
    best = max(range(2, 40), key=lambda g: efficiency_leverage(0.031, g, 1e22))
    assert 8 <= best <= 12
    assert krajewski_loss(1e9, 2e10, 1) == pytest.approx(3.28, abs=0.005)
    assert krajewski_loss(1e9, 2e10, 8) == pytest.approx(3.14, abs=0.005)
    assert kaplan_loss(6.4e13, 1e30) == pytest.approx(1.0)
    per_token, tokens = deepseek_optimum(1e24)
    assert per_token * tokens == pytest.approx(1e24, rel=0.01)
    fresh = law("muennighoff")
    assert [fresh.repeated(1.0, epochs) for epochs in (1, 4, 16, 40)] == pytest.approx(
        [1.0, 3.73, 10.6, 15.2], rel=0.01
    )
    with pytest.raises(InputError, match="repeated"):
        law("besiroglu").repeated(1.0, 4)


def test_critical_sizes_as_published() -> None:
    """De Vries: at 30 % of the optimal size about twice the compute; nothing helps below the floor."""
    hoffmann = law("hoffmann")
    found = [critical_overhead(hoffmann, 5.76e23, part) for part in (0.75, 0.5, 0.4, 0.3, 0.25, 0.2)]
    assert found == pytest.approx([0.029, 0.21, 0.44, 1.07, 1.93, 4.45], rel=0.02)
    assert critical_overhead(hoffmann, 5.76e23, 0.0985) == float("inf")
    assert critical_overhead(hoffmann, 1e21, 0.3) == pytest.approx(critical_overhead(hoffmann, 1e25, 0.3))


def test_extrapolation_is_flagged() -> None:
    found = law("besiroglu")
    assert found.outside(7e9, 1.4e11) == ()
    assert len(found.outside(7e10, 1.4e12)) == 1
    assert len(found.outside(7e10, 1e15)) == 2
    # The ends themselves are runs that were fitted.
    for params, per_param in zip(found.params, found.per_param, strict=True):
        assert found.outside(params, params * per_param) == ()


def test_resamples_have_the_published_deviations() -> None:
    """Besiroglu et al., notebook: 124.5, 1293, 0.026, 0.015, 0.021."""
    drawn = law_files.resampled()
    assert len(drawn) == 200
    fields = ("size", "data", "floor", "alpha", "beta")
    found = [np.std([getattr(one, field) for one in drawn]) for field in fields]
    assert found == pytest.approx([124.5, 1293, 0.02566, 0.0154, 0.0206], rel=0.25)


def test_known_models_are_at_least_25_and_sourced() -> None:
    known = law_files.trained()
    assert len(known) >= 25
    assert all(one.source for one in known)
    llama = next(one for one in known if one.model == "Llama 3.1 405B")
    assert llama.tokens / llama.active / 20 == pytest.approx(1.93, abs=0.01)


def run(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(cli, ["train", "budget", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_command_says_what_its_users_rely_on(tmp_path: Path) -> None:
    found = run("--law", "besiroglu", "--loss", "2.0", "--inference-tokens", "10T", "--on", "h100-sxm")
    for field in ("params", "tokens", "overtraining", "cost_pretrain", "cost_inference", "cost_rl", "heuristic"):
        assert field in found
    assert found["heuristic"]["over_best"] > 1
    assert found["ranges"]["params"]["low90"] < found["params"] < found["ranges"]["params"]["high90"]
    assert found["hardware"]["gpu_hours"] == pytest.approx(found["total"] / (989e12 * 0.4) / 3600, rel=0.01)
    given_model = run("--params", "70B", "--tokens", "1.4T")
    assert given_model["overtraining"] == pytest.approx(1.0)
    assert given_model["given"]["params"] == 70e9
    assert given_model["heuristic"] is None
    out = tmp_path / "cost.png"
    CliRunner().invoke(cli, ["train", "budget", "--loss", "2.0", "--inference-tokens", "10T", "--plot", str(out)])
    assert out.stat().st_size > 3000
    text = CliRunner().invoke(cli, ["train", "budget", "--loss", "2.2", "--inference-tokens", "1T", "--explain"]).output
    assert "least where" in text
    assert "DeepSeek-V3" in CliRunner().invoke(cli, ["train", "budget", "--known"]).output


def test_efficiencies_come_from_the_engine_where_a_model_is_named() -> None:
    asked = ["train", "budget", "--loss", "2.0", "--inference-tokens", "10T", "--json"]
    engine = [*asked, "--model", "llama-3.1-70b", "--on", "h100-sxm"]
    plain, found, given = (
        json.loads(CliRunner().invoke(cli, one).output)
        for one in (asked, engine, [*engine, "--decode-efficiency", "1"])
    )
    assert plain["efficiency"] == {"decode": 1.0, "prefill": 1.0}
    # The lecture takes 0.3 for writing; prompts are read about as well as a model is trained.
    assert 0.15 < found["efficiency"]["decode"] < 0.6
    assert 0.7 < found["efficiency"]["prefill"] < 1.4
    assert 0.3 < found["hardware"]["mfu"] < 0.7
    # Dearer serving makes the best model smaller, and trains it longer.
    assert found["params"] < plain["params"]
    assert found["overtraining"] > plain["overtraining"]
    assert given["efficiency"]["decode"] == 1.0
    assert given["params"] == pytest.approx(plain["params"])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--loss", "2", "--model", "llama-3.1-8b"], "--model"),
        (["--loss", "2", "--model", "llama-3.1-8b", "--on", "h100-sxm", "--prompt", "nan"], "--prompt"),
        ([], "--loss"),
        (["--loss", "2", "--params", "7B", "--tokens", "1T"], "--loss"),
        (["--params", "7B"], "--loss"),
        (["--loss", "1.5"], "--loss"),
        (["--loss", "nan"], "--loss"),
        (["--loss", "1000"], "--loss"),
        (["--params", "7B", "--tokens", "-1"], "--tokens"),
        (["--params", "x", "--tokens", "1T"], "--params"),
        (["--loss", "2", "--inference-tokens", "-5"], "--inference-tokens"),
        (["--loss", "2", "--success", "2"], "--success"),
        (["--loss", "2", "--decode-efficiency", "0"], "--decode-efficiency"),
        (["--loss", "2", "--on", "h100-sxm", "--mfu", "0"], "--mfu"),
        (["--loss", "2", "--on", "h1000"], "h1000"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], field: str) -> None:
    result = CliRunner().invoke(cli, ["train", "budget", *arguments])
    assert isinstance(result.exception, InputError)
    assert field in str(result.exception)


def test_a_law_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    result = CliRunner().invoke(cli, ["train", "budget", "--law", "moore", "--loss", "2"])
    assert result.exit_code == 2
    assert "'moore' is not one of" in result.output
    with pytest.raises(InputError, match="besiroglu"):
        run_budget(BudgetRequest(law="moore", loss=2.0))
