"""Routers of Dynamo and llm-d choose as their published formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.serving.simulator import Arrivals, Batching, Failures, Fleet, PrefixCache, Tier, simulate
from rackmath.serving.simulator.fixed import DYNAMO, LLM_D
from rackmath.serving.simulator.interpreted import _objects
from rackmath.serving.simulator.kinds import ReplicaKind, fixed_of
from rackmath.serving.simulator.scores import best
from rackmath.serving.simulator.state import prefixes, replicas, requests
from tests.serving.simulator.test_against_reference import times


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_best_replica_is_that_of_the_formula(data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    count, prompt = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 200))
    whole = -(-prompt // 16)
    work = Arrivals(
        arrival=np.zeros(1), prompt=np.array([prompt], np.int32), output=np.ones(1, np.int32),
        rank=np.zeros(1, np.int32), start=np.array([0, whole]), blocks=np.arange(whole), block=16,
    )  # fmt: skip
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=1e9),))
    kind = ReplicaKind(
        times=times(4, 64),
        batching=Batching(max_num_seqs=4, max_num_batched_tokens=64, memory=1600),
        replicas=count,
        kv_bytes=1.0,
    )
    f = fixed_of(kind, work, cache)
    s = replicas(np.zeros(count, np.int32), (f,), 0)
    for name, high in (
        ("waiting", 5), ("unread", 2000), ("prompts", 100), ("free", 100), ("ended_unread", 2000), ("ended_prompts", 100),
        ("ended_blocks", 100),
    ):  # fmt: skip
        s.own[name] = random.integers(0, high, count)
    # Replicas amid a step at the moment 1 still have what it reads and ends.
    s.own["clock"] = random.choice([0.5, 1.0, 1.5], count)
    amid = s.own["clock"] > 1
    c = prefixes(count, f, np.arange(whole, dtype=np.int32), whole, 1)
    hits = random.integers(0, whole + 1, count)
    for r, n in enumerate(hits):
        c.links["inside"][r, 0, :n] = True
    q = requests(
        work.arrival, work.prompt, np.zeros(1, np.int32), np.ones(1), work.rank, np.zeros(1, np.int32),
        np.zeros(1, np.int32), np.zeros(1, np.bool_), work.start, np.zeros(1, np.int32),
    )  # fmt: skip
    blocks = {name: _objects(getattr(c, name)) for name in ("links", "uses", "shelves")}
    own, objects = _objects(s.own), _objects(q)
    unread = prompt - np.minimum(hits * 16, prompt)
    queue = s.own["waiting"]
    spread = max(queue.max() - queue.min(), 1)
    values = {
        DYNAMO: -(
            (s.own["unread"] + amid * s.own["ended_unread"] + unread) / 16
            + s.own["prompts"] + amid * s.own["ended_prompts"] + whole
        ),
        LLM_D: 3 * (1 - unread / prompt) + 2 * (queue.max() - queue) / spread * (queue.max() > queue.min())
        + 2 * (queue.max() == queue.min()) + 2 * (s.own["free"] - amid * s.own["ended_blocks"]) / 100,
    }  # fmt: skip
    for router, value in values.items():
        place = best((f,), s._replace(own=own), objects, c._replace(**blocks), 0, 1.0, router, 0, 0)
        assert value[place] == pytest.approx(value.max())
    assert objects[0].unread == unread[values[DYNAMO].argmax()]


@pytest.mark.parametrize("failures", [Failures(), Failures(between=2.0, repair=0.5)])
@pytest.mark.parametrize("router", ["dynamo", "llm-d"])
def test_sessions_go_where_their_prefixes_are_and_loads_stay_level(router: str, failures: Failures) -> None:
    random = np.random.default_rng(0)
    count, sessions = 400, 20
    session = random.integers(0, sessions, count)
    work = Arrivals(
        arrival=np.sort(random.uniform(0, 40, count)), prompt=np.full(count, 128, np.int32),
        output=np.full(count, 20, np.int32), rank=np.zeros(count, np.int32),
        start=np.arange(count + 1) * 8, blocks=(session[:, None] * 8 + np.arange(8)).reshape(-1), block=16,
    )  # fmt: skip
    batching = Batching(max_num_seqs=16, max_num_batched_tokens=512, memory=2400)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf, shared=True),))
    runs = {
        name: simulate(
            work,
            times(16, 512),
            batching=batching,
            cache=cache,
            fleet=Fleet(replicas=4, router=name, failures=failures),
            kv_bytes=1.0,
        )
        for name in (router, "round-robin")
    }
    own = runs[router].replicas.own
    if runs[router].failures:
        assert runs[router].requests["dropped"].any()
    else:
        assert runs[router].hits["hbm"] > runs["round-robin"].hits["hbm"] + 0.05
        assert own["busy"].min() > 0.5 * own["busy"].max()
    # What a router has counted is counted back.
    assert not own["unread"].any()
    assert not own["prompts"].any()
