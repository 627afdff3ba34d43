"""Routed experts on accelerators of their own: against a pipeline played step by step, closed forms, published runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.apart import apart_facts, apart_range
from rackmath.engine import Layout, Losses, estimate, parse_layout
from rackmath.engine.capacity import largest_batch
from rackmath.engine.collectives import many_to_many
from rackmath.engine.layout import apart_layouts
from rackmath.engine.pass_time import APART_UNMEASURED, POOLS
from rackmath.engine.pass_time import _Bounds as Bounds  # pyright: ignore[reportPrivateUsage]
from rackmath.engine.sharding import memory
from rackmath.errors import InputError
from rackmath.hardware import Link, System
from rackmath.io import catalogue, constants_file
from rackmath.models.adapters import Adapters
from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config
from rackmath.models.counts import weight_bytes
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise

DEEPSEEK = catalogue.model("deepseek-v3")
QWEN = catalogue.model("qwen3-235b-a22b-fp8")
H200, GB200 = catalogue.system("h200-sxm"), catalogue.system("gb200-nvl72")


def steady_step(seconds: tuple[float, ...], turns: int, layers: int) -> float:
    """Time between two tokens of a micro-batch, after many: four stations in a ring, each takes one at a time."""
    free = [0.0] * len(seconds)
    ready = [0.0] * turns
    ends: list[float] = []
    for _ in range(40 * layers):
        for batch in range(turns):
            at = ready[batch]
            for station, time in enumerate(seconds):
                at = max(at, free[station]) + time
                free[station] = at
            ready[batch] = at
        ends.append(ready[0])
    return (ends[-1] - ends[20 * layers - 1]) / 20


@settings(max_examples=60, deadline=None)
@given(seconds=st.tuples(*[st.floats(0.001, 1.0)] * 4), turns=st.integers(1, 5), layers=st.integers(1, 4))
def test_a_step_takes_what_a_pipeline_takes_played_layer_by_layer(
    seconds: tuple[float, float, float, float], turns: int, layers: int
) -> None:
    whole = {pool: layers * time for pool, time in zip(POOLS, seconds, strict=True)}
    bounds = Bounds.of(whole, float(turns))
    assert float(bounds.time) == pytest.approx(steady_step(seconds, turns, layers), rel=1e-9)
    assert float(bounds.time) == pytest.approx(
        float(bounds.of_pools(whole, float(turns))) if bounds.binds["round trip"] else turns * max(whole.values())
    )
    assert sum(float(one) for one in bounds.binds.values()) == 1


def perfect(system: System) -> System:
    """The same accelerators on a network that takes no time."""
    link = Link(bandwidth=float("inf"), latency=0.0)
    return replace(system, scale_up=link, scale_out=link)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize(("model", "ranks"), [(DEEPSEEK, 16), (QWEN, 8)])
def test_one_micro_batch_on_a_perfect_network_is_expert_parallelism(
    model: Architecture, ranks: int, phase: str
) -> None:
    """As many accelerators of experts as of attention meet the same tokens, with the same experts each."""
    asked: dict[str, Any] = {"batch": 40.0 * ranks, "context": 3000.0, "phase": phase}
    system = perfect(H200)
    beside = estimate(model, system, Layout(expert=ranks, data=ranks), **asked)
    apart = estimate(model, system, parse_layout(f"ffn{ranks},dp{ranks},mb1", None, model), **asked)
    assert apart.time_ideal == pytest.approx(float(beside.time_ideal), rel=1e-12)
    assert apart.gpus == 2 * beside.gpus
    for name in ("compute", "weights", "cache", "activations"):
        assert apart.terms[name] == pytest.approx(float(beside.terms[name]), rel=1e-12)
    # Half of the accelerators work on each part.
    assert apart.memory_time == pytest.approx(float(beside.memory_time) / 2, rel=1e-12)
    assert apart.compute_time == pytest.approx(float(beside.compute_time) / 2, rel=1e-12)


def test_two_micro_batches_halve_a_balanced_step() -> None:
    """Far above the batch where weights are read, pools that work alike do so at once."""
    asked: dict[str, Any] = {"batch": 2.0e6, "context": 1.0}
    system = perfect(H200)
    once, twice = (
        estimate(DEEPSEEK, system, parse_layout(f"ffn32,dp32,mb{n}", None, DEEPSEEK), **asked) for n in (1, 2)
    )
    longest = max(once.busy.values())
    assert twice.time == pytest.approx(float(longest), rel=0.02)
    assert once.time == pytest.approx(float(sum(once.busy.values())), rel=1e-12)


def test_no_weight_is_held_twice_and_none_is_lost() -> None:
    for ffn in (2, 8, 32):
        held = memory(DEEPSEEK, Layout(expert=ffn, ffn=ffn, micro_batches=2), 0.0, 1.0, 0.0, 1e15)
        assert held.weights + ffn * held.experts == pytest.approx(sum(weight_bytes(DEEPSEEK).values()), rel=1e-12)
    experts = weight_bytes(DEEPSEEK)["experts"]
    assert held.experts == pytest.approx(experts / 32, rel=1e-12)


def test_sequences_fit_only_where_experts_do() -> None:
    few, more = (parse_layout(f"dp8,ffn{n}", None, DEEPSEEK) for n in (2, 8))
    asked: dict[str, Any] = {"context": 4096.0, "tokens": 128.0}
    assert largest_batch(DEEPSEEK, H200, few, **asked) == 0
    alone = largest_batch(DEEPSEEK, H200, more, **asked)
    assert 8 * 390 < alone < 8 * 410
    assert not estimate(DEEPSEEK, H200, few, batch=8.0, context=100.0).memory.fits
    assert estimate(DEEPSEEK, H200, more, batch=8.0, context=100.0).memory.fits


@given(size=st.floats(1, 1e9), senders=st.integers(1, 64), receivers=st.integers(1, 64), crossing=st.floats(0, 1))
def test_all_bytes_pass_the_links_of_the_smaller_pool(
    size: float, senders: int, receivers: int, crossing: float
) -> None:
    near = replace(H200, domain=senders + receivers)
    up, out = H200.scale_up, H200.scale_out
    assert up is not None
    assert out is not None
    whole = senders * size
    assert many_to_many(size, size * crossing, senders, receivers, near) == pytest.approx(
        whole / min(senders, receivers) / up.bandwidth + up.latency
    )
    far = replace(H200, domain=max(senders + receivers - 1, 1))
    leaving = whole * crossing / min(senders, receivers) / out.bandwidth
    spread = whole / receivers / up.bandwidth
    assert many_to_many(size, size * crossing, senders, receivers, far) == pytest.approx(
        max(leaving, spread) + up.latency + out.latency
    )


def test_dispatch_and_combine_of_a_layer_by_hand() -> None:
    """8 of 256 experts on 16 accelerators are on 6.52 of them; 8 bit and its scales go, 16 bit come back."""
    step = estimate(DEEPSEEK, GB200, parse_layout("dp32,ffn16,mb1", None, DEEPSEEK), batch=3200.0, context=100.0)
    assert GB200.scale_up is not None
    copies = 6.521
    sent = 58 * (100 * copies * 7168 * (1 + 4 / 128) * 32 / 16 / GB200.scale_up.bandwidth + GB200.scale_up.latency)
    back = 58 * (100 * copies * 7168 * 2 * 32 / 16 / GB200.scale_up.bandwidth + GB200.scale_up.latency)
    assert step.busy["dispatch"] == pytest.approx(sent, rel=1e-3)
    assert step.busy["combine"] == pytest.approx(back, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.floats(1, 1e6), context=st.floats(1, 1e5), ffn=st.sampled_from([1, 2, 8, 64]), data=st.integers(1, 64),
    tensor=st.sampled_from([1, 2, 8]), turns=st.integers(1, 4), phase=st.sampled_from(["decode", "prefill"]),
    lossy=st.booleans(), faster=st.floats(1, 4),
)  # fmt: skip
def test_times_add_up_and_more_bandwidth_is_never_slower(
    batch: float, context: float, ffn: int, data: int, tensor: int, turns: int, phase: str, lossy: bool, faster: float
) -> None:
    losses = None
    if lossy:
        losses = constants_file.losses_of(H200, constants_file.engine_of(H200, "vllm", 2026.5), "time per token")
    layout = Layout(tensor=tensor, expert=ffn, data=data, ffn=ffn, micro_batches=turns)
    asked: dict[str, Any] = {"batch": batch, "context": context, "phase": phase, "losses": losses}
    step = estimate(DEEPSEEK, H200, layout, **asked)
    assert sum(step.terms.values()) == pytest.approx(float(step.time_ideal), rel=1e-9)
    assert step.time == pytest.approx(float(sum(step.terms.values()) + sum(step.lost.values())), rel=1e-9)
    assert step.time_low <= step.time <= step.time_high
    assert step.time_low >= step.time_ideal * (1 - 1e-9)
    assert min(float(v) for v in step.lost.values()) >= -1e-12 * step.time
    assert all(0 <= busy <= step.time * (1 + 1e-9) for busy in step.busy.values())
    chip = replace(H200.chip, memory_bandwidth=H200.chip.memory_bandwidth * faster)
    assert estimate(DEEPSEEK, replace(H200, chip=chip), layout, **asked).time <= step.time * (1 + 1e-9)
    assert H200.scale_out is not None
    wire = replace(H200, scale_out=replace(H200.scale_out, bandwidth=H200.scale_out.bandwidth * faster))
    assert estimate(DEEPSEEK, wire, layout, **asked).time <= step.time * (1 + 1e-9)


def test_ranges_are_wider_than_those_of_measured_deployments() -> None:
    engine = constants_file.engine_of(H200, "vllm", 2026.5)
    k = constants_file.losses_of(H200, engine, "time per token")
    layout = parse_layout("dp32,ffn32", None, DEEPSEEK)
    step = estimate(DEEPSEEK, H200, layout, batch=4096.0, context=4096.0, losses=k)
    low, high = APART_UNMEASURED
    assert step.time_high == pytest.approx(float(step.time * k.high * high))
    assert step.time_low == pytest.approx(float(max(step.time * k.low * low, step.time_ideal)))
    assert apart_range(layout, "time per token", (0.5, 2.0)) == (0.5 * low, 2.0 * high)
    assert apart_range(layout, "throughput", (0.5, 2.0)) == (0.5 / high, 2.0 / low)
    assert apart_range(layout, "first token", (0.5, 2.0)) == (0.5, 2.0)
    assert apart_range(Layout(), "time per token", (0.5, 2.0)) == (0.5, 2.0)
    facts = apart_facts(step)
    alone = apart_facts(estimate(DEEPSEEK, H200, layout, batch=8.0, context=4096.0, losses=k))
    assert facts is not None
    # A single sequence of a group is one micro-batch.
    assert alone is not None
    assert alone["micro_batches"] == 1
    assert (facts["attention_gpus"], facts["expert_gpus"], facts["micro_batches"]) == (32, 32, 2)


def test_grids_are_the_points_alone() -> None:
    layouts = list(apart_layouts(DEEPSEEK, 64))
    assert all(x.gpus == 64 and x.data * x.tensor % x.ffn == 0 and 256 % x.ffn == 0 for x in layouts)
    assert {int(x.ffn) for x in layouts} == {1, 2, 4, 8, 16, 32}
    batches = np.geomspace(1, 1e5, 20_000)
    wide = estimate(DEEPSEEK, H200, layouts[-1], batch=batches, context=1000.0, losses=Losses(host=1e-3, launch=1e-6))
    for place in (0, 777, 19_999):
        alone = estimate(
            DEEPSEEK,
            H200,
            layouts[-1],
            batch=float(batches[place]),
            context=1000.0,
            losses=Losses(host=1e-3, launch=1e-6),
        )
        assert np.asarray(wide.time)[place] == pytest.approx(float(alone.time), rel=1e-12)
        for pool in POOLS:
            assert np.asarray(wide.busy[pool])[place] == pytest.approx(float(alone.busy[pool]), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "gpus", "reason"),
    [
        ("ffn8,pp2,dp4", None, "ffn goes with pp1"),
        ("ffn8,ep4,dp4", None, "ep is the number of accelerators that hold experts"),
        ("mb2", None, "add ffn"),
        ("ffn8", 8, "do not divide into groups"),
        ("ffn300,dp4", None, "cannot exceed the 256 experts"),
    ],
)
def test_layouts_that_cannot_be_are_refused(text: str, gpus: int | None, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_layout(text, gpus, DEEPSEEK)


def test_what_such_accelerators_do_not_do_is_refused() -> None:
    layout = parse_layout("ffn8,dp8", None, DEEPSEEK)
    with pytest.raises(InputError, match="no experts"):
        parse_layout("ffn4,dp4", None, catalogue.model("llama-3.1-8b"))
    with pytest.raises(InputError, match="they do not train"):
        estimate(DEEPSEEK, H200, layout, batch=8.0, context=100.0, phase="train")
    with pytest.raises(InputError, match="already overlap"):
        estimate(DEEPSEEK, H200, layout, batch=8.0, context=100.0, two_batch=1.0)
    mixed = Layout(expert=np.array([8.0, 8.0]), data=8.0, ffn=np.array([0.0, 8.0]))
    with pytest.raises(InputError, match="asked by themselves"):
        estimate(DEEPSEEK, H200, mixed, batch=8.0, context=100.0)
    adapted = replace(DEEPSEEK, adapters=Adapters(rank=8))
    with pytest.raises(InputError, match="leave ffn out"):
        estimate(adapted, H200, layout, batch=8.0, context=100.0)


RUNS = Path(__file__).parents[1] / "data" / "afd_runs.csv"


@pytest.mark.parametrize("system", ["h800-sxm", "h200-sxm"])
@pytest.mark.parametrize(
    "row", list(csv.DictReader(RUNS.read_text().splitlines())), ids=lambda r: f"{r['kv']}, {r['context']}"
)
def test_published_steps_lie_in_the_range_and_above_the_bound(row: dict[str, str], system: str) -> None:
    """Step-3's three runs (arXiv:2507.19427, table 8): every sequence gains a token in a step."""
    config = json.loads((RUNS.parent / row["model"]).read_text())
    model = requantise(read_config(config, "step3"), weights=weight_format("fp8"), cache=cache_format(row["kv"]))
    layout = parse_layout(f"dp{row['attention_gpus']},ffn{row['ffn_gpus']},mb{row['micro_batches']}", None, model)
    on = catalogue.system(system)
    losses = constants_file.losses_of(on, constants_file.engine_of(on, "vllm", 2026.5), "time per token")
    batch = float(row["batch"])
    step = estimate(model, on, layout, batch=batch, context=float(row["context"]), losses=losses)
    measured = batch / (float(row["tokens_per_second_per_gpu"]) * float(layout.gpus))
    assert step.time_ideal < measured
    assert step.time_low < measured < step.time_high
    # What the notes of answers say of them.
    assert 0.65 < measured / float(step.time) < 0.95
