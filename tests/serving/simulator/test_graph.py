"""Requests that wait for others are sent when all of those allow it, and find what those have left in the caches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.serving.simulator import Arrivals, Batching, Fleet, PrefixCache, Tier, simulate, workload
from rackmath.serving.simulator.graph import chains, graph_of
from rackmath.serving.simulator.settings import ROUTERS
from tests.serving.simulator.graphs import random_graph
from tests.serving.simulator.reference import One, Reference
from tests.serving.simulator.test_against_reference import systems, times


def allowed(work: Arrivals, q: np.ndarray, outside: float) -> list[float]:
    """When each request may be sent, as plainly as it can be said."""
    g = work.graph
    assert g is not None
    moments = [[float(own)] if np.isfinite(own) else [] for own in work.arrival]
    for source, to, delay, sent in zip(g.source, g.to, g.delay, g.dispatch, strict=True):
        moments[to].append(q["arrival"][source] + delay if sent else q["finish"][source] + outside + delay)
    return [max(each) for each in moments]


@settings(max_examples=150, deadline=None)
@given(
    system=systems(limited=False),
    seed=st.integers(0, 10_000),
    replicas=st.integers(1, 3),
    router=st.sampled_from(list(ROUTERS)),
    outside=st.sampled_from([0.0, 0.03]),
)
def test_requests_are_sent_when_all_that_they_wait_for_allow_it(
    system: tuple[Arrivals, Batching], seed: int, replicas: int, router: str, outside: float
) -> None:
    work, batching = system
    random = np.random.default_rng(seed)
    graph = random_graph(len(work), random)
    waits = graph.indegree > 0
    # Some of those that wait have a time of their own as well, before which they are not sent.
    own = np.where(waits & (random.random(len(work)) < 0.7), np.nan, work.arrival)
    work = replace(work, arrival=own, graph=graph)
    batching = replace(batching, outside=outside)
    table = times(batching.max_num_seqs, batching.max_num_batched_tokens)
    fleet = Fleet(replicas=replicas, router=router)
    if batching.policy == "static":
        # A static batch waits for its last answer: with nobody else to come it would begin at another time.
        batching = replace(batching, policy="chunked")
    q = simulate(workload.checked(work), table, batching=batching, fleet=fleet).requests
    assert np.isfinite(q["finish"]).all()
    assert q["arrival"] == pytest.approx(allowed(work, q, outside), rel=1e-12)
    # A train leaves at whole periods, which rounding may put before an arrival at one.
    assert (q["admitted"] >= q["arrival"] * (1 - 1e-12)).all()


@settings(max_examples=200, deadline=None)
@given(system=systems(limited=False), per=st.integers(1, 3), seed=st.integers(0, 1000))
def test_answers_stay_behind_their_prompts(system: tuple[Arrivals, Batching], per: int, seed: int) -> None:
    """Requests whose prompts begin with others' prompts and answers, step by step."""
    work, batching = system
    random = np.random.default_rng(seed)
    block, count = per * batching.block, len(work)
    # Words of one dictionary: prompts and answers of different requests meet in it.
    path = [
        [int(b) for b in np.cumsum(random.integers(0, 2, (int(p) + int(o)) // block + 1)) + 1000 * np.arange(
            (int(p) + int(o)) // block + 1)]
        for p, o in zip(work.prompt, work.output, strict=True)
    ]  # fmt: skip
    whole, stored = work.prompt // block, (work.prompt + work.output - 1) // block
    kept = [path[i][: stored[i]] for i in range(count)]
    work = replace(
        work,
        start=np.concatenate(([0], np.cumsum(stored))).astype(np.int64),
        blocks=np.array([b for each in kept for b in each], np.int64),
        answer_blocks=(stored - whole).astype(np.int32),
        block=block,
    )
    batching = replace(batching, memory=batching.memory + 4 * block)
    table = times(batching.max_num_seqs, batching.max_num_batched_tokens)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf, shared=True),))
    q = simulate(work, table, batching=batching, cache=cache, kv_bytes=1000.0).requests
    requests = [
        One(
            name=i, arrival=float(r["arrival"]), prompt=int(r["prompt"]), steps=int(r["steps"]),
            growth=float(r["growth"]), rank=int(r["rank"]), path=kept[i][: whole[i]], written=kept[i][whole[i] :],
        )
        for i, r in enumerate(q)
    ]  # fmt: skip
    Reference(table, batching, swap=batching.block * 1000.0 / batching.host, prefix=block).serve(requests)
    assert list(q["hit"]) == [one.hit for one in requests]
    assert q["finish"] == pytest.approx([one.finish for one in requests], rel=1e-9)


def test_a_fork_and_a_join_by_hand() -> None:
    """One request, three at once after it, and one that waits for the slowest of them and for a tool."""
    table, batching = times(8, 512, slope=0.0, pair=0.0), Batching(max_num_seqs=8, max_num_batched_tokens=512)
    graph = graph_of(
        5,
        np.array([0, 0, 0, 1, 2, 3]),
        np.array([1, 2, 3, 4, 4, 4]),
        np.array([1.0, 1.0, 0.002, 0.5, 0.5, 0.5]),
        np.array([False, False, True, False, False, False]),
    )
    output = np.array([1, 1, 11, 1, 1], np.int32)
    work = Arrivals(
        arrival=np.array([0.0, np.nan, np.nan, np.nan, np.nan]),
        prompt=np.full(5, 100, np.int32), output=output, rank=np.zeros(5, np.int32), graph=graph,
    )  # fmt: skip
    q = simulate(workload.checked(work), table, batching=batching).requests
    read = 0.005 + 1e-5 * 100
    assert q["finish"][0] == pytest.approx(read)
    assert q["arrival"][1] == q["arrival"][2] == pytest.approx(read + 1.0)
    assert q["arrival"][3] == pytest.approx(0.002), "sent while the first was read"
    both = read + 1.0 + 0.005 + 1e-5 * 200
    assert q["finish"][2] == pytest.approx(both + 10 * (0.01 + 1e-4))
    assert q["arrival"][4] == pytest.approx(q["finish"][2] + 0.5), "the join waits for the slowest"


def test_graphs_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="delay from request 1 to request 2"):
        chains(3, 1, np.array([-1.0, 0.0, 0.0]))
    with pytest.raises(InputError, match="delay from request 2 to request 3"):
        chains(3, 1, np.array([0.0, np.nan, 0.0]))
    lone = Arrivals(
        arrival=np.array([0.0, np.nan]), prompt=np.ones(2, np.int32), output=np.ones(2, np.int32),
        rank=np.zeros(2, np.int32), graph=chains(2, 2, np.zeros(2)),
    )  # fmt: skip
    with pytest.raises(InputError, match="arrival of request 2"):
        workload.checked(lone)
