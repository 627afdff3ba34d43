"""A row under load is repeated by the simulator as it was run."""

from __future__ import annotations

import pytest

from rackmath.io import catalogue
from rackmath.io.constants_file import scheduling_of
from rackmath.serving.engines import engine_at
from rackmath.validation.questions import question
from rackmath.validation.rows import read_row
from rackmath.validation.simulated import command, simulation_fields
from tests.validation.rows import cells


def fields(**change: str) -> dict[str, object]:
    found = simulation_fields(question(read_row(cells(**change), 2)))
    assert found is not None
    return dict(found)


def test_arrivals_are_those_of_the_row() -> None:
    poisson = fields(arrivals="poisson", request_rate="4", concurrency="")
    even = fields(arrivals="constant", request_rate="4", concurrency="")
    assert poisson["poisson"] == even["poisson"] == 4.0
    assert "interarrival_cv" not in poisson
    assert even["interarrival_cv"] == 0.0
    closed = fields(concurrency="16", num_requests="640")
    assert (closed["users"], closed["requests"]) == (16, 640)
    # A thousand at once: each of a thousand users asks one time.
    wave = fields(arrivals="all_at_once", concurrency="", num_requests="1000")
    assert (wave["users"], wave["requests"]) == (1000, 1000)


def test_lengths_prefix_and_limits_are_those_of_the_row() -> None:
    spread = fields(input_mean="1000", output_mean="200", length_cv="0.3")
    assert (spread["input"], spread["output"], spread["length_cv"]) == (1000.0, 200.0, 0.3)
    assert fields(output_mean="200")["length_cv"] == 0.0
    assert fields(output_mean="200.5")["length_cv"] == 1.0
    assert fields(max_num_seqs="48", max_num_batched_tokens="4096")["max_num_seqs"] == 48
    assert fields(max_num_seqs="48", max_num_batched_tokens="4096")["max_num_batched_tokens"] == 4096
    for engine in ("vllm", "sglang", "trtllm"):
        piped = fields(engine=engine, n_gpus="4", tp="2", pp="2", max_num_seqs="48")
        assert (piped["layout"], piped["max_num_seqs"]) == ("tp2,ep1,pp2,dp1", 48), engine
    assert "scheduler_recv_interval" not in fields()
    assert fields(engine="sglang", scheduler_interval="30")["scheduler_recv_interval"] == 30
    cached_prefix = fields(input_mean="1024", shared_prefix_tokens="512")["cached_prefix"]
    assert cached_prefix == pytest.approx(0.5, abs=0.02)


def test_drafts_come_from_the_model_a_head_or_the_text() -> None:
    """The engine's own acceptance where the row does not say who drafts."""
    own = fields(model="deepseek-r1", speculative="mtp", draft_tokens="3", n_gpus="8")
    assert own["draft_tokens"] == 3
    assert not {"draft_model", "acceptance"} & own.keys()
    head = fields(model="llama-3.1-8b", speculative="eagle", draft_tokens="4")
    assert (head["draft_tokens"], head["draft_model"]) == (4, "eagle3")
    other = fields(model="llama-3.1-8b", speculative="draft", draft_tokens="4", engine="vllm")
    engine = engine_at(catalogue.system(str(other["on"])).chip, "vllm", float(str(other["year"])))
    assert float(str(other["acceptance"])) == pytest.approx(float(scheduling_of(engine).acceptance), rel=1e-3)
    assert "draft_model" not in other


def test_passes_alone_are_not_simulated() -> None:
    row = read_row(cells(phase="decode", arrivals="single", concurrency="", batch="8", context="1000"), 2)
    assert simulation_fields(question(row)) is None


def test_the_command_has_every_field() -> None:
    assert command("m", {"on": "h100-sxm", "gpus": 8, "cached_prefix": 0.5}) == (
        "rackmath simulate m --on h100-sxm --gpus 8 --cached-prefix 0.5"
    )
