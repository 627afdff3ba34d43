"""Schedules against torch.distributed.pipelining's own orders, run by the same executor on random times."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.training.pipelines import StageTimes, execute, schedule
from rackmath.training.pipelines.order import Op, Order, backward, forward, inputs, weights

torch_schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

PAIRS = (
    ("GPipe", "gpipe", 1),
    ("LoopedBFS", "looped-bfs", 2),
    ("Interleaved1F1B", "interleaved", 2),
    ("InterleavedZeroBubble", "interleaved-zb", 2),
    ("ZBVZeroBubble", "zb-v", 2),
)
"""Torch's name, ours, stages of a rank. Torch's order of 1F1B counts the last rank's forward passes from one, which no
executor can run; its order of DualPipeV overlaps passes and is compared by the shared table's makespans."""
KINDS = {"FORWARD": forward, "BACKWARD_INPUT": inputs, "BACKWARD_WEIGHT": weights, "FULL_BACKWARD": backward}


def published(name: str, ranks: int, microbatches: int, each: int) -> dict[int, list[Any]]:
    """Torch's order, by rank."""
    kind = torch_schedules.get_schedule_class(name)
    stages = []
    for i in range(each):
        stage = MagicMock()
        stage.group_size, stage.num_stages, stage.group_rank = ranks, ranks * each, 0
        stage.stage_index, stage.has_backward = i * ranks, True
        stages.append(stage)
    made = kind(stages[0] if each == 1 else stages, microbatches, loss_fn=lambda *_: 0)
    return made.pipeline_order if hasattr(made, "pipeline_order") else made._get_pipeline_order()


def as_order(name: str, ranks: int, microbatches: int, each: int, like: Order) -> Order:
    """Torch's operations as ours: waits left out, stages where ours stand."""
    operations: list[tuple[Op, ...]] = []
    for rank in range(ranks):
        made = [
            KINDS[action.computation_type.name](action.stage_index, action.microbatch_index)
            for action in published(name, ranks, microbatches, each)[rank]
            if action is not None and action.computation_type.name in KINDS
        ]
        operations.append(tuple(made))
    return Order(
        name=name, ranks=ranks, microbatches=microbatches, place=like.place, starts=like.starts, part=like.part,
        operations=tuple(operations),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from(PAIRS), ranks=st.integers(2, 5), rounds=st.integers(1, 4),
    lengths=st.tuples(*[st.floats(0.5, 2.0)] * 3), send=st.floats(0, 0.2),
)  # fmt: skip
def test_our_orders_take_torch_s_time_and_memory(
    pair: tuple[str, str, int], ranks: int, rounds: int, lengths: tuple[float, float, float], send: float
) -> None:
    theirs, name, each = pair
    microbatches = ranks * rounds * (2 if name == "zb-v" else 1)
    ours = schedule(name, ranks, microbatches, each if name != "zb-v" and each > 1 else None)
    other = as_order(theirs, ranks, microbatches, each, ours)
    assert sorted(sum(other.operations, ())) == sorted(sum(ours.operations, ())), "the same passes"
    times = StageTimes(forward=lengths[0], backward_input=lengths[1], backward_weight=lengths[2], send_time=send)
    mine, torchs = execute(ours, times), execute(other, times)
    assert mine.makespan == pytest.approx(torchs.makespan)
    assert mine.peak_activations == pytest.approx(torchs.peak_activations)
