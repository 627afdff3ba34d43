"""What fits: all of it, none that does not, in order, with ranges that hold the value."""

from __future__ import annotations

from typing import Any

import pytest

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.fit import run_fit
from rackmath.api.fit_request import FitRequest
from rackmath.api.fit_table import by_model, speed_range, speed_table
from rackmath.errors import InputError
from rackmath.models.formats import weight_format

SOME = "gpt-oss-20b,qwen3-8b,llama-3.1-70b,qwen3-30b-a3b,gemma-2-9b"


def rows(**changes: Any) -> list[dict[str, Any]]:
    return run_fit(FitRequest(**({"on": "rtx-4090", "models": SOME, "no_evidence": True} | changes))).facts


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["model"], row["weights"]


def test_rows_are_those_that_estimate_says_fit() -> None:
    shown = {key(row): row for row in rows(context="8k", weights="q4_k_m,q8_0,f16")}
    for model in SOME.split(","):
        for text in ("q4_k_m", "q8_0", "f16"):
            request = EstimateRequest(
                model=model, on="rtx-4090", batch=1, context=8000, weights=text, engine="llama.cpp", no_evidence=True
            )
            result = run_estimate(request)
            assert result.fits == ((model, text) in shown)
            if result.fits:
                row = shown[model, text]
                assert row["time"] == pytest.approx(result.time)
                assert row["memory"] == pytest.approx(float(result.step.memory.total))


def test_fastest_first_with_ranges() -> None:
    shown = rows(context="8k")
    assert [row["tokens_per_second"] for row in shown] == sorted(
        (row["tokens_per_second"] for row in shown), reverse=True
    )
    for row in shown:
        assert row["time_low"] <= row["time"] <= row["time_high"]
        assert row["tokens_per_second"] == pytest.approx(1 / row["time"])
        assert row["memory"] <= 24e9


def test_no_format_is_wider_than_the_models_own() -> None:
    # llama.cpp makes a file of its own of what is published in MXFP4.
    assert {row["weights"] for row in rows(models="gpt-oss-20b")} == {"mxfp4_moe", "q3_k_m", "q2_k"}
    assert {row["weights"] for row in rows(models="gpt-oss-20b", engine="vllm")} == {"config's own"}
    assert weight_format("f16").name in {row["weights"] for row in rows(models="gemma-2-9b")}


def test_longer_contexts_and_limits_leave_less() -> None:
    short, long = ({key(row) for row in rows(context=c)} for c in ("4k", "128k"))
    assert long < short
    limited = rows(context="4k", tpot="15ms")
    assert {key(row) for row in limited} < short
    assert all(row["time"] <= 0.015 for row in limited)


def test_what_is_trained_for_less_is_left_out() -> None:
    result = run_fit(FitRequest(on="rtx-4090", models="gemma-2-9b", context=32e3))
    assert result.facts == []
    assert result.details[2] == [{"model": "gemma-2-9b", "reason": "trained for 8,192 tokens"}]


def test_a_host_holds_what_does_not_fit() -> None:
    without, beside = rows(context="8k"), rows(context="8k", host_memory="64GB")
    assert {key(row) for row in without} < {key(row) for row in beside}
    moved = [row for row in beside if row["offloaded_bytes"]]
    assert {key(row) for row in beside} - {key(row) for row in without} == {key(row) for row in moved}
    for row in moved:
        assert row["offloaded_bytes"] <= 64e9
        assert row["memory"] <= 24e9
    # A faster host is a faster model; what fits is not touched by it.
    faster = {key(row): row["time"] for row in rows(context="8k", host_memory="64GB", host_bandwidth="200GB/s")}
    for row in beside:
        assert (faster[key(row)] < row["time"]) == bool(row["offloaded_bytes"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"on": "strix-halo", "host_memory": "64GB"}, "--host-memory"),
        ({"batch": 0}, "--batch"),
        ({"context": float("nan")}, "context"),
        ({"models": "nothing"}, "nothing"),
        ({"weights": "q9"}, "q9"),
        ({"tpot": -1}, "tpot"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rows(**changes)


@pytest.mark.parametrize(
    ("system", "engines"),
    [
        ("rtx-4090", {"llama.cpp"}),
        ("b200-sxm", {"vllm", "sglang", "trtllm"}),
        ("m2-max", {"llama.cpp"}),
        ("gtx-1080-ti", {"llama.cpp"}),
        ("v100-sxm", {"vllm"}),
    ],
)
def test_the_engine_with_most_measurements(system: str, engines: set[str]) -> None:
    """Of the chip, else of its generation (Apple's); Pascal and Volta have none, and a card stands alone."""
    result = run_fit(FitRequest(on=system, models="qwen3-8b", weights="q4_k_m" if "llama.cpp" in engines else "bf16"))
    assert result.details[1] in engines


def test_its_picture_has_a_point_for_each() -> None:
    result = run_fit(FitRequest(on="rtx-4090", models=SOME, no_evidence=True))
    assert sum(len(series.x) for series in result.picture().panels[0].series) == len(result.facts)


def test_a_model_is_listed_or_left_out() -> None:
    """Of a model that is fast enough in some formats, the others are not a reason to leave it out."""
    result = run_fit(FitRequest(on="rtx-4090", models=SOME, tpot=0.02, no_evidence=True))
    listed, left_out = {row["model"] for row in result.facts}, {entry["model"] for entry in result.details[2]}
    assert listed | left_out == set(SOME.split(","))
    assert not listed & left_out


def test_by_model_keeps_every_row_and_begins_with_the_largest() -> None:
    shown = rows(context="8k")
    formats, models = by_model(shown)
    sizes = [next(iter(by_format.values()))["total_params"] for by_format in models.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert sorted(key(row) for by_format in models.values() for row in by_format.values()) == sorted(map(key, shown))
    bits = [weight_format(text).bits for text in formats]
    assert bits == sorted(bits, reverse=True)
    assert [line[0] for line in speed_table(shown).lines] == list(models)
    assert speed_table(shown).whole
    assert not speed_table(shown, 1).whole
    few, first = by_model(shown, 1)
    assert list(first) == list(models)[:1]
    assert set(few) == set(first[next(iter(first))])


def test_one_range_holds_those_of_all_formats() -> None:
    slow, fast = {"time": 1.0, "time_low": 0.8, "time_high": 2.0}, {"time": 0.5, "time_low": 0.2, "time_high": 0.6}
    assert speed_range([slow, fast]) == pytest.approx((0.5, 2.5))
