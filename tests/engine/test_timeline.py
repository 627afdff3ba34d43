"""Parts of a pass add up to it, whatever the model, the layout, the phase and the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout, estimate
from rackmath.engine.sharding import adapter_bytes
from rackmath.engine.timeline import KINDS, step_parts
from rackmath.io import catalogue, constants_file
from rackmath.models.adapters import Adapters

CASES = [
    ("llama-3.1-8b", "h100-sxm", Layout()),
    ("llama-3.1-70b", "h100-sxm", Layout(tensor=4)),
    ("llama-3.1-405b", "h200-sxm", Layout(tensor=8, pipeline=2)),
    ("deepseek-v3", "h200-sxm", Layout(expert=8, data=8)),
    ("qwen3-next-80b-a3b", "h100-sxm", Layout(tensor=4)),
]


@settings(max_examples=60)
@given(
    case=st.sampled_from(CASES),
    phase=st.sampled_from(["decode", "prefill"]),
    batch=st.integers(1, 512),
    context=st.integers(16, 60_000),
    engine=st.sampled_from([None, "vllm", "sglang", "trtllm"]),
    two_batch=st.sampled_from([0.0, 1.0]),
    corrected=st.sampled_from([None, 0.8, 1.5]),
)
@example(  # The host takes longer than the device, which waits for what it does not hide.
    case=("llama-3.2-1b", "b200-sxm", Layout()),
    phase="decode",
    batch=512,
    context=16,
    engine="vllm",
    two_batch=0.0,
    corrected=None,
)
def test_parts_add_up_to_the_pass(
    case: tuple[str, str, Layout], phase: str, batch: int, context: int, engine: str | None, two_batch: float,
    corrected: float | None,
) -> None:  # fmt: skip
    model, system = catalogue.model(case[0]), catalogue.system(case[1])
    layout = case[2]
    losses = (
        None
        if engine is None
        else constants_file.losses_of(system, constants_file.engine_of(system, engine, 2026.0), "time per token")
    )
    if losses is not None and corrected is not None:
        losses = replace(losses, correction={phase: corrected})
    point = {"batch": batch, "context": context, "phase": phase, "two_batch": two_batch, "losses": losses}
    parts = step_parts(model, system, layout, point)
    whole = estimate(model, system, layout, **point)
    assert sum(part.time for part in parts) == pytest.approx(float(whole.time), rel=1e-9)
    assert {part.kind for part in parts} <= set(KINDS)
    for part in parts:
        assert part.ideal <= part.time * (1 + 1e-9) or part.name == "measurements"
    if losses is None:
        assert sum(part.ideal for part in parts) == pytest.approx(float(whole.time_ideal), rel=1e-9)


def test_what_is_no_work_has_no_ideal_time() -> None:
    """Gaps, and what measurements say of a whole pass: the ideal times are those of kernels and collectives."""
    model, system = catalogue.model("llama-3.1-70b"), catalogue.system("h100-sxm")
    fitted = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.0), "time per token")
    point = {"batch": 8, "context": 2048, "losses": replace(fitted, correction={"decode": 1.5})}
    parts = step_parts(model, system, Layout(tensor=4), point)
    gaps = [part for part in parts if part.kind == "gaps"]
    assert {part.name for part in gaps} >= {"launches", "host", "measurements"}
    assert all(part.ideal == 0.0 for part in gaps)


def test_loads_of_adapters_are_a_part_of_an_engine_s_prompts() -> None:
    """None of the bound's; as long as the bytes take over the link to the host."""
    plain, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    adapters = Adapters(rank=16, count=100, resident=10)
    model = replace(plain, adapters=adapters)
    fitted = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.0), "prompt pass")
    assert system.host_link is not None
    for losses, seconds in (
        (fitted, 4 * adapters.missing * float(adapter_bytes(model, adapters, Layout())) / system.host_link),
        (None, 0.0),
    ):
        point = {"batch": 4, "context": 1000, "phase": "prefill", "losses": losses}
        loads = [part.time for part in step_parts(model, system, Layout(), point) if part.name == "loading adapters"]
        assert sum(loads) == pytest.approx(seconds)
    assert adapters.missing > 0


def test_a_draft_model_is_a_part_of_the_step() -> None:
    system, losses = catalogue.system("h100-sxm"), None
    point = {"batch": 8, "context": 2048, "draft_tokens": 3, "draft": catalogue.model("llama-3.1-8b"), "losses": losses}
    layout = Layout(tensor=4)
    parts = step_parts(catalogue.model("llama-3.1-70b"), system, layout, point)
    whole = estimate(catalogue.model("llama-3.1-70b"), system, layout, **point)
    assert sum(part.time for part in parts) == pytest.approx(float(whole.time), rel=1e-9)
    alone = estimate(catalogue.model("llama-3.1-8b"), system, layout, batch=8, context=2048)
    assert next(part.time for part in parts if part.name == "draft model") == pytest.approx(3 * float(alone.time))
