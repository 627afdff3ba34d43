"""Encoders of images before servers: exact queues, and what users see of them."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.report import facts_of, user_times
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of, slowed
from rackmath.errors import InputError
from rackmath.serving.simulator.encoders import Encoders

ASKED = {
    "model": "qwen3.5-27b", "on": "h100-sxm", "gpus": 3, "poisson": 2.0, "input": 100, "output": 20, "weights": "fp8",
    "requests": 200, "no_evidence": True,
}  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(gaps=st.lists(st.floats(0, 5), min_size=1, max_size=60), gpus=st.integers(1, 7), time=st.floats(0.01, 4))
def test_ends_are_those_of_a_queue_served_one_by_one(gaps: list[float], gpus: int, time: float) -> None:
    arrival = np.cumsum(gaps)
    free = [0.0] * gpus
    expected = []
    for a in arrival:
        end = max(a, heapq.heappop(free)) + time
        heapq.heappush(free, end)
        expected.append(end)
    assert Encoders(gpus=gpus, time=time).ends(arrival) == pytest.approx(expected, abs=1e-9)


def test_tokens_of_images_are_part_of_every_prompt() -> None:
    setup = setup_of(SimulateRequest(**ASKED, images=2))
    plain = setup_of(SimulateRequest(**ASKED))
    assert (setup.work.prompt - plain.work.prompt == 2 * 1024).all()
    assert setup.groups[0].deployment.times.images > 0
    assert plain.groups[0].deployment.times.images == 0


def test_users_wait_for_encoders_from_the_moment_they_ask() -> None:
    apart = setup_of(SimulateRequest(**ASKED, images=2, encoder_gpus=1))
    assert apart.encoders is not None
    assert apart.groups[0].deployment.times.images == 0
    assert sum(group.replicas for group in apart.groups) == 2
    outcomes = run(apart)
    waited = apart.encoders.ends(apart.work.arrival) + apart.encoders.transfer - apart.work.arrival
    served = outcomes[0].requests["first"] - outcomes[0].requests["arrival"]
    seen = user_times(apart, outcomes).first
    assert seen == pytest.approx(served + waited + apart.groups[0].batching.outside, abs=1e-9)
    facts = facts_of(apart, outcomes)
    assert facts["encoders"]["gpus"] == 1
    assert facts["encoders"]["utilisation"] == pytest.approx(2.0 * apart.encoders.time, rel=0.2)
    # All three accelerators are paid for.
    price, written = apart.groups[0].price, float(apart.work.output.sum())
    assert price is not None
    span = max(outcomes[-1].end - float(outcomes[0].requests["arrival"].min()), 1e-9)
    assert facts["usd_per_million_tokens"] * written / 1e6 == pytest.approx(3 * span * price, rel=0.02)


def test_the_range_of_steps_is_that_of_encoders_too() -> None:
    apart = setup_of(SimulateRequest(**ASKED, images=2, encoder_gpus=1))
    slow = slowed(apart, {"H100 SXM 80GB": 2.0})
    assert apart.encoders is not None
    assert slow.encoders is not None
    assert slow.encoders.time == 2 * apart.encoders.time
    together = setup_of(SimulateRequest(**ASKED, images=2))
    twice = slowed(together, {"H100 SXM 80GB": 2.0}).groups[0].deployment.times.images
    assert twice == 2 * together.groups[0].deployment.times.images


def test_encoders_are_of_the_chip_of_on_where_another_prefills() -> None:
    """Of H200 beside readers on H100: the H200's price and the H200's range."""
    asked = ASKED | {"on": "h200-sxm", "prefill_on": "h100-sxm", "prefill_gpus": 1}
    apart = setup_of(SimulateRequest(**asked, images=2, encoder_gpus=1))
    assert apart.encoders is not None
    prefill, decode = apart.groups
    assert prefill.price != decode.price
    assert apart.encoders.price == decode.price
    slow = slowed(apart, {prefill.system.chip.name: 3.0, decode.system.chip.name: 2.0}).encoders
    assert slow is not None
    assert slow.time == 2 * apart.encoders.time
    outcomes = run(apart)
    span = max(outcomes[-1].end - float(outcomes[0].requests["arrival"].min()), 1e-9)
    written = float(apart.work.output.sum())
    assert prefill.price is not None
    assert decode.price is not None
    paid = facts_of(apart, outcomes)["usd_per_million_tokens"] * written / 1e6
    assert paid == pytest.approx(span * (prefill.price + 2 * decode.price), rel=0.02)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"encoder_gpus": 1}, "--encoder-gpus"),
        ({"images": 1, "encoder_gpus": 3}, "--encoder-gpus"),
        ({"images": 1, "encoder_gpus": 1, "poisson": None, "users": 4}, "--encoder-gpus"),
        ({"images": 1, "turns": 3}, "--images"),
        ({"images": -1}, "--images"),
        ({"images": float("nan")}, "--images"),
        ({"images": 1, "image_size": "10by10"}, "--image-size"),
        ({"images": 1, "image_size": "0x10"}, "--image-size"),
        ({"images": 1, "model": "llama-3.1-8b"}, "--images"),
        ({"images": 1, "add_replicas": ("gpus=1 model=llama-3.1-8b share=0.2",)}, "--images"),
    ],
)
def test_what_cannot_be_encoded_is_refused_by_its_option(more: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=field):
        run(setup_of(SimulateRequest(**(ASKED | more))))
