"""Points corrected one by one: what follows from their times, their bound, and what stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.capacity import largest_batch
from rackmath.errors import DoesNotFit
from rackmath.io import catalogue
from rackmath.serving import Scheduling
from rackmath.serving.choice import best, frontier, gpu_seconds, within
from rackmath.serving.corrections import _near_frontier, _room, corrected
from rackmath.serving.plan import plan, space_of
from rackmath.serving.points import Corrections, Points
from rackmath.serving.search import SearchResult, search
from rackmath.serving.workload import Limits, PlanWorkload

SYSTEM = catalogue.system("h100-sxm")
S = Scheduling(interruption=0.9, lockstep=0.1, queueing=0.3, arrival=0.05, acceptance=0.6)
LOSSES = Losses(memory=1.25, compute=1.4, launch=2e-6, host=5e-4, network=1.2)
WORK = PlanWorkload(input=3000, output=400)
LIMITS = Limits(time_to_first_token=2.0, time_per_output_token=0.05)
SPACE = space_of(catalogue.model("llama-3.1-8b"), SYSTEM, 8)


def factors(decode: float, prefill: float) -> object:
    def correct(points: Points, layouts: Sequence[Layout]) -> Corrections:
        n = len(points)
        assert max(points.layout.max(), points.prefill.max()) < len(layouts)
        return Corrections(
            decode=np.full(n, decode),
            prefill=np.full(n, prefill),
            distance=np.full(n, "near"),
            ranges={"throughput": np.tile([0.8, 1.2], (n, 1))},
        )

    return correct


def refined(decode: float, prefill: float, work: PlanWorkload = WORK) -> tuple[SearchResult, SearchResult]:
    before = search(SYSTEM, work, LIMITS, SPACE, LOSSES, S)
    return before, corrected(before, SYSTEM, work, LIMITS, SPACE, LOSSES, factors(decode, prefill))


def key(p: Points, i: int) -> tuple[object, ...]:
    names = ("variant", "layout", "prefill", "workers", "prefill_workers", "batch", "chunk", "draft_tokens")
    return tuple(float(getattr(p, name)[i]) for name in names)


def test_of_every_band_of_speed_the_nearest_points_are_corrected() -> None:
    """Sixteen bands of equal width on a logarithm; in each the 24 points that lose least to the frontier, by hand."""
    points = search(SYSTEM, WORK, LIMITS, SPACE, LOSSES, S).points
    chosen = set(_near_frontier(points, LIMITS).tolist())
    prompt, step, rate = points.time_to_first_token, points.time_per_output_token, points.per_gpu
    inside = [i for i in range(len(points)) if prompt[i] <= 2.0 * 1.3]
    behind = {i: max(rate[k] for k in inside if step[k] <= step[i]) / rate[i] for i in inside}
    fastest, slowest = min(step[i] for i in inside), max(step[i] for i in inside)
    bands: dict[int, list[int]] = {}
    for i in inside:
        if behind[i] <= 1.3:
            bands.setdefault(int(16 * np.log(step[i] / fastest) / np.log(slowest / fastest)), []).append(i)
    assert max(map(len, bands.values())) > 24
    for members in bands.values():
        members.sort(key=lambda i: behind[i])
        beyond = behind[members[24]] if len(members) > 24 else np.inf
        assert {i for i in members if behind[i] < beyond} <= chosen
    # Beyond those of the bands: the frontier, and the best with other deployments.
    assert len(chosen) <= sum(min(len(members), 24) for members in bands.values()) + len(frontier(points, LIMITS)) + 41


def test_factors_of_one_change_nothing() -> None:
    before, after = refined(1.0, 1.0)
    a, b = frontier(before.points, LIMITS), frontier(after.points, LIMITS)
    assert [key(before.points, i) for i in a] == [key(after.points, i) for i in b]
    for name in ("rate", "concurrency", "units", "billed", "time_to_first_token", "time_per_output_token"):
        np.testing.assert_allclose(getattr(after.points, name)[b], getattr(before.points, name)[a], rtol=1e-9)
    assert key(before.points, best(before.points, LIMITS)) == key(after.points, best(after.points, LIMITS))


def test_times_are_multiplied_and_what_follows_from_them_is_computed_again() -> None:
    before, after = refined(1.25, 1.5)
    places = {key(before.points, i): i for i in range(len(before.points))}
    p, q = before.points, after.points
    assert len(q) > 20
    for j in range(len(q)):
        i = places[key(q, j)]
        assert q.time_per_output_token[j] == pytest.approx(1.25 * p.time_per_output_token[i], rel=1e-9)
        assert q.time_to_first_token[j] == pytest.approx(1.5 * p.time_to_first_token[i], rel=1e-9)
        stay = q.time_to_first_token[j] + WORK.output * q.time_per_output_token[j]
        assert q.concurrency[j] * q.units[j] == pytest.approx(q.rate[j] * stay, rel=1e-9)
        if p.prefill[i] < 0:
            # As many users keep the batch at any speed.
            assert q.concurrency[j] == pytest.approx(p.concurrency[i], rel=1e-9)
            continue
        reading = p.reading[i]
        slower = 1.25 if reading * 1.5 / 1.25 <= 0.95 else max(1.25, reading * 1.5 / max(reading, 0.95))
        assert q.rate[j] == pytest.approx(p.rate[i] / slower, rel=1e-9)
    assert after.corrections is not None
    assert len(after.corrections.decode) == len(q)


def test_no_correction_beats_the_bound() -> None:
    before, after = refined(1e-3, 1e-3)
    places = {key(before.points, i): i for i in range(len(before.points))}
    p = after.points
    for i in range(0, len(p), 7):
        layout = after.layouts[p.layout[i]]
        step = estimate(
            SPACE.variants[p.variant[i]].architecture,
            SYSTEM,
            layout,
            batch=float(p.batch[i]),
            context=WORK.input + WORK.output / 2,
            draft_tokens=float(p.draft_tokens[i]),
            losses=LOSSES,
        )
        accepted = float(S.accepted(float(p.draft_tokens[i])))
        assert p.time_per_output_token[i] * accepted >= float(step.time_ideal) * (1 - 1e-9)
        computed = before.points.time_per_output_token[places[key(p, i)]]
        assert p.time_per_output_token[i] == pytest.approx(computed * float(step.time_ideal / step.time))


@pytest.mark.parametrize("cached_prefix", [0.0, 0.75])
def test_first_tokens_come_no_sooner_than_what_is_not_cached_is_read(cached_prefix: float) -> None:
    work = replace(WORK, cached_prefix=cached_prefix)
    _, after = refined(1.0, 1e-6, work)
    p = after.points
    for i in range(0, len(p), 7):
        reader = after.layouts[p.layout[i] if p.prefill[i] < 0 else p.prefill[i]]
        model = SPACE.variants[p.variant[i]].architecture
        bound = estimate(
            model, SYSTEM, reader, batch=1, context=3000, cached_tokens=3000 * cached_prefix, phase="prefill"
        )
        assert p.time_to_first_token[i] == pytest.approx(float(bound.time))


def test_a_rate_is_served_with_as_many_units_as_the_corrected_speed_needs() -> None:
    work = PlanWorkload(input=3000, output=400, rate=20.0)
    before, after = refined(1.6, 1.6, work)
    chosen = best(after.points, LIMITS)
    assert chosen is not None
    p = after.points
    assert np.all(p.rate == 20.0)
    alone = p.workers * p.batch / (work.output * p.time_per_output_token)
    assert np.all(p.units * alone >= 20.0 * (1 - 1e-9))
    assert p.units[chosen] * p.gpus[chosen] / p.units[chosen] <= 8
    with pytest.raises(DoesNotFit, match="requests per second"):
        refined(80.0, 1.0, PlanWorkload(input=3000, output=400, rate=60.0))
    assert best(before.points, LIMITS) is not None


def test_the_best_keeps_limits_with_its_own_factors_and_its_parts_add_up() -> None:
    answer = plan(SYSTEM, WORK, LIMITS, SPACE, LOSSES, S, factors(1.7, 1.2))
    p, place = answer.search.points, answer.best
    assert place is not None
    assert within(p, LIMITS)[place]
    spent = gpu_seconds(SYSTEM, WORK, SPACE, answer.search, place, LOSSES, S)
    assert sum(spent.values()) == pytest.approx(p.gpus[place] / (p.rate[place] * WORK.output), rel=1e-6)
    assert spent["measurements"] > 0
    alone = plan(SYSTEM, WORK, LIMITS, SPACE, LOSSES, S)
    assert p.per_gpu[place] < alone.search.points.per_gpu[alone.best]


def test_the_first_of_all_layouts_may_be_the_one_that_reads() -> None:
    """Of two pools, requests in flight anywhere are not counted against memory: so where layout 0 reads the prompts."""
    before, _ = refined(1.0, 1.0)
    one = before.points.taken(np.array([0]))
    pooled = replace(one, prefill=np.array([0]))
    assert np.isfinite(_room(one, before, SYSTEM, WORK, SPACE)).all()
    assert np.isinf(_room(pooled, before, SYSTEM, WORK, SPACE)).all()


def test_what_is_in_flight_at_corrected_speeds_finds_a_place() -> None:
    """Prompts that take five times as long keep more requests in flight: what memory does not hold falls away."""
    work = PlanWorkload(input=60_000, output=500)
    after = refined(1.0, 5.0, work)[1]
    p = after.points
    alone = np.flatnonzero(p.prefill < 0)
    room = [
        float(
            largest_batch(
                SPACE.variants[p.variant[i]].architecture, SYSTEM, after.layouts[p.layout[i]],
                context=work.input + work.output, tokens=float(p.chunk[i]),
            )
        )
        for i in alone
    ]  # fmt: skip
    assert np.all(p.concurrency[alone] <= np.array(room) * (1 + 1e-6))
