"""The search: no iteration, yet the same steady states; nothing better is thrown away."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Losses, estimate
from rackmath.engine.timer import engine_timer
from rackmath.engine.transfer import transfer_time
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.models.counts import main_format
from rackmath.serving import Load, Scheduling
from rackmath.serving.choice import best, frontier, runners_up, within
from rackmath.serving.load import PassTimes
from rackmath.serving.plan import plan, space_of
from rackmath.serving.points import Points, undominated, undominated_in_groups
from rackmath.serving.renting import rented, requests_per_billed
from rackmath.serving.search import SearchResult, search
from rackmath.serving.search_grid import BATCHES
from rackmath.serving.steady import closed_loop, settled_pools
from rackmath.serving.worker_layouts import worker_sizes
from rackmath.serving.workload import Limits, PlanWorkload, Space, Variant

USUAL = Scheduling(interruption=0.9, lockstep=0.1, queueing=0.3, arrival=0.05, acceptance=0.6)
LOSSES = Losses(memory=1.25, compute=1.4, launch=2e-6, host=5e-4, network=1.2)
WORK = PlanWorkload(input=5000, output=500)


def space(model: str, gpus: int, **choices: object) -> Space:
    return replace(space_of(catalogue.model(model), catalogue.system("h100-sxm"), gpus), **choices)


def found(
    model: str, gpus: int, work: PlanWorkload = WORK, limits: Limits | None = None, **choices: object
) -> SearchResult:
    return search(catalogue.system("h100-sxm"), work, limits or Limits(), space(model, gpus, **choices), LOSSES, USUAL)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_undominated_points_are_those_that_nothing_beats(pairs: list[tuple[int, int]]) -> None:
    gain, cost = (np.array([p[i] for p in pairs], dtype=float) for i in (0, 1))
    kept = {pairs[i] for i in undominated(gain, cost)}
    beaten = {p for p in pairs if any((q[0] >= p[0] and q[1] < p[1]) or (q[0] > p[0] and q[1] <= p[1]) for q in pairs)}
    assert kept == set(pairs) - beaten


def test_a_gain_of_rounding_alone_is_none() -> None:
    """Readers of prompts are the limit: more writers gain what the last digit says, and no frontier has them."""
    gain = np.array([7.0, 7.0 * (1 + 1e-15), 7.0 * (1 - 1e-15), 7.1])
    assert undominated(gain, np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [0, 3]
    assert undominated(-gain[::-1], np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [0, 1]


def test_groups_do_not_hide_each_others_points() -> None:
    gain, cost = np.array([5.0, 1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert undominated(gain, cost).tolist() == [0]
    assert undominated(gain, cost, np.array([0, 1, 1, 1])).tolist() == [0, 1, 2]
    assert undominated(gain, cost, np.array([2, 1, 0, 0])).tolist() == [2, 1, 0]


@pytest.mark.parametrize("chunk", [8192.0, 512.0])
@pytest.mark.parametrize("cached_prefix", [0.0, 0.6])
@pytest.mark.parametrize("mixed", [1.0, 0.0])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_points_of_one_pool_are_steady_states(model: str, mixed: float, cached_prefix: float, chunk: float) -> None:
    # A plan is of a service that runs: without the burst with which a benchmark starts.
    s, work = replace(USUAL, mixed=mixed, queueing=0.0), replace(WORK, cached_prefix=cached_prefix)
    choices = space(model, 4, pools=False, chunks=(chunk,))
    result = search(catalogue.system("h100-sxm"), work, Limits(), choices, LOSSES, s)
    system, p = catalogue.system("h100-sxm"), result.points
    variants = space(model, 4).variants
    for i in range(0, len(p), max(len(p) // 25, 1)):
        architecture = variants[p.variant[i]].architecture
        layout = result.layouts[p.layout[i]]
        load = Load(
            concurrency=float(p.concurrency[i]),
            input=5000.0,
            output=500.0,
            cached_tokens=cached_prefix * 5000.0,
            draft_tokens=float(p.draft_tokens[i]),
            max_num_batched_tokens=float(p.chunk[i]),
        )
        timer = engine_timer(architecture, system, LOSSES)
        state = closed_loop(architecture, system, layout, load, timer, s, running=float(p.batch[i]))
        # What prompts add to mixed steps lies on lines between every second batch of the search; of micro-batches that
        # wait for each other it is a curve.
        within = 2e-3 if layout.pipeline == 1 else 3e-3
        assert p.rate[i] / p.units[i] == pytest.approx(float(state.requests_per_second), rel=within)
        assert p.time_per_output_token[i] == pytest.approx(float(state.time_per_output_token), rel=within)
        # Most of a first token is what its prompt adds to steps.
        exact = p.batch[i] in BATCHES[::2] and layout.pipeline == 1
        first = float(state.time_to_first_token)
        assert p.time_to_first_token[i] == pytest.approx(first, rel=2e-3 if exact else 1e-2)
        memory = estimate(architecture, system, layout, batch=float(p.batch[i]), context=5500).memory
        assert memory.fits


def test_workers_are_parts_of_a_budget_that_fill_domains() -> None:
    boxes = catalogue.system("h100-sxm")
    assert boxes.domain == 8
    assert worker_sizes(12, boxes) == [1, 2, 3, 4, 6, 8, 12]
    assert worker_sizes(40, boxes) == [1, 2, 4, 5, 8, 16, 32, 40]
    assert worker_sizes(40, replace(boxes, scale_out=None)) == [1, 2, 4, 5, 8]
    assert worker_sizes(144, catalogue.system("gb200-nvl72"))[-5:] == [48, 64, 72, 128, 144]


def test_a_large_budget_repeats_the_workers_of_a_small_one() -> None:
    """Layouts, and so the time of a search, do not grow with copies; only the copies do."""
    small, large = (found("llama-3.1-70b", gpus, pools=False) for gpus in (128, 128 * 64))
    assert [x.text() for x in large.layouts] == [x.text() for x in small.layouts]
    assert large.points.rate.max() == pytest.approx(64 * small.points.rate.max())
    assert max(x.gpus for x in large.layouts) == 128


def test_workers_wider_than_a_unit_are_tried_where_no_smaller_one_holds_the_model() -> None:
    system = catalogue.system("h100-sxm")
    wide = space_of(catalogue.model("llama-3.1-70b"), system, 16, weights=("bf16",), pools=False)
    for largest, sizes in ((1, {2, 4, 8, 16}), (4, {2, 4})):
        result = search(system, WORK, Limits(), replace(wide, largest_unit=largest), LOSSES, USUAL)
        assert {float(np.asarray(x.gpus)) for x in result.layouts} == sizes


@given(st.integers(0, 1000), st.sampled_from([np.inf, 0.3, 3.0, 40.0]), st.sampled_from([1, 8]))
def test_nothing_that_could_win_is_left_out_within_a_group(seed: int, rate: float, box: int) -> None:
    """Whatever rate is asked: the best under limits, once it is rented, is among those that a group keeps."""
    random = np.random.default_rng(seed)
    points = found("llama-3.1-8b", 4, pools=False).points
    points = points.taken(random.choice(len(points), 30))
    unit = random.integers(1, 40, 30).astype(float)
    units = np.floor(64 / unit)
    points = replace(
        points, units=units, gpus=units * unit, rate=units * random.uniform(0.1, 3, 30), encoders=np.zeros(30)
    )
    work, choices = replace(WORK, rate=rate), replace(space("llama-3.1-8b", 64), box=box)
    gain = requests_per_billed(points, work, choices)
    latest = float(np.median(points.time_to_first_token))
    kept = points.taken(undominated_in_groups(points, gain, latest, random.integers(0, 3, 30)))
    try:
        everything, _ = rented(points, work, choices)
    except DoesNotFit as refused:
        with pytest.raises(DoesNotFit, match=re.escape(str(refused))):
            rented(kept, work, choices)
        return
    few, _ = rented(kept, work, choices)
    for limit in (latest, np.inf):
        for speed in np.unique(everything.time_per_output_token):
            limits = Limits(time_to_first_token=limit, time_per_output_token=float(speed))
            whole, part = best(everything, limits), best(few, limits)
            assert (whole is None) == (part is None)
            if whole is not None and part is not None:
                assert few.per_gpu[part] == pytest.approx(everything.per_gpu[whole])


def test_points_of_two_pools_are_steady_states() -> None:
    result = found("llama-3.1-8b", 4, chunks=(8192.0,))
    system, p = catalogue.system("h100-sxm"), result.points
    pooled = np.flatnonzero(p.prefill >= 0)
    assert len(pooled)
    variants = space("llama-3.1-8b", 4).variants
    for i in pooled[:: max(len(pooled) // 25, 1)]:
        architecture = variants[p.variant[i]].architecture
        timer = engine_timer(architecture, system, LOSSES)
        write, read = result.layouts[p.layout[i]], result.layouts[p.prefill[i]]
        step = timer("decode", write, float(p.batch[i]), 5250.0, 0.0)
        prompt = timer("prefill", read, float(read.data), 5000.0, 0.0)
        readers = float(p.prefill_workers[i] * read.data)
        gpus = float(p.gpus[i] / p.units[i])
        sent = transfer_time(architecture, system, read, write, 5000.0, gpus)
        load = Load(concurrency=float(p.concurrency[i]), input=5000.0, output=500.0)
        busy = p.rate[i] / p.units[i] * prompt / readers
        waited = sent + busy / (1 - busy) * prompt / 2 / readers
        calm = replace(USUAL, queueing=0.0)
        state = settled_pools(PassTimes(step, prompt, prompt, prompt), readers / prompt, 1e12, load, calm, waited)
        assert p.rate[i] / p.units[i] == pytest.approx(float(state.requests_per_second), rel=1e-3)
        assert p.time_to_first_token[i] == pytest.approx(float(state.time_to_first_token), rel=1e-3)
        # The readers keep up with the writers.
        assert p.rate[i] / p.units[i] * prompt <= readers * (1 + 1e-9)


def test_no_deployment_uses_more_than_the_budget_and_limits_hold() -> None:
    limits = Limits(time_to_first_token=1.0, time_per_output_token=0.03)
    result = found("qwen3-30b-a3b", 6, limits=limits)
    p = result.points
    assert p.gpus.max() <= 6
    chosen = best(p, limits)
    assert chosen is not None
    inside = within(p, limits)
    assert inside[chosen]
    assert p.per_gpu[chosen] == p.per_gpu[inside].max()
    assert result.evaluated >= result.fitting >= len(p)


def test_the_frontier_trades_speed_for_throughput() -> None:
    p = found("llama-3.1-8b", 4).points
    places = frontier(p, Limits())
    assert np.all(np.diff(p.time_per_output_token[places]) > 0)
    assert np.all(np.diff(p.per_gpu[places]) > 0)
    assert p.per_gpu[places[-1]] == p.per_gpu.max()


def test_a_cached_prefix_never_hurts_and_losses_never_help() -> None:
    limits = Limits(time_per_output_token=0.03)
    plain = found("llama-3.1-8b", 2, limits=limits).points
    cached_prefix = found("llama-3.1-8b", 2, work=replace(WORK, cached_prefix=0.8), limits=limits).points
    ideal = search(catalogue.system("h100-sxm"), WORK, limits, space("llama-3.1-8b", 2), None, USUAL).points
    most = [float(p.per_gpu[within(p, limits)].max()) for p in (plain, cached_prefix, ideal)]
    assert most[1] > 1.2 * most[0]
    assert most[2] > most[0]


def test_a_stated_rate_takes_as_few_accelerators_as_serve_it() -> None:
    limits = Limits(time_per_output_token=0.05)
    free = found("llama-3.1-8b", 8, limits=limits).points
    most = float(free.per_gpu[within(free, limits)].max())
    asked = found("llama-3.1-8b", 8, work=replace(WORK, rate=2.5 * most), limits=limits).points
    chosen = best(asked, limits)
    assert chosen is not None
    assert asked.gpus[chosen] == 3
    assert asked.rate[chosen] == pytest.approx(2.5 * most)
    with pytest.raises(DoesNotFit, match="requests per second; the most is"):
        found("llama-3.1-8b", 8, work=replace(WORK, rate=1e6))


def test_what_does_not_fit_is_refused_with_the_way_out() -> None:
    with pytest.raises(DoesNotFit, match="no deployment on up to 2 accelerators"):
        found("deepseek-v3", 2)


@pytest.mark.parametrize(
    "bad",
    [
        {"input": 0.0},
        {"output": float("nan")},
        {"cached_prefix": 1.0},
        {"cached_prefix": -0.1},
        {"rate": 0.0},
        {"input": 1e12},
    ],
)
def test_requests_that_are_none_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        PlanWorkload(**({"input": 100.0, "output": 10.0} | bad))


def test_a_cache_leaves_at_least_one_token_of_a_prompt_to_read() -> None:
    assert PlanWorkload(input=100.0, output=10.0, cached_prefix=0.99).read == pytest.approx(1.0)
    with pytest.raises(InputError, match="leave at least one token"):
        PlanWorkload(input=100.0, output=10.0, cached_prefix=0.991)


def test_experts_stay_with_attention_unless_a_space_says_otherwise() -> None:
    system, variants = catalogue.system("h100-sxm"), space("qwen3-30b-a3b", 8).variants
    plain = search(system, WORK, Limits(), Space(gpus=8, variants=variants), LOSSES, USUAL)
    assert not any(layout.ffn for layout in plain.layouts)
    apart = search(system, WORK, Limits(), Space(gpus=8, variants=variants, afd=True), LOSSES, USUAL)
    assert any(layout.ffn for layout in apart.layouts)


def test_what_a_plan_spends_adds_up_and_losers_are_behind() -> None:
    limits = Limits(time_to_first_token=1.0, time_per_output_token=0.03)
    chosen = plan(catalogue.system("h100-sxm"), WORK, limits, space("qwen3-30b-a3b", 4), LOSSES, USUAL)
    p = chosen.search.points
    assert chosen.best is not None
    total = p.gpus[chosen.best] / (p.rate[chosen.best] * WORK.output)
    assert sum(chosen.seconds_by_use.values()) == pytest.approx(total, rel=1e-6)
    assert chosen.losers
    assert all(x.behind >= 0 for x in chosen.losers)
    assert chosen.ending is not None
    assert 0.5 < chosen.ending.use <= 1


def test_every_precision_that_the_chip_has_is_tried() -> None:
    llama = catalogue.model("llama-3.1-8b")
    tried = {(v.weights, v.kv) for v in space_of(llama, catalogue.system("b200-sxm"), 1).variants}
    assert tried == {(w, k) for w in ("bf16", "fp8", "nvfp4") for k in ("bf16", "fp8")}
    for variant in space_of(llama, catalogue.system("b200-sxm"), 1).variants:
        assert main_format(variant.architecture).name == variant.weights
        assert variant.architecture.cache_format.bits == {"bf16": 16, "fp8": 8}[variant.kv]
    on_a100 = {(v.weights, v.kv) for v in space_of(llama, catalogue.system("a100-sxm"), 1).variants}
    assert on_a100 == {("bf16", "bf16")}
    asked = space_of(llama, catalogue.system("a100-sxm"), 1, weights=["int4"]).variants
    assert [v.weights for v in asked] == ["int4"]
    assert isinstance(asked[0], Variant)


def test_other_deployments_are_of_another_layout_or_draft_or_have_encoders() -> None:
    """Six points, best first: a batch more or less is no other deployment, drafts and accelerators for images are."""
    draft_tokens, encoders = np.array([0.0, 2.0, 0.0, 4.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    some = np.ones(6)
    points = Points(
        variant=np.zeros(6, int), layout=np.array([0, 0, 0, 0, 0, 1]), prefill=-np.ones(6, int), workers=some,
        prefill_workers=some, units=some, encoders=encoders, batch=some, chunk=some, decode_chunk=some, draft_tokens=draft_tokens,
        concurrency=some, gpus=some, billed=some, reading=some, rate=np.arange(6.0, 0.0, -1.0), time_to_first_token=some,
        time_per_output_token=some,
    )  # fmt: skip
    assert runners_up(points, Limits(), 0, 5) == [1, 4, 5]
    assert runners_up(points, Limits(), 0, 2) == [1, 4]


def test_a_request_has_at_most_a_hundred_million_tokens_either_way() -> None:
    assert PlanWorkload(input=1e8, output=1e8, cached_prefix=0.5).read == 5e7
    for longer in ({"input": 1.01e8}, {"output": 1.01e8}):
        with pytest.raises(InputError):
            PlanWorkload(**({"input": 100.0, "output": 10.0} | longer))
