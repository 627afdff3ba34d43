"""Jumps between events give what stepping through every iteration gives, for every policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.serving.simulator import Arrivals, Batching, PrefixCache, StepTimes, Tier, simulate
from tests.serving.simulator.reference import One, Reference

KV = 1000.0


def times(max_num_seqs: int, budget: int, slope: float = 1e-6, pair: float = 1e-8, images: float = 0.0) -> StepTimes:
    batch = np.arange(1, max_num_seqs + 1)
    return StepTimes(
        base=np.concatenate(([0.0], 0.01 + 1e-4 * batch)),
        slope=np.concatenate(([0.0], np.full(max_num_seqs, slope) * (1 + batch / 100))),
        prompt=np.concatenate(([0.0], 0.005 + 1e-5 * np.arange(1, budget + 1))),
        pair=pair,
        images=images,
        error=0.0,
    )


@st.composite
def systems(draw: st.DrawFn, limited: bool = True) -> tuple[Arrivals, Batching]:
    count = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    policy = draw(
        st.sampled_from(["chunked", "prefill-first", "decode-first", "static", "fixed-interval", "unchunked"])
    )
    preemption = "reserve" if policy == "static" else draw(st.sampled_from(["recompute", "swap", "reserve"]))
    draft_tokens = draw(st.sampled_from([0, 0, 2])) if preemption == "reserve" else 0
    block = draw(st.sampled_from([1, 4, 16]))
    longest = draw(st.sampled_from([20, 120]))
    max_num_seqs = draw(st.integers(1, 8))
    prompt, output = random.integers(1, longest, count), random.integers(1, longest, count)
    most = int(-(-(prompt + output).max() // block) + 1)
    blocks = most + draw(st.integers(0, 6 * most))
    load = draw(st.sampled_from([0.01, 0.3, 3.0]))
    work = Arrivals(
        arrival=np.sort(random.uniform(0, count * load, count)),
        prompt=prompt.astype(np.int32),
        output=output.astype(np.int32),
        rank=random.integers(0, draw(st.integers(1, 3)), count).astype(np.int32),
    )
    scheduling = draw(st.sampled_from(["priority", "vtc"])) if policy != "static" and not draft_tokens else "priority"
    weights = (1.0, 4.0, 0.5)[: int(work.rank.max()) + 1] if scheduling == "vtc" and draw(st.booleans()) else ()
    looks = draw(st.sampled_from([1, 1, 2, 9]))
    limit = draw(st.sampled_from([None, 1, 4])) if limited and looks == 1 else None
    batching = Batching(
        policy=policy, preemption=preemption, scheduling=scheduling, class_weights=weights, max_num_batched_tokens=max(max_num_seqs * (1 + draft_tokens), draw(st.sampled_from([8, 64, 512]))),
        max_num_seqs=max_num_seqs, block=block, memory=blocks * block, ahead=draw(st.booleans()), looks=looks, queue_limit=limit, draft_tokens=draft_tokens, acceptance=(0.7, 0.4)[:draft_tokens],
        share=draw(st.sampled_from([1.0, 0.6])), start=draw(st.sampled_from([0.0, 0.02])), captured=draw(st.sampled_from([0, 16])), start_captured=draw(st.sampled_from([0.0, 0.005])), period=draw(st.sampled_from([0.004, 0.05])), host=draw(st.sampled_from([1e5, 1e9])),
    )  # fmt: skip
    return work, batching


@settings(max_examples=400, deadline=None)
@given(system=systems(), images=st.sampled_from([0.0, 0.003, 0.2]))
def test_jumps_are_exact(system: tuple[Arrivals, Batching], images: float) -> None:
    work, batching = system
    table = times(batching.max_num_seqs, batching.max_num_batched_tokens, images=images)
    found = simulate(work, table, batching=batching, kv_bytes=KV).requests
    one_by_one = [
        One(
            name=i, arrival=float(q["arrival"]), prompt=int(q["prompt"]), steps=int(q["steps"]),
            growth=float(q["growth"]), rank=int(q["rank"]),
        )
        for i, q in enumerate(found)
    ]  # fmt: skip
    Reference(table, batching, swap=batching.block * KV / batching.host).serve(one_by_one)
    for name in ("admitted", "first", "finish", "refused"):
        moments = [getattr(one, name) for one in one_by_one]
        moments = [np.nan if moment in (None, np.inf) else moment for moment in moments]
        assert found[name] == pytest.approx(moments, rel=1e-9, nan_ok=True), name
    assert list(found["dropped"]) == [one.dropped for one in one_by_one]


@pytest.mark.parametrize("count", [1, 3])
def test_steps_that_outgrow_their_interval_take_two(count: int) -> None:
    """Attention to a growing context makes a step longer than the interval in the middle of an answer."""
    work = Arrivals(
        arrival=0.053 * np.arange(count), prompt=np.full(count, 10, np.int32), output=np.full(count, 300, np.int32),
        rank=np.zeros(count, np.int32),
    )  # fmt: skip
    batching = Batching(
        policy="fixed-interval", period=0.02, max_num_seqs=4, max_num_batched_tokens=64, block=4, memory=4000
    )
    table = times(4, 64, slope=1e-4)
    found = simulate(work, table, batching=batching, kv_bytes=KV).requests
    one_by_one = [
        One(name=i, arrival=float(q["arrival"]), prompt=10, steps=299, growth=1.0, rank=0) for i, q in enumerate(found)
    ]
    Reference(table, batching, swap=4 * KV / batching.host).serve(one_by_one)
    assert found["finish"] == pytest.approx([one.finish for one in one_by_one], rel=1e-9)
    # One step an interval at first, one in two or three at the end.
    assert found["finish"][0] > 300 * 0.02 * 1.5


@settings(max_examples=300, deadline=None)
@given(system=systems(limited=False), per=st.integers(1, 3), words=st.integers(1, 3), seed=st.integers(0, 1000))
def test_prefixes_share_the_memory_of_running_requests(
    system: tuple[Arrivals, Batching], per: int, words: int, seed: int
) -> None:
    """Hits, admissions and times where unused prefixes fill what running requests leave."""
    work, batching = system
    random, size = np.random.default_rng(seed), per * batching.block
    known: dict[tuple[int, ...], int] = {}
    paths = []
    for prompt in work.prompt:
        text = tuple(random.integers(0, words, int(-(-prompt // size))).tolist())
        paths.append([known.setdefault(text[: i + 1], len(known)) for i in range(len(text))])
    work = replace(
        work, start=np.concatenate(([0], np.cumsum([len(p) for p in paths]))).astype(np.int64),
        blocks=np.array([b for p in paths for b in p], np.int64), block=size,
    )  # fmt: skip
    table = times(batching.max_num_seqs, batching.max_num_batched_tokens)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf, shared=True),))
    found = simulate(work, table, batching=batching, cache=cache, kv_bytes=KV)
    q = found.requests
    one_by_one = [
        One(
            name=i, arrival=float(one["arrival"]), prompt=int(one["prompt"]), steps=int(one["steps"]),
            growth=float(one["growth"]), rank=int(one["rank"]), path=path,
        )
        for i, (one, path) in enumerate(zip(q, paths, strict=True))
    ]  # fmt: skip
    Reference(table, batching, swap=batching.block * KV / batching.host, prefix=size).serve(one_by_one)
    assert list(q["hit"]) == [one.hit for one in one_by_one]
    for name in ("admitted", "first", "finish"):
        assert q[name] == pytest.approx([getattr(one, name) for one in one_by_one], rel=1e-9), name
    assert list(q["dropped"]) == [one.dropped for one in one_by_one]
    assert (found.replicas.own["free"] == batching.memory // batching.block).all()
    assert not q["pinned"].any()


@settings(max_examples=100, deadline=None)
@given(system=systems())
def test_nothing_is_lost(system: tuple[Arrivals, Batching]) -> None:
    """Tokens in are tokens out, every block comes back, nobody ends before he begins."""
    work, batching = system
    found = simulate(
        work, times(batching.max_num_seqs, batching.max_num_batched_tokens), batching=batching, kv_bytes=KV
    )
    q, own = found.requests, found.replicas.own
    served = np.isfinite(q["finish"])
    assert (served == np.isnan(q["refused"])).all()
    assert served.all() or batching.queue_limit is not None
    assert (q["place"][~served] == -1).all()
    assert (q["refused"][~served] >= q["arrival"][~served]).all()
    # Some lost their place, waited for another, and were refused in favour of more urgent ones.
    written = own["tokens"].sum() - work.output[served].sum()
    assert 0 <= round(float(written), 6) <= work.output[~served & np.isfinite(q["first"])].sum()
    q = q[served]
    assert (q["admitted"] >= q["arrival"]).all()
    assert (q["first"] > q["admitted"]).all()
    assert (q["finish"] >= q["first"]).all()
    assert (own["free"] == batching.memory // batching.block).all()
    assert not (own["running"] + own["reading"] + own["waiting"]).any()
    assert not (own["unread"] + own["prompts"]).any()
    assert not found.replicas.phase.any()
    assert own["attended"].sum() == pytest.approx(0, abs=1e-6)
    assert (own["busy"] <= found.end + 1e-9).all()
