"""Images in plans: encoders beside deployments, against counting one by one, and what they do to times."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.plan import PlanRequest, run_plan
from rackmath.serving.encoders import BUSY, with_encoders
from rackmath.serving.points import Points
from rackmath.serving.renting import most_units, rented
from rackmath.serving.workload import PlanWorkload, Space


def point(gpus: float, units: float, rate: float) -> Points:
    """One deployment of so many units."""
    whole = {name: np.zeros(1, dtype=np.int64) for name in ("variant", "layout", "prefill")}
    fields = ("workers", "prefill_workers", "batch", "chunk", "decode_chunk", "draft_tokens", "concurrency", "reading")
    return Points(
        **whole, **dict.fromkeys(fields, np.ones(1)), units=np.array([units]), encoders=np.zeros(1),
        gpus=np.array([gpus]), billed=np.array([gpus]), rate=np.array([rate]), time_to_first_token=np.array([0.3]),
        time_per_output_token=np.array([0.02]),
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(gpus=st.integers(2, 200), unit=st.integers(1, 16), each=st.floats(0.001, 20))
def test_as_many_units_as_leave_room_for_their_encoders(gpus: int, unit: int, each: float) -> None:
    units, encoders = (float(x[0]) for x in most_units(float(gpus), np.array([float(unit)]), np.array([each])))
    assert encoders == ceil(units * each - 1e-9)
    holding = [n for n in range(1, gpus + 1) if n * unit + ceil(n * each - 1e-9) <= gpus]
    if holding:
        # Rounding may cost the last of them, never more.
        assert holding[-1] - 1 <= units <= holding[-1]


@settings(max_examples=100, deadline=None)
@given(
    gpus=st.sampled_from([8, 24, 64]),
    unit=st.sampled_from([1, 2, 4]),
    rate=st.floats(0.05, 50),
    time=st.floats(0.01, 3),
)
def test_encoders_keep_up_within_the_budget(gpus: int, unit: int, rate: float, time: float) -> None:
    units = gpus // unit
    apart = with_encoders(point(units * unit, units, units * rate), time, 1e-4, Space(gpus=gpus, variants=()))
    assert (apart.gpus <= gpus).all()
    assert (apart.encoders >= 1).all()
    assert apart.gpus == pytest.approx(apart.units * unit + apart.encoders)
    busy = apart.rate * time / apart.encoders
    assert (busy <= max(BUSY) + 1e-9).all()
    assert apart.rate == pytest.approx(apart.units * rate)
    # A request is encoded, may wait, and is sent.
    assert (apart.time_to_first_token >= 0.3 + time + 1e-4 - 1e-12).all()
    wait = busy / (1 - busy) * time / 2 / apart.encoders
    assert apart.time_to_first_token == pytest.approx(0.3 + time + 1e-4 + wait)


def test_a_rate_rents_its_part_of_the_encoders() -> None:
    space = Space(gpus=64, variants=())
    apart = with_encoders(point(64, 32, 64.0), 0.25, 0.0, space)
    served, _ = rented(apart, PlanWorkload(input=100, output=10, rate=20.0), space)
    assert served.units == pytest.approx(np.ceil(20.0 / (apart.rate / apart.units)))
    assert served.gpus == pytest.approx(2 * served.units + served.encoders)
    assert (20.0 * 0.25 / served.encoders <= 0.8).all()


@pytest.fixture(scope="module")
def plans() -> dict[str, dict[str, Any]]:
    asked = {"model": "qwen3.5-27b", "on": "h100-sxm", "gpus": 8, "output": 200, "tpot": 0.05, "no_evidence": True}
    text = run_plan(PlanRequest(**asked, input=3072 + 200))
    images = run_plan(PlanRequest(**asked, input=200, images=3))
    together = run_plan(PlanRequest(**asked, input=200, images=3, one_pool=True))
    return {
        name: {**result.best.planned, "points": result.points, "encoders": result.plan.search.points.encoders}
        for name, result in (("text", text), ("images", images), ("together", together))
        if result.best is not None
    }


def test_images_cost_more_than_as_many_tokens_of_text(plans: dict[str, dict[str, Any]]) -> None:
    assert plans["images"]["tokens_per_second_per_gpu"] < plans["text"]["tokens_per_second_per_gpu"]
    # Choices may only help.
    assert plans["together"]["tokens_per_second_per_gpu"] <= plans["images"]["tokens_per_second_per_gpu"] * (1 + 1e-9)


def test_some_deployments_have_encoders_of_their_own(plans: dict[str, dict[str, Any]]) -> None:
    assert plans["images"]["encoders"].any()
    assert not plans["together"]["encoders"].any()
    assert all("encoders" not in p for p in plans["text"]["points"])
    assert all(p["gpus"] <= 8 for p in plans["images"]["points"])


def test_first_token_holds_the_encoding() -> None:
    asked = {"model": "gemma-3-27b", "on": "h100-sxm", "gpus": 1, "output": 50, "no_evidence": True, "one_pool": True}
    plain = run_plan(PlanRequest(**asked, input=100 + 256))
    image = run_plan(PlanRequest(**asked, input=100, images=1))
    least = min(p["time_to_first_token"] for p in plain.points)
    assert min(p["time_to_first_token"] for p in image.points) - least > 0.008
    assert inf not in [p["time_to_first_token"] for p in image.points]
