"""Tasks: when they begin, the path that makes each as long as it is, and what caches keep of what they repeat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.serving.simulator import Arrivals, Batching, Fleet, PrefixCache, Tier, simulate, workload
from rackmath.serving.simulator.graph import graph_of
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.sessions import agents
from rackmath.serving.simulator.tasks import beginning_at, first_requests, of_users, prefix_reuse, task_times
from tests.serving.simulator.graphs import random_graph
from tests.serving.simulator.test_against_reference import times

OUTSIDE = 0.02


def forest(count: int, parts: int, random: np.random.Generator) -> Arrivals:
    """Tasks of random graphs, each with one request that waits for nobody."""
    sizes = np.diff(np.sort(np.concatenate(([0, count], random.choice(np.arange(1, count), parts - 1, replace=False)))))
    source, to, delay, sent = [], [], [], []
    begin = 0
    for size in sizes.tolist():
        g = random_graph(size, random, roots=0.0)
        source += [g.source + begin]
        to += [g.to + begin]
        delay += [g.delay]
        sent += [g.dispatch]
        begin += size
    return Arrivals(
        arrival=np.full(count, np.nan),
        prompt=random.integers(1, 200, count).astype(np.int32),
        output=random.integers(1, 40, count).astype(np.int32),
        rank=np.zeros(count, np.int32),
        graph=graph_of(count, *(np.concatenate(each) for each in (source, to, delay, sent))),
        task=np.repeat(np.arange(parts, dtype=np.int32), sizes),
    )


def served(work: Arrivals, replicas: int = 2, cache: PrefixCache | None = None) -> Outcome:
    return simulate(
        workload.checked(work), times(4, 128), batching=Batching(max_num_seqs=4, max_num_batched_tokens=128, outside=OUTSIDE),
        fleet=Fleet(replicas=replicas), cache=cache, kv_bytes=1.0,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), parts=st.integers(1, 8))
def test_the_parts_of_a_task_are_those_of_its_longest_path(seed: int, parts: int) -> None:
    random = np.random.default_rng(seed)
    work = forest(60, parts, random)
    work = beginning_at(work, np.sort(random.uniform(0, 2, parts)))
    outcome = served(work)
    q, g = outcome.requests, work.graph
    assert g is not None
    assert work.task is not None
    tasks = task_times(work, outcome, OUTSIDE)
    incoming: dict[int, list[tuple[int, float, bool]]] = {}
    for source, to, delay, sent in zip(g.source.tolist(), g.to.tolist(), g.delay, g.dispatch, strict=True):
        incoming.setdefault(to, []).append((source, delay, sent))
    for task in range(parts):
        mine = np.flatnonzero(work.task == task)
        # Of those that end together, as members of one batch do, the last one counts.
        at = int(mine[::-1][np.argmax(q["finish"][mine[::-1]])])
        end, total = q["finish"][at] + OUTSIDE, {"service": 0.0, "queueing": 0.0, "tools": 0.0}
        # Back along what allowed each request last, splitting the time as it was spent.
        ended = True
        while True:
            if ended:
                total["service"] += q["finish"][at] + OUTSIDE - q["admitted"][at]
                total["queueing"] += q["admitted"][at] - q["arrival"][at]
            if at not in incoming:
                break

            def moment(edge: tuple[int, float, bool]) -> float:
                source, delay, sent = edge
                return delay + (q["arrival"][source] if sent else q["finish"][source] + OUTSIDE)

            source, delay, sent = max(reversed(incoming[at]), key=moment)
            total["tools"] += delay
            at, ended = source, not sent
        assert tasks.whole[task] == pytest.approx(end - q["arrival"][mine[0]])
        assert sum(total.values()) == pytest.approx(tasks.whole[task]), "the path explains all of it"
        for name, value in total.items():
            assert getattr(tasks, name)[task] == pytest.approx(value, abs=1e-9), name
        assert tasks.requests[task] == len(mine)
        assert tasks.prompt[task] == work.prompt[mine].sum()
        assert tasks.output[task] == work.output[mine].sum()


def test_a_user_begins_a_task_when_his_last_one_has_ended() -> None:
    random = np.random.default_rng(2)
    parts, people = 12, 3
    work = forest(90, parts, random)
    pause = random.exponential(1.0, parts)
    work = of_users(work, np.array([0.0, 0.5, 0.7]), pause)
    outcome = served(work)
    q, first = outcome.requests, first_requests(work)
    tasks = task_times(work, outcome, OUTSIDE)
    assert list(q["arrival"][first[:people]]) == [0.0, 0.5, 0.7]
    for task in range(people, parts):
        mine = np.flatnonzero(work.task == task - people)
        begins = q["finish"][mine].max() + OUTSIDE + pause[task - people]
        assert q["arrival"][first[task]] == pytest.approx(begins)
    assert tasks.whole == pytest.approx([q["finish"][work.task == k].max() + OUTSIDE - q["arrival"][f]
                                         for k, f in enumerate(first)])  # fmt: skip


def test_turns_without_tools_are_served_all_the_time() -> None:
    """One session alone: a task is the sum of its requests and pauses."""
    random = np.random.default_rng(0)
    work = agents(np.zeros(1), 6, first=300, turn_tokens=50, output=20, think_time=2.0, block=16, random=random)
    outcome = served(work, replicas=1)
    tasks, q = task_times(work, outcome, OUTSIDE), outcome.requests
    assert work.graph is not None
    assert tasks.tools[0] == pytest.approx(work.graph.delay.sum())
    assert tasks.queueing[0] == 0
    assert tasks.service[0] == pytest.approx((q["finish"] - q["admitted"]).sum() + 6 * OUTSIDE)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), room=st.sampled_from([300.0, 3000.0, np.inf]))
def test_what_is_kept_and_what_is_read_again_are_what_an_endless_cache_would_find(seed: int, room: float) -> None:
    random = np.random.default_rng(seed)
    work = agents(
        np.sort(random.uniform(0, 5, 12)), 5, first=64, turn_tokens=30, output=25, think_time=0.5, block=16, random=random,
        spread=0.5,
    )  # fmt: skip
    # A host's memory as well; the sessions' first blocks are one.
    blocks = work.blocks.copy()
    blocks[work.start[:-1]] = -1
    work = replace(work, blocks=blocks)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=room), Tier(name="dram", capacity=room)))
    outcome = served(work, replicas=1, cache=cache)
    q = outcome.requests
    seen: set[int] = set()
    again = 0
    written = work.answer_blocks if work.answer_blocks is not None else np.zeros(len(work), np.int32)
    for i in np.argsort(q["arrival"], kind="stable"):
        named = work.blocks[work.start[i] : work.start[i + 1]].tolist()
        prompt = named[: len(named) - written[i]]
        again += sum(block in seen for block in prompt)
        seen.update(named)
    shares = prefix_reuse(work, outcome)
    assert shares["hbm"] == pytest.approx(outcome.hit_blocks["hbm"].sum() / again)
    assert shares["dram"] == pytest.approx(outcome.hit_blocks["dram"].sum() / again)
    assert sum(shares.values()) == pytest.approx(1.0)
    if room == np.inf:
        # A request may come while the one before it with the same blocks is still being read.
        assert shares["recomputed"] < 0.15
