"""Rows that are simulated: each run once; what no simulation has is declined by its column."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from rackmath.api import simulated_rows
from rackmath.api.predict import PredictRequest, explain_row, predict, run_prediction
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import InputError
from rackmath.io import constants_file
from rackmath.validation.bench_json import rows_of
from rackmath.validation.simulated import simulation_fields
from tests.validation.rows import cells

RUN = {"arrivals": "poisson", "request_rate": "4", "concurrency": "", "num_requests": "300", "length_cv": "0"}


def rows(*statistics: str, **changes: str) -> list[dict[str, str]]:
    return [cells(**{**RUN, "metric": "ttft", "statistic": statistic, **changes}) for statistic in statistics]


def test_percentiles_are_those_of_the_run_that_the_rows_describe() -> None:
    table = [*rows("p90", "p99"), *rows("p99", metric="tpot")]
    predicted = predict(table).predictions
    described = simulated_rows.mean_of(table[0], 2)
    fields = simulation_fields(described)
    assert fields is not None
    facts = run_simulation(simulated_rows.request_of(described, fields)).to_dict()
    first = facts["time_to_first_token"]
    assert [p.predicted for p in predicted] == [first["p90"], first["p99"], facts["time_per_output_token"]["p99"]]
    assert all("simulated: 300 requests" in p.reason for p in predicted)
    # The range holds that of the engine's steps and that of means of such services.
    for prediction, name in zip(predicted[:2], ("p90", "p99"), strict=True):
        low, high = first[f"{name}_range"]
        assert prediction.low is not None
        assert prediction.high is not None
        assert prediction.low <= low <= first[name] <= high <= prediction.high


def test_rows_of_one_run_are_simulated_once(monkeypatch) -> None:
    runs = []
    whole = simulated_rows.run_simulation

    def counted(request):
        runs.append(request)
        return whole(request)

    monkeypatch.setattr(simulated_rows, "run_simulation", counted)
    table = [*rows("p90", "p95", "p99"), *rows("p90", metric="e2e"), *rows("p99", request_rate="5")]
    assert all(p.predicted for p in predict(table).predictions)
    assert [request.poisson for request in runs] == [4, 5]


def test_models_that_share_a_text_are_not_one_run() -> None:
    """``model_hf`` names the model where the text in ``model`` does not."""
    ids = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct")
    table = [*rows("p99", model="ours", model_hf=ids[0]), *rows("p99", model="ours", model_hf=ids[1])]
    small, large = (p.predicted for p in predict(table).predictions)
    assert small is not None
    assert large is not None
    assert large > 2 * small


def test_a_percentile_is_explained_by_a_row_of_its_mean() -> None:
    with pytest.raises(InputError, match="explain a row of the same run that states a mean"):
        explain_row(rows("p99"), "a-1", constants_file.constants())


def test_a_run_that_does_not_say_how_long_it_was_has_a_thousand_requests() -> None:
    (prediction,) = predict(rows("p99", num_requests="")).predictions
    assert "simulated: 1,000 requests" in prediction.reason


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"statistic": "p75"}, "statistic = 'p75': write one of mean, p50, p90, p95, p99"),
        ({"metric": "itl"}, "metric = 'itl': percentiles are simulated of ttft, tpot, e2e"),
        ({"arrivals": "offline"}, "services are simulated of one pool"),
        ({"input_mean": ""}, "input_mean"),
        ({"engine": "atom"}, "engine = 'atom': services are simulated of vllm, sglang, trtllm, llama.cpp"),
        ({"num_requests": "20001"}, "services are simulated of at most 20,000 requests"),
        ({"arrivals": "all_at_once", "num_requests": "1e7"}, "services are simulated of at most 20,000 requests"),
        ({"phase": "decode", "metric": "tpot"}, "percentiles are simulated, of services"),
    ],
)
def test_what_no_simulation_has_is_declined(changes: dict[str, str], word: str) -> None:
    (prediction,) = predict(rows("p99", **changes)).predictions
    assert prediction.predicted is None
    assert word in prediction.reason


def test_constants_of_ones_own_leave_percentiles_undecided(tmp_path) -> None:
    shipped = files("rackmath") / "data" / "constants.toml"
    (tmp_path / "mine.toml").write_text(shipped.read_text(encoding="utf-8"))
    (prediction,) = predict(rows("p99"), tmp_path / "mine.toml").predictions
    assert prediction.predicted is None
    assert "by the shipped constants" in prediction.reason


OWN = Path(__file__).parents[1] / "data/h200_serving.jsonl"
"""What ``vllm bench serve`` of vLLM 0.26 wrote of servers of our own (tools/device_serving.py)."""


def alone(table: list[dict[str, str]]) -> PredictRequest:
    return PredictRequest(rows=table, no_evidence=True)


def own_rows(model: str, users: int) -> list[dict[str, str]]:
    lines = map(json.loads, OWN.read_text(encoding="utf-8").splitlines())
    result = next(x["result"] for x in lines if x["model"] == model and x["asked"].get("users") == users)
    return rows_of(result, {"hardware": "h200-sxm"})


def test_users_who_began_together_wait_for_one_anothers_prompts() -> None:
    """Eight users of 1,000 tokens end in one step: all eight prompts are read before anyone's first token, each time."""
    rows = own_rows("llama-3.1-8b", 8)
    assert {(row["engine"], row["length_cv"], row["num_requests"]) for row in rows} == {("vllm", "0", "24")}
    answers = {(p.row.metric, p.row.statistic): p for p in run_prediction(alone(rows)).predictions if p.row}
    single = run_prediction(alone(own_rows("llama-3.1-8b", 1))).predictions
    for statistic, within in (("mean", 0.05), ("p50", 0.15)):
        first = answers["ttft", statistic]
        by_itself = next(p for p in single if p.row and (p.row.metric, p.row.statistic) == ("ttft", statistic))
        # What the prompts of seven others add to that of one: how long a prompt takes by itself is another question.
        added = first.row.value - by_itself.row.value
        assert first.predicted - by_itself.predicted == pytest.approx(added, rel=within)
        assert first.low <= first.row.value <= first.high
        assert first.reason.startswith("simulated: 24 requests")
    # Lengths that differ draw users apart: most then wait for their own prompt alone.
    apart = run_prediction(alone([{**row, "length_cv": "0.3"} for row in rows])).predictions
    median = next(p for p in apart if p.row and (p.row.metric, p.row.statistic) == ("ttft", "p50"))
    assert "simulated" not in median.reason
    assert median.predicted < answers["ttft", "p50"].predicted / 3
    # One user alone meets no prompt: a token takes a step.
    step = next(p for p in single if p.row and p.row.metric == "tpot")
    assert step.predicted == pytest.approx(step.row.value, rel=0.06)


def test_first_tokens_that_cannot_be_simulated_keep_their_steady_state() -> None:
    rows = [{**row, "num_requests": "20001"} for row in own_rows("llama-3.1-8b", 8) if row["metric"] == "ttft"]
    for prediction in run_prediction(alone(rows)).predictions:
        assert prediction.predicted is not None
        assert "services are simulated of at most 20,000 requests" in prediction.reason
