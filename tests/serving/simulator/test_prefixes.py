"""Prefix caches: Mooncake's hits, stack distances, tiers that never overflow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.io.traces import read_trace
from rackmath.serving.simulator import Arrivals, Batching, Fleet, PrefixCache, Tier, simulate
from rackmath.serving.simulator.workload import numbered, plain, renumbered
from tests.conftest import SHARED
from tests.serving.simulator.test_queues import flat

TRACE = SHARED / "traces/mooncake_conversation.jsonl"


def workload_of(paths: list[list[int]], block: int = 4, gap: float = 1.0) -> Arrivals:
    """Prompts by their blocks, far apart; one token more than their blocks."""
    counts = [len(path) for path in paths]
    return Arrivals(
        arrival=gap * np.arange(len(paths), dtype=float),
        prompt=np.array([block * n + 1 for n in counts], np.int32),
        output=np.ones(len(paths), np.int32),
        rank=np.zeros(len(paths), np.int32),
        start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        blocks=np.array([one for path in paths for one in path], np.int64),
        block=block,
    )


@given(
    st.one_of(
        st.lists(st.integers(-5, 60), max_size=40),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40),
    )
)
def test_names_are_numbered_in_their_order(names: list[int]) -> None:
    """Those that lie close together and those that do not."""
    order = sorted(set(names))
    numbers, count = numbered(np.array(names, np.int64))
    assert numbers.tolist() == [order.index(name) for name in names]
    assert count == len(order)


@st.composite
def trees(draw: st.DrawFn) -> list[list[int]]:
    """Prompts that share prefixes as a tree does: a block's id names its whole path."""
    ids: dict[tuple[int, ...], int] = {}
    paths = []
    for _ in range(draw(st.integers(1, 40))):
        words = tuple(draw(st.lists(st.integers(0, 2), min_size=1, max_size=6)))
        paths.append([ids.setdefault(words[: i + 1], len(ids)) for i in range(len(words))])
    return paths


def hits_by_stack(paths: list[list[int]], capacity: int) -> int:
    """Blocks found by a cache of so many, from the depths at which a stack of last uses holds them."""
    stack: list[int] = []
    found = 0
    for path in paths:
        for one in path:
            if one not in stack or stack.index(one) >= capacity:
                break
            found += 1
        for one in reversed(path):
            if one in stack:
                stack.remove(one)
            stack.insert(0, one)
    return found


@settings(max_examples=150, deadline=None)
@given(paths=trees(), capacity=st.integers(1, 30))
def test_least_recently_used_is_a_stack(paths: list[list[int]], capacity: int) -> None:
    work = workload_of(paths)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=capacity * 4.0),))
    found = simulate(work, flat(0.01, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0)
    asked = sum(len(path) for path in paths)
    assert found.blocks_asked == asked
    assert found.hits["hbm"] * asked == pytest.approx(hits_by_stack(paths, capacity))


@settings(max_examples=100, deadline=None)
@given(
    paths=trees(), sizes=st.tuples(st.integers(0, 8), st.integers(1, 20)), eviction=st.sampled_from(["lru", "lfu", "ttl"]),
    through=st.booleans(), overlapped=st.booleans(),
)  # fmt: skip
def test_tiers_never_hold_more_than_they_can(
    paths: list[list[int]], sizes: tuple[int, int], eviction: str, through: bool, overlapped: bool
) -> None:
    work = workload_of(paths)
    tiers = (Tier(name="hbm", capacity=4.0 * sizes[0]), Tier(name="dram", capacity=4.0 * sizes[1], bandwidth=1e3))
    cache = PrefixCache(tiers=tiers, eviction=eviction, lifetime=5.0, through=through, overlapped=overlapped)
    found = simulate(work, flat(0.01, 2), batching=Batching(max_num_seqs=2), cache=cache, kv_bytes=1.0)
    assert np.isfinite(found.requests["finish"]).all()
    assert 0 <= sum(found.hits.values()) <= 1
    assert (found.requests["hit"] < work.prompt).all(), "the last token is always read"
    if eviction == "lru" and not through:
        # What the first gives up goes to the second: together they are one stack.
        asked = found.blocks_asked
        assert sum(found.hits.values()) * asked == pytest.approx(hits_by_stack(paths, sum(sizes)))


def test_loads_take_their_time() -> None:
    """Two blocks of 4 bytes at 8 B/s and half a second of latency: 1.5 s, beside other work or before it."""
    work = workload_of([[0, 1], [0, 1]], gap=10.0)
    tiers = (Tier(name="hbm", capacity=0.0), Tier(name="dram", capacity=100.0, bandwidth=8.0, latency=0.5))
    for overlapped in (True, False):
        cache = PrefixCache(tiers=tiers, overlapped=overlapped)
        q = simulate(work, flat(0.25, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0).requests
        assert list(q["hit"]) == [0, 8]
        assert q["first"][1] - q["arrival"][1] == pytest.approx(1.75)


def test_unused_blocks_expire() -> None:
    paths = [[0, 1], [0, 1]]
    for gap, hit in ((1.0, 8), (20.0, 0)):
        cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf),), eviction="ttl", lifetime=10.0)
        q = simulate(
            workload_of(paths, gap=gap), flat(0.1, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0
        )
        assert q.requests["hit"][1] == hit


def test_the_least_used_goes_first() -> None:
    """Block 0 is used three times, 1 twice, 2 once; 3 takes the place of 2."""
    paths = [[0], [0], [0], [1], [1], [2], [3], [1], [0]]
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=12.0),), eviction="lfu")
    q = simulate(
        workload_of(paths), flat(0.1, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0
    ).requests
    assert list(q["hit"]) == [0, 4, 4, 0, 4, 0, 0, 4, 4]


@pytest.mark.long
def test_mooncake_s_conversation_hits_what_its_authors_count() -> None:
    if not TRACE.exists():
        pytest.skip("../shared/traces is not here")
    work, notes = read_trace(TRACE)
    assert not notes
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf),))
    found = simulate(work, flat(1e-4, 256, step=1e-3), batching=Batching(), cache=cache, kv_bytes=1.0)
    assert found.blocks_asked == 288_500
    assert found.hits["hbm"] == pytest.approx(1 - 182_790 / 288_500, abs=1e-9)
    assert round(100 * found.hits["hbm"], 2) == 36.64


def test_a_common_tier_is_everybody_s() -> None:
    """Two replicas in turn: what one has read the other finds in the pool, and a replica that fails leaves it there."""
    paths = [[0, 1], [0, 1], [0, 1], [0, 1]]
    own = Tier(name="hbm", capacity=8.0)
    for common, hits in ((False, [0, 0, 8, 8]), (True, [0, 8, 8, 8])):
        pool = Tier(name="pool", capacity=1000.0, bandwidth=1e3, common=common)
        cache = PrefixCache(tiers=(own, pool), through=True)
        found = simulate(
            workload_of(paths), flat(0.1, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0,
            fleet=Fleet(replicas=2),
        )  # fmt: skip
        assert list(found.requests["hit"]) == hits
    assert found.hits["pool"] == pytest.approx(2 / 8)
    assert found.hit_blocks["pool"].tolist() == [0, 2, 0, 0]
    assert found.hit_blocks["hbm"].tolist() == [0, 0, 2, 2]
    assert found.hits["hbm"] == pytest.approx(4 / 8)


@settings(max_examples=60, deadline=None)
@given(
    paths=trees(), sizes=st.tuples(st.integers(0, 8), st.integers(1, 20)), through=st.booleans(),
    eviction=st.sampled_from(["lru", "lfu", "ttl"]), replicas=st.integers(1, 3),
)  # fmt: skip
def test_a_common_tier_never_holds_more_than_it_can(
    paths: list[list[int]], sizes: tuple[int, int], through: bool, eviction: str, replicas: int
) -> None:
    tiers = (Tier(name="hbm", capacity=4.0 * sizes[0]), Tier(name="pool", capacity=4.0 * sizes[1], common=True))
    cache = PrefixCache(tiers=tiers, eviction=eviction, lifetime=5.0, through=through)
    found = simulate(
        workload_of(paths), flat(0.01, 2), batching=Batching(max_num_seqs=2), cache=cache, kv_bytes=1.0,
        fleet=Fleet(replicas=replicas),
    )  # fmt: skip
    assert np.isfinite(found.requests["finish"]).all()
    assert found.kept["pool"] <= sizes[1] + 1e-9
    assert found.kept["hbm"] <= sizes[0] * replicas + 1e-9
    assert 0 <= sum(found.hits.values()) <= 1


def test_one_replica_s_pool_is_its_own_tier() -> None:
    random = np.random.default_rng(0)
    paths = [[int(a), 10 + int(a)] for a in random.integers(0, 6, 60)]
    found = []
    for common in (False, True):
        tiers = (Tier(name="hbm", capacity=16.0), Tier(name="pool", capacity=24.0, bandwidth=1e3, common=common))
        cache = PrefixCache(tiers=tiers, through=True)
        q = simulate(
            workload_of(paths), flat(0.1, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0
        ).requests
        found.append((q["hit"].tolist(), q["finish"].tolist()))
    assert found[0] == found[1]


def test_what_a_tier_holds_is_counted_over_time() -> None:
    """Two blocks used at 0 and, together with a third one, at 30 s; each kept for 10 s after; the last answer at 100 s."""
    work = workload_of([[0, 1], [0, 1, 2], [3]])
    work = replace(work, arrival=np.array([0.0, 30.0, 99.0]))
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf),), eviction="ttl", lifetime=10.0)
    found = simulate(work, flat(1.0, 1), batching=Batching(max_num_seqs=1), cache=cache, kv_bytes=1.0)
    assert found.end == pytest.approx(100.0)
    assert found.kept["hbm"] * 100.0 == pytest.approx(2 * 10 + 3 * 10 + 1)


def test_the_same_text_has_another_cache_under_every_model() -> None:
    """Blocks 7 and 8 under three models are six, and those of one model the same in every request."""
    service = np.array([0, 1, 2, 0, 2], dtype=np.int32)
    work = replace(
        plain(np.arange(5.0), np.full(5, 1024), np.full(5, 1)),
        start=np.arange(0, 11, 2),
        blocks=np.tile(np.array([7, 8]), 5),
        service=service,
    )
    _, ids, count = renumbered(work)
    of_request = ids.reshape(5, 2)
    assert count == 6
    assert len({tuple(row) for row in of_request.tolist()}) == 3
    assert of_request[0].tolist() == of_request[3].tolist()
    assert of_request[2].tolist() == of_request[4].tolist()
    assert len(set(ids.tolist())) == 6
