"""Encoding of images: closed forms, limits, and published encodes."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.encoding import COMPILED_MOVES, MOVES, SETTING, encoding, projector, timed_pass
from rackmath.engine.timeline import step_parts
from rackmath.engine.transfer import embeddings_time
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Architecture, Images
from rackmath.models.counts import encoder_params
from rackmath.models.images import image_of
from rackmath.models.operator import Pass
from rackmath.models.operators import operators

TIMINGS = Path(__file__).parents[1] / "data" / "encoder_timings.csv"
ROWS = list(csv.DictReader(TIMINGS.read_text().splitlines()))
MODELS = ["qwen3-vl-235b-a22b", "gemma-3-27b", "gemma-4-31b", "llama-4-scout", "kimi-k2.5", "mistral-small-3.2-24b"]


def with_images(
    name: str, count: float, width: int = 1024, height: int = 1024, tp_mode: str = "weights"
) -> Architecture:
    model = catalogue.model(name)
    assert model.encoder is not None
    return replace(
        model, images=Images(count=count, image=image_of(model.encoder.sizing, width, height), tp_mode=tp_mode)
    )


def losses_on(system: System, family: str = "vllm") -> Losses:
    return constants_file.losses_of(system, constants_file.engine_of(system, family, 2026.5), "prompt pass")


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['system']} {r['images']} x {r['width']} {r['compiled']}")
def test_published_encodes(row: dict[str, str]) -> None:
    system = catalogue.system(row["system"])
    model = with_images(row["model"], float(row["images"]), int(row["width"]), int(row["height"]), row["way"])
    losses = losses_on(system, "sglang" if row["engine"].startswith("SGLang") else "vllm")
    e = encoding(model, system, Layout(tensor=int(row["tp"])), 1.0, losses)
    measured = float(row["milliseconds"]) / 1e3
    if row["compiled"] == "yes":
        # The low end of the range is a compiled encoder.
        assert e.low == pytest.approx(measured, rel=0.1)
        return
    assert e.time == pytest.approx(measured, rel=0.06 if row["use"] == "fit" else 0.1)
    assert e.low < measured < e.high


def test_bound_is_products_and_attention_at_the_peak() -> None:
    """Qwen3-VL's tower, four images of 2048 x 2048 on one H100: compute alone, 27 blocks of hidden width 1,152."""
    system, n, hidden, width = catalogue.system("h100-sxm"), 128 * 128, 1152, 4304
    e = encoding(with_images("qwen3-vl-235b-a22b", 4, 2048, 2048), system, Layout(), 1.0, None)
    block = 2 * n * (4 * hidden**2 + 2 * hidden * width) + 4 * n**2 * hidden
    merged = n // 4 * 2 * 4 * ((4 * hidden) ** 2 + 4 * hidden * 4096)
    flops = 4 * (27 * block + 2 * n * 3 * 2 * 16**2 * hidden + merged)
    least = flops / dict(system.chip.rates)["bf16"]
    # Norms and activations at the bandwidth are the rest.
    assert least <= e.time <= 1.06 * least
    assert e.low == e.high == e.ideal == e.time


def test_what_losses_add_is_the_moved_width_and_the_setting() -> None:
    """The compiled end of the range differs from the middle by what is not compiled."""
    system, model = catalogue.system("h100-sxm"), with_images("gemma-3-27b", 2)
    e = encoding(model, system, Layout(), 1.0, Losses())
    # 27 layers, two images of 4,096 patches, width 1,152 in 16 bit.
    moved = 27 * 2 * 4096 * 1152 * 2 / system.chip.memory_bandwidth
    assert e.time - e.low == pytest.approx(SETTING + (MOVES - COMPILED_MOVES) * moved)
    assert e.high == pytest.approx(1.5 * e.time)
    # Products and attention take at least their bound beside them.
    assert e.time - SETTING - MOVES * moved >= e.ideal


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    count=st.floats(0.1, 20),
    side=st.integers(50, 3000),
    ranks=st.sampled_from([1, 2, 4, 8]),
    tp_mode=st.sampled_from(["weights", "data"]),
    prompts=st.floats(1, 30),
)
def test_limits_of_every_encoder(name: str, count: float, side: int, ranks: int, tp_mode: str, prompts: float) -> None:
    system = catalogue.system("h200-sxm")
    model, losses = with_images(name, count, side, 500, tp_mode), losses_on(system)
    e = encoding(model, system, Layout(tensor=ranks), prompts, losses)
    assert 0 < e.ideal <= e.low <= e.time <= e.high < np.inf
    more = encoding(model, system, Layout(tensor=ranks), 2 * prompts, losses)
    assert e.time <= more.time <= 2 * e.time + 1e-9
    faster = replace(system, chip=replace(system.chip, memory_bandwidth=2 * system.chip.memory_bandwidth))
    assert encoding(model, faster, Layout(tensor=ranks), prompts, losses).time <= e.time * (1 + 1e-9)


def test_images_on_one_rank_each_take_as_long_as_those_of_the_fullest_rank() -> None:
    system, losses = catalogue.system("h200-sxm"), losses_on(catalogue.system("h200-sxm"))
    spread = with_images("qwen3-vl-235b-a22b", 5, tp_mode="data")
    alone = with_images("qwen3-vl-235b-a22b", 2)
    whole = encoding(spread, system, Layout(tensor=4), 1.0, losses)
    assert whole.time == pytest.approx(encoding(alone, system, Layout(), 1.0, losses).time)


def test_a_projector_is_its_matrices_and_looks_nothing_up() -> None:
    model = with_images("gemma-3-27b", 1)
    assert model.encoder is not None
    work = Pass(phase="prefill", sequences=1, new_tokens=256, context=256)
    names = [(o.name, o.flops) for o in operators(projector(model.encoder), work)]
    assert names == [("projection", 2 * 256 * 1152 * 5376)]


def test_layouts_broadcast() -> None:
    system, losses = catalogue.system("h200-sxm"), losses_on(catalogue.system("h200-sxm"))
    model = with_images("qwen3-vl-235b-a22b", 3)
    widths = np.array([1, 2, 4])
    together = encoding(model, system, Layout(tensor=widths), np.array([[1.0], [6.0]]), losses).time
    for i, prompts in enumerate((1.0, 6.0)):
        for j, ranks in enumerate(widths):
            one = encoding(model, system, Layout(tensor=int(ranks)), prompts, losses).time
            assert np.asarray(together)[i, j] == pytest.approx(float(np.asarray(one)))


@pytest.mark.parametrize("lossy", [False, True])
def test_a_prompt_with_images_is_its_encoding_and_its_pass(lossy: bool) -> None:
    system, model = catalogue.system("h200-sxm"), with_images("qwen3.5-27b", 3)
    layout = Layout(tensor=2, data=2)
    losses = losses_on(system) if lossy else None
    point = {"batch": 4.0, "context": 4000.0, "phase": "prefill", "losses": losses}
    both = timed_pass(model, system, layout, point)
    plain, images = estimate(model, system, layout, **point), encoding(model, system, layout, 2.0, losses)
    assert both.time == pytest.approx(float(plain.time + images.time))
    assert sum(both.terms.values()) == pytest.approx(float(both.time_ideal))
    assert sum(both.terms.values()) + sum(both.lost.values()) == pytest.approx(float(both.time))
    assert both.time_low <= both.time <= both.time_high
    assert sum(part.time for part in step_parts(model, system, layout, point)) == pytest.approx(float(both.time))
    decode = point | {"phase": "decode"}
    assert timed_pass(model, system, layout, decode).time == estimate(model, system, layout, **decode).time


@pytest.mark.parametrize(("tp_mode", "part"), [("weights", 0.25), ("data", 1.0)])
def test_memory_holds_the_encoder(tp_mode: str, part: float) -> None:
    system, model = catalogue.system("h200-sxm"), with_images("qwen3.5-27b", 1, tp_mode=tp_mode)
    point = {"batch": 1, "context": 1000, "phase": "prefill"}
    held = [estimate(m, system, Layout(tensor=4), **point).memory.weights for m in (model, replace(model, images=None))]
    assert held[0] - held[1] == pytest.approx(part * 2 * encoder_params(model))


def test_embeddings_cross_the_network_of_their_domain() -> None:
    system, model = catalogue.system("h200-sxm"), with_images("qwen3.5-27b", 3)
    size = 3 * 1024 * 5120 * 2
    assert system.scale_up is not None
    assert system.scale_out is not None
    near, far = system.scale_up, system.scale_out
    assert embeddings_time(model, system, 8) == pytest.approx(size / near.bandwidth + near.latency)
    assert embeddings_time(model, system, 16) == pytest.approx(size / far.bandwidth + far.latency)
    assert embeddings_time(replace(model, images=None), system, 8) == pytest.approx(near.latency)
