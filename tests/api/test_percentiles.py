"""Rows of percentiles: each run is simulated once; what no simulation has is declined by its column."""

from __future__ import annotations

from importlib.resources import files

import pytest

from rackmath.api import percentiles
from rackmath.api.predict import explain_row, predict
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import InputError
from rackmath.io import constants_file
from rackmath.validation.simulated import simulation_fields
from tests.validation.rows import cells

RUN = {"arrivals": "poisson", "request_rate": "4", "concurrency": "", "num_requests": "300", "length_cv": "0"}


def rows(*statistics: str, **changes: str) -> list[dict[str, str]]:
    return [cells(**{**RUN, "metric": "ttft", "statistic": statistic, **changes}) for statistic in statistics]


def test_percentiles_are_those_of_the_run_that_the_rows_describe() -> None:
    table = [*rows("p90", "p99"), *rows("p99", metric="tpot")]
    predicted = predict(table).predictions
    described = percentiles.mean_of(table[0], 2)
    fields = simulation_fields(described)
    assert fields is not None
    facts = run_simulation(percentiles.request_of(described, fields)).to_dict()
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
    whole = percentiles.run_simulation

    def counted(request):
        runs.append(request)
        return whole(request)

    monkeypatch.setattr(percentiles, "run_simulation", counted)
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
        ({"arrivals": "offline"}, "percentiles are simulated of one pool"),
        ({"input_mean": ""}, "input_mean"),
        ({"engine": "atom"}, "engine = 'atom': percentiles are simulated of vllm, sglang, trtllm, llama.cpp"),
        ({"num_requests": "20001"}, "percentiles are simulated of at most 20,000 requests"),
        ({"arrivals": "all_at_once", "num_requests": "1e7"}, "percentiles are simulated of at most 20,000 requests"),
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
