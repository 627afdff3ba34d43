"""Pairing of pools, reading in chunks, and what a plan says of its points: by brute force."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.capacity import largest_batch
from rackmath.engine.timer import engine_timer
from rackmath.io import catalogue
from rackmath.serving import Scheduling
from rackmath.serving.choice import ending, gpu_seconds, loses_by
from rackmath.serving.plan import space_of
from rackmath.serving.points import undominated
from rackmath.serving.pools import DecodeOptions, _DecodePools, _PrefillPools, _worker_counts, _worthwhile
from rackmath.serving.prompts import reading_time
from rackmath.serving.search import SearchResult, search
from rackmath.serving.startup.held import held_as_launched
from rackmath.serving.waits import read_in_passes
from rackmath.serving.workload import Limits, PlanWorkload

USUAL = Scheduling(interruption=0.9, queueing=0.3, arrival=0.05, acceptance=0.6)
WORK = PlanWorkload(input=3000, output=400)
LOSSES = Losses(memory=1.25, launch=2e-6)


def linear(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
    """A timer that is linear in tokens and in pairs, as attention is; passes as the engine counts them."""
    new = context - cached_tokens
    stages = layout.pipeline * 1.0
    prompts = batch / layout.data
    passes = (np.minimum(prompts, stages) + stages - 1) / stages
    return passes * np.maximum(prompts / stages, 1.0) * (1e-5 * new + 1e-9 * new * (cached_tokens + new / 2))


def walked(times: list[float], stages: int, prompts: int) -> list[float]:
    """When each piece has left the last stage: as many are in flight as stages, each stage works on one at a time."""
    free, left = np.zeros(stages), list[float]()
    for k, time in enumerate(times * prompts):
        clock = left[k - stages] if k >= stages else 0.0
        for s in range(stages):
            clock = free[s] = max(clock, free[s]) + time
        left.append(clock)
    return left


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize(("chunk", "cached_prefix"), [(512.0, 0.0), (1000.0, 0.5), (700.0, 0.0), (160.0, 0.0)])
def test_pieces_of_a_prompt_take_what_they_take_one_by_one(stages: int, chunk: float, cached_prefix: float) -> None:
    work, layout = replace(WORK, cached_prefix=cached_prefix), Layout(pipeline=stages, data=2)
    alone, full, together = reading_time(layout, work.input, work.input - work.read, chunk, linear)
    new, known = work.read, work.input - work.read
    pieces = int(np.ceil(new / chunk))
    each = new / pieces
    whole = [linear("prefill", layout, 2.0, known + each * (i + 1), 0.0, known + each * i) for i in range(pieces)]
    times = [float(time) / stages for time in whole]
    # Later pieces see more and take longer; those behind wait for them.
    assert alone == pytest.approx(walked(times, stages, 1)[-1])
    assert together == 1
    left = walked(times, stages, 60)
    steady = (left[-1] - left[20 * pieces - 1]) / 40
    # Of more stages than pieces, which they are no multiple of, some wait less.
    assert steady * (1 - 1e-9) <= full <= steady * (1 + 1e-9 if stages <= pieces else 1.04)
    assert (full > sum(times) * (1 + 1e-9)) == (stages > 1 and pieces > 1)


def test_short_prompts_share_a_pass() -> None:
    layout = Layout(data=2)
    alone, full, together = reading_time(layout, 100.0, 0.0, 1000.0, linear)
    assert together == 10
    assert full == pytest.approx(linear("prefill", layout, 20.0, 100.0, 0.0) / 10)
    assert alone == pytest.approx(linear("prefill", layout, 2.0, 100.0, 0.0))


def test_worker_counts_are_all_that_repeat_no_smaller_unit() -> None:
    space = space_of(catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm"), 64)
    found = set(_worker_counts(1, 2, space))
    assert found == {(p, w) for p in range(1, 9) for w in range(1, 9) if gcd(p, w) == 1 and p + 2 * w <= 64}
    assert {(8, 1), (1, 8)} <= found
    assert set(_worker_counts(32, 32, space)) == {(1, 1)}


def test_sizes_of_readers_are_kept_for_rate_per_accelerator_or_latency() -> None:
    def reader(prompt: float, groups: float) -> _PrefillPools:
        one = np.array([0])
        return _PrefillPools(
            layout=one, chunk=one, prompt=np.array([prompt]), alone=np.array([prompt]), groups=np.array([groups]),
            together=np.ones(1), stages=np.ones(1), drafted=np.array([True]), kind=one,
        )  # fmt: skip

    # 2 prompts/s and accelerator at 0.5 s; 1 at 0.25 s; 0.8 at 0.3 s, which both others together beat.
    readers = {1.0: reader(0.5, 1.0), 4.0: reader(0.25, 1.0), 8.0: reader(0.3, 1.92)}
    assert _worthwhile(readers) == [1.0, 4.0]


@given(seed=st.integers(0, 500), acceptance=st.floats(0.0, 0.9))
def test_writers_that_nothing_of_their_layout_beats(seed: int, acceptance: float) -> None:
    draw = np.random.default_rng(seed)
    draft_tokens, batches = np.array([0.0, 2.0]), np.array([1.0, 4.0, 16.0])
    s = Scheduling(acceptance=acceptance)
    options = DecodeOptions(
        layouts=[Layout(tensor=2), Layout(data=2), Layout(pipeline=2)],
        gpus=np.array([2.0, 2.0, 2.0]),
        batches=batches,
        step=draw.uniform(0.01, 0.1, (3, 3, 2)),
        capacity=np.array([[20.0, 9.0], [5.0, 3.0], [20.0, 9.0]]),
        drafted=np.ones((3, 2), dtype=bool),
        kind=np.zeros(3, dtype=int),
        scheduling=s,
    )
    w = _DecodePools.of(options, np.array([0, 1, 2]), WORK, draft_tokens, np.array([16.0, 64.0]))
    # The second layout holds five sequences at most; verified drafts of sixteen take a wider pass, which leaves
    # room for nine of them, but for two groups that share them.
    assert len(w.layout) == 5 + 4 + 5
    assert w.chunk.tolist() == [16.0] * len(w.layout)
    accepted = np.asarray(s.accepted(w.draft_tokens))
    assert w.tpot == pytest.approx(w.step / accepted)
    meant = draw.random(len(w.layout)) < 0.7
    kept = np.flatnonzero(meant)[undominated((w.batch / w.tpot)[meant], w.tpot[meant], w.layout[meant])]
    assert set(np.flatnonzero(w.undominated(meant)).tolist()) == set(kept.tolist())
    assert w.lanes.tolist() == [2.0 if i != 1 else 1.0 for i in w.layout]


def found(model: str, gpus: int, **choices: Any) -> tuple[SearchResult, Any]:
    system = catalogue.system("h100-sxm")
    space = replace(space_of(catalogue.model(model), system, gpus), **choices)
    return search(system, WORK, Limits(), space, LOSSES, USUAL), space


def test_every_point_names_the_layout_and_the_formats_it_was_computed_with() -> None:
    # In 8 bit the model fits one accelerator, in 16 bit it does not: the lists of layouts differ.
    result, space = found("qwen3-32b", 2, draft_tokens=(0.0, 2.0))
    p, system = result.points, catalogue.system("h100-sxm")
    assert {v.weights for v in space.variants} == {"bf16", "fp8"}
    for i in range(0, len(p), max(len(p) // 60, 1)):
        layout, a = result.layouts[p.layout[i]], space.variants[p.variant[i]].architecture
        step = estimate(
            a, system, layout, batch=p.batch[i], context=3200, draft_tokens=p.draft_tokens[i], losses=LOSSES
        )
        assert bool(step.memory.fits)
        assert p.time_per_output_token[i] >= float(step.time / USUAL.accepted(p.draft_tokens[i])) * (1 - 1e-9)
        unit = p.workers[i] * layout.gpus
        if p.prefill[i] >= 0:
            read = result.layouts[p.prefill[i]]
            unit += p.prefill_workers[i] * read.gpus
            assert p.time_per_output_token[i] == pytest.approx(float(step.time / USUAL.accepted(p.draft_tokens[i])))
        assert p.gpus[i] == p.units[i] * unit <= 2
        # As many are being answered as the batch says; where the same accelerators read, as many are in the engine.
        stay, count = WORK.output * p.time_per_output_token[i], p.workers[i] * p.batch[i]
        if p.prefill[i] < 0:
            stay, count = stay + p.time_to_first_token[i], p.concurrency[i]
        assert p.rate[i] / p.units[i] * stay == pytest.approx(count)


def test_powers_of_two_are_tried_beside_divisors() -> None:
    result, _ = found("llama-3.1-8b", 6, pools=False)
    assert {float(x.gpus) for x in result.layouts} == {1.0, 2.0, 3.0, 4.0, 6.0}


def test_accelerator_time_is_that_of_the_step_and_of_prompts() -> None:
    result, space = found("llama-3.1-8b", 2, draft_tokens=(2.0,))
    p, system = result.points, catalogue.system("h100-sxm")
    for i in (0, len(p) // 2, len(p) - 1):
        layout, a = result.layouts[p.layout[i]], space.variants[p.variant[i]].architecture
        step = estimate(a, system, layout, batch=p.batch[i], context=3200, draft_tokens=2, losses=LOSSES)
        parts = gpu_seconds(system, WORK, space, result, i, LOSSES, USUAL)
        of_step = float(layout.gpus * step.time) / (p.batch[i] * float(USUAL.accepted(2.0)))
        assert sum(v for k, v in parts.items() if k != "prompts and waiting") == pytest.approx(of_step)
        assert sum(parts.values()) == pytest.approx(p.gpus[i] / (p.rate[i] * WORK.output))


def test_what_is_spent_more_is_a_part_of_the_best() -> None:
    winner, other = {"weights": 2.0, "network": 2.0}, {"weights": 3.0, "network": 2.0}
    assert loses_by(winner, other) == "weights +25%"
    assert loses_by(winner, winner) == "nothing stands out"


def test_what_stops_a_point_is_used_most() -> None:
    result, space = found("llama-3.1-8b", 1, pools=False)
    p, system = result.points, catalogue.system("h100-sxm")
    i = int(np.argmax(p.batch))
    layout, a = result.layouts[p.layout[i]], space.variants[p.variant[i]].architecture
    room = float(largest_batch(a, system, layout, context=3400, tokens=float(p.chunk[i])))
    memory = ending(system, WORK, Limits(), space, result, i)
    assert memory.stopped_by == "memory"
    assert memory.use == pytest.approx(p.concurrency[i] / room)
    tight = Limits(time_per_output_token=p.time_per_output_token[i] / 0.99)
    if memory.use < 0.99:
        assert ending(system, WORK, tight, space, result, i).stopped_by == "time per output token"
    first = Limits(time_to_first_token=p.time_to_first_token[i] / 2)
    late = ending(system, WORK, first, space, result, i)
    assert (late.stopped_by, late.use) == ("time to first token", pytest.approx(2.0))


def test_an_engine_times_pieces_as_it_times_the_prompt() -> None:
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    timer = engine_timer(model, system, None)
    whole, _, _ = reading_time(Layout(), WORK.input, 0.0, 4096.0, timer)
    cut, _, _ = reading_time(Layout(), WORK.input, 0.0, 1000.0, timer)
    assert cut == pytest.approx(float(whole), rel=0.05)


def test_each_pool_holds_what_it_is_launched_with() -> None:
    """A worker that writes answers only is started with the pass that its batch was counted with, not the readers'."""
    a, system = catalogue.model("qwen3-32b"), catalogue.system("rtx-4090")
    space = space_of(a, system, 4, engine="vllm")
    result = search(system, WORK, Limits(), space, LOSSES, USUAL)
    p = result.points
    pooled = np.flatnonzero(p.prefill >= 0)
    assert (p.decode_chunk[pooled] < p.chunk[pooled]).any()
    assert np.array_equal(p.decode_chunk[p.prefill < 0], p.chunk[p.prefill < 0])
    for i in pooled:
        variant = space.variants[p.variant[i]].architecture
        layouts = result.layouts[p.layout[i]], result.layouts[p.prefill[i]]
        budgets = float(p.decode_chunk[i]), float(p.chunk[i])
        writer, reader = (
            held_as_launched(variant, system, [layout], [budget], space.server, WORK.input + WORK.output)[0, 0]
            for layout, budget in zip(layouts, budgets, strict=True)
        )
        assert writer >= p.batch[i]
        assert reader >= layouts[1].data
        limits = Limits(time_to_first_token=1e9, time_per_output_token=1e9)
        full = ending(system, WORK, limits, space, result, int(i))
        shares = {
            "memory": p.batch[i] / writer,
            "number of sequences that the engine takes": 0.0,
            "capacity of the prefill workers": p.reading[i],
        }
        assert full.stopped_by == max(shares, key=lambda name: shares[name])
        assert full.use == pytest.approx(max(shares.values()))
        assert full.use <= 1


def in_passes(base: float, slope: float, most: int, stages: int, rate: float) -> float:
    """Mean time until prompts that come at random are read, in passes of ``base`` and ``slope`` for each, walked."""
    rng = np.random.default_rng(5)
    came = np.cumsum(rng.exponential(1 / rate, 30_000))
    free, at, waits = np.zeros(stages), 0, list[float]()
    while at < len(came):
        lane = int(free.argmin())
        begin = max(free[lane], came[at])
        count = min(int(np.searchsorted(came, begin, side="right")) - at, most)
        free[lane] = begin + base + slope * count
        waits += list(free[lane] - came[at : at + count])
        at += count
    return float(np.mean(waits))


@pytest.mark.parametrize(("base", "slope", "most", "stages"), [
    (0.0, 0.1, 1, 1), (0.05, 0.05, 4, 1), (0.02, 0.01, 40, 1), (0.0, 0.4, 1, 4), (0.1, 0.1, 4, 4),
])  # fmt: skip
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 0.9])
def test_prompts_that_come_meanwhile_are_read_in_the_next_pass(
    base: float, slope: float, most: int, stages: int, load: float
) -> None:
    full, alone = (base + slope * most) / (most * stages), base + slope
    reading, wait = read_in_passes(full, alone, most, stages, load / full)
    walk = in_passes(base, slope, most, stages, load / full)
    assert float(reading + wait) == pytest.approx(walk, rel=0.1)
