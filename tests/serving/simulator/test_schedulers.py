"""The loop does what the published schedulers of engines do, on random traffic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.errors import DoesNotFit, InputError
from rackmath.serving.simulator import Arrivals, Batching, simulate
from tests.serving.simulator.schedulers import Engine, Item, Sglang, Trtllm, Vllm
from tests.serving.simulator.test_against_reference import times

SCHEDULERS: dict[str, tuple[type[Engine], dict[str, Any]]] = {
    "vllm": (Vllm, {"policy": "chunked", "preemption": "recompute", "block": 16}),
    "sglang": (Sglang, {"policy": "prefill-first", "preemption": "retract", "block": 1}),
    "sglang, looks seldom": (Sglang, {"policy": "prefill-first", "preemption": "retract", "block": 1, "looks": 30}),
    "sglang, short queue": (Sglang, {"policy": "prefill-first", "preemption": "retract", "block": 1, "queue_limit": 2}),
    "trtllm, no evict": (Trtllm, {"policy": "unchunked", "preemption": "reserve", "block": 8}),
    "trtllm, max utilisation": (Trtllm, {"policy": "unchunked", "preemption": "recompute", "block": 8}),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_the_loop_is_the_scheduler(name: str, data: st.DataObject) -> None:
    engine, rules = SCHEDULERS[name]
    random = np.random.default_rng(data.draw(st.integers(0, 100_000)))
    count, longest = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([20, 150]))
    prompt, output = random.integers(1, longest, count), random.integers(1, longest, count)
    most = int((prompt + output).max())
    load = data.draw(st.sampled_from([0.002, 0.05, 1.0]))
    # TensorRT-LLM takes no prompt that is longer than a step.
    least = 2 * longest if engine is Trtllm else 8
    batching = Batching(
        max_num_batched_tokens=max(least, data.draw(st.sampled_from([8, 64, 512]))), max_num_seqs=data.draw(st.integers(1, 8)),
        memory=2 * most + 40 + data.draw(st.integers(0, 4 * most)), **rules,
    )  # fmt: skip
    work = Arrivals(
        arrival=np.sort(random.uniform(0, count * load, count)),
        prompt=prompt.astype(np.int32),
        output=output.astype(np.int32),
        rank=np.zeros(count, np.int32),
    )
    table = times(batching.max_num_seqs, batching.max_num_batched_tokens)
    requests = simulate(work, table, batching=batching).requests
    items = [
        Item(name=i, arrival=float(q["arrival"]), prompt=int(q["prompt"]), output=int(q["steps"]) + 1)
        for i, q in enumerate(requests)
    ]
    engine(table, batching).serve(items)
    assert list(requests["dropped"]) == [item.dropped for item in items]
    assert [not np.isnan(q["refused"]) for q in requests] == [item.refused for item in items]
    for field in ("first", "finish"):
        moments = [np.nan if (moment := getattr(item, field)) < 0 else moment for item in items]
        assert requests[field] == pytest.approx(moments, rel=1e-9, nan_ok=True), field


@pytest.mark.parametrize("within", [1.0, 30.0])
@pytest.mark.parametrize("name", ["vllm", "sglang", "sglang, looks seldom", "trtllm, max utilisation"])
def test_the_traffic_of_this_test_makes_some_lose_their_places(name: str, within: float) -> None:
    engine, rules = SCHEDULERS[name]
    random = np.random.default_rng(1)
    prompt, output = random.integers(1, 20, 200), random.integers(100, 200, 200)
    work = Arrivals(
        arrival=np.sort(random.uniform(0, within, 200)), prompt=prompt.astype(np.int32), output=output.astype(np.int32),
        rank=np.zeros(200, np.int32),
    )  # fmt: skip
    batching = Batching(max_num_batched_tokens=512, max_num_seqs=16, memory=1200, **rules)
    requests = simulate(work, times(16, 512), batching=batching).requests
    items = [
        Item(name=i, arrival=float(q["arrival"]), prompt=int(q["prompt"]), output=int(q["steps"]) + 1)
        for i, q in enumerate(requests)
    ]
    engine(times(16, 512), batching).serve(items)
    assert requests["dropped"].sum() > (5 if within == 1 else 0)
    assert list(requests["dropped"]) == [item.dropped for item in items]
    for field in ("first", "finish"):
        assert requests[field] == pytest.approx([getattr(item, field) for item in items], rel=1e-9), field


def test_retraction_belongs_to_prompts_read_first() -> None:
    with pytest.raises(InputError, match="prefill-first"):
        Batching(policy="chunked", preemption="retract")


@pytest.mark.parametrize("block", [1, 16])
@pytest.mark.parametrize("prompt", [30, 32])
def test_whom_nobody_would_admit_is_refused(block: int, prompt: int) -> None:
    work = Arrivals(
        arrival=np.zeros(1), prompt=np.array([prompt], np.int32), output=np.array([19], np.int32),
        rank=np.zeros(1, np.int32),
    )  # fmt: skip
    rules: dict[str, Any] = {"policy": "prefill-first", "preemption": "retract", "block": block, "max_num_seqs": 4}
    ends: list[bool] = []
    for blocks in range(1, 100):
        batching = Batching(max_num_batched_tokens=64, memory=blocks * block, **rules)
        try:
            ends.extend(np.isfinite(simulate(work, times(4, 64), batching=batching).requests["finish"]))
        except DoesNotFit:
            continue
    assert ends
    assert all(ends)
