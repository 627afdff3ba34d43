"""What lies on each accelerator: everything once, the fullest as memory says, collectives as the pass counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Layout
from rackmath.engine.communication import communication
from rackmath.engine.layout import as_floats
from rackmath.engine.rack_map import link_traffic, parts_of, rack_map
from rackmath.engine.roofline import held_sequences, local_pass
from rackmath.engine.sharding import memory
from rackmath.io import catalogue
from rackmath.models.counts import weight_bytes

SYSTEM = catalogue.system("gb200-nvl72")


@given(st.integers(0, 500), st.integers(1, 80))
def test_parts_follow_each_other_and_differ_by_one_at_most(total: int, ranks: int) -> None:
    parts = parts_of(total, ranks)
    assert [i for part in parts for i in part] == list(range(total))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("model", "layout", "batch"),
    [
        ("llama-3.1-70b", Layout(tensor=8), 64),
        ("llama-3.1-70b", Layout(tensor=2, data=3), 65),
        ("deepseek-v3", Layout(expert=8, data=8), 512),
        ("deepseek-v3", Layout(expert=72, data=72), 1000),
        ("deepseek-v3", Layout(tensor=8, expert=2), 32),
        ("qwen3-235b-a22b", Layout(tensor=4, expert=8, data=2), 7),
        ("deepseek-v3", Layout(data=8, ffn=16, expert=16, micro_batches=2), 512),
    ],
)
def test_the_fullest_accelerator_holds_what_memory_says(model: str, layout: Layout, batch: int) -> None:
    a = catalogue.model(model)
    ranks = rack_map(a, SYSTEM, layout, {"batch": batch, "context": 5000})
    assert [r.rank for r in ranks] == list(range(int(layout.gpus)))
    wide = as_floats(layout)
    work = local_pass("decode", float(batch), 5000.0, 0.0, wide, None)
    expected = memory(a, wide, held_sequences(float(batch), wide), 5000.0, work.tokens, SYSTEM.chip.memory_capacity)
    assert max(r.total for r in ranks) == pytest.approx(float(expected.total), rel=1e-12)
    assert max(r.cache for r in ranks) == pytest.approx(float(expected.cache), rel=1e-12)


def test_stages_hold_every_weight_once() -> None:
    a = catalogue.model("llama-3.1-70b")
    ranks = rack_map(a, SYSTEM, Layout(pipeline=6), {"batch": 6, "context": 1000})
    assert sum(r.weights for r in ranks) == pytest.approx(sum(weight_bytes(a).values()), rel=1e-12)
    assert [len(r.layers) for r in ranks] == [14, 14, 13, 13, 13, 13]
    # 80 layers of 8 heads of 128 keys and values in 16 bit, 1,000 tokens of 6 sequences.
    assert sum(r.cache for r in ranks) == pytest.approx(80 * 8 * 128 * 2 * 2 * 1000 * 6, rel=1e-12)


def test_experts_and_sequences_are_dealt_once_to_the_ranks_that_share_them() -> None:
    a = catalogue.model("deepseek-v3")
    ranks = rack_map(a, SYSTEM, Layout(tensor=2, expert=8, data=8), {"batch": 21, "context": 1000})
    # Eight ranks, four groups of two, share one set of 256 experts; the other four groups share another.
    for groups in (range(4), range(4, 8)):
        held = [e for r in ranks if r.group in groups for e in r.experts]
        assert sorted(held) == list(range(256))
    assert sum(r.sequences for r in ranks if r.tensor == 0) == 21
    routed = sum(r.expert_weights for r in ranks)
    assert routed == pytest.approx(2 * weight_bytes(a)["experts"], rel=1e-12)


def test_an_expert_that_is_cut_lies_on_all_ranks_that_cut_it() -> None:
    ranks = rack_map(catalogue.model("deepseek-v3"), SYSTEM, Layout(tensor=8, expert=2), {"batch": 1, "context": 100})
    assert [r.experts.start for r in ranks] == [0, 0, 0, 0, 128, 128, 128, 128]
    routed = sum(r.expert_weights for r in ranks)
    assert routed == pytest.approx(weight_bytes(catalogue.model("deepseek-v3"))["experts"], rel=1e-12)


def test_what_crosses_the_links_is_what_the_pass_counts() -> None:
    a, layout = catalogue.model("deepseek-v3"), Layout(tensor=2, expert=16, data=8, pipeline=2)
    traffic = link_traffic(a, SYSTEM, layout, {"batch": 256, "context": 3000})
    wide = as_floats(layout)
    work = local_pass("decode", 256.0, 3000.0, 0.0, wide, None)
    whole = communication(a, wide, SYSTEM, work.tokens, work.sequences)
    assert sum(t.wire + t.latency for t in traffic) == pytest.approx(float(whole.total), rel=1e-9)
    times = [t.wire + t.latency for t in traffic]
    assert times == sorted(times, reverse=True)
    by_name = {t.name: t for t in traffic}
    sent = by_name["tokens to their experts"]
    assert (sent.ranks, sent.scale_up) == (16, True)
    assert sent.wire + sent.latency == pytest.approx(float(whole.dispatch), rel=1e-9)
    spread = link_traffic(a, catalogue.system("h100-sxm"), layout, {"batch": 256, "context": 3000})
    assert {t.name for t in spread if not t.scale_up} == {
        "tokens to their experts",
        "results of experts back",
        "hand-over between stages",
    }


def test_accelerators_with_fewer_experts_hold_less() -> None:
    """128 experts on 12: eight hold eleven, four ten."""
    a = catalogue.model("qwen3-235b-a22b")
    ranks = rack_map(a, SYSTEM, Layout(data=4, ffn=12, expert=12, micro_batches=2), {"batch": 64, "context": 1000})
    held = [r for r in ranks if r.group < 0]
    assert [len(r.experts) for r in held] == [11] * 8 + [10] * 4
    assert sum(r.expert_weights for r in held) == pytest.approx(weight_bytes(a)["experts"], rel=1e-12)


def test_what_a_layout_does_not_exchange_is_left_out() -> None:
    traffic = link_traffic(catalogue.model("llama-3.1-8b"), SYSTEM, Layout(tensor=2), {"batch": 8, "context": 100})
    assert [t.name for t in traffic] == ["all-reduce of tensor parallelism", "vocabulary"]
    assert link_traffic(catalogue.model("llama-3.1-8b"), SYSTEM, Layout(), {"batch": 8, "context": 100}) == []


def test_a_tied_head_is_copied_to_the_last_stage() -> None:
    a = catalogue.model("llama-3.2-1b")
    ranks = rack_map(a, SYSTEM, Layout(pipeline=2), {"batch": 2, "context": 100})
    copied = a.vocabulary * a.hidden * 2
    assert sum(r.weights for r in ranks) == pytest.approx(sum(weight_bytes(a).values()) + copied, rel=1e-12)


def test_accelerators_of_experts_alone_hold_every_expert_once() -> None:
    a = catalogue.model("deepseek-v3")
    ranks = rack_map(a, SYSTEM, Layout(data=4, ffn=16, expert=16, micro_batches=2), {"batch": 64, "context": 1000})
    assert sum(r.expert_weights for r in ranks) == pytest.approx(weight_bytes(a)["experts"], rel=1e-12)
    assert sorted(e for r in ranks if r.group < 0 for e in r.experts) == list(range(256))
    assert not any(len(r.experts) for r in ranks if r.group >= 0)


@pytest.mark.parametrize(("pipeline", "inside"), [(2, True), (4, False)])
def test_stages_hand_over_inside_a_domain_where_all_of_them_fit(pipeline: int, inside: bool) -> None:
    """Four accelerators a stage: two stages are the eight of a domain, four are not."""
    layout = Layout(tensor=4, pipeline=pipeline)
    traffic = link_traffic(
        catalogue.model("llama-3.1-70b"), catalogue.system("h100-sxm"), layout, {"batch": 8, "context": 100}
    )
    hand_over = next(t for t in traffic if t.name == "hand-over between stages")
    assert (hand_over.ranks, hand_over.scale_up) == (pipeline, inside)
