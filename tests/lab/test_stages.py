"""Pipelines in processes: gradients of one process, activations of the scheduler, caches that do not shrink."""

from __future__ import annotations

import pytest

from rackmath.errors import InputError
from rackmath.lab import stages
from rackmath.lab.budget import TimeLimit
from rackmath.lab.machine import Machine
from rackmath.training.pipelines import StageTimes, execute, schedule

pytestmark = pytest.mark.long


def test_two_stages_train_and_decode(cpu: Machine) -> None:
    found = stages.experiment(cpu, TimeLimit(60.0), stages=2, microbatches=(2, 6), pace=0.02)
    facts = found.facts
    assert facts["gradient_error"] < 1e-5
    assert facts["peak_activations"] == facts["peak_activations_predicted"] == {"gpipe": [2, 6], "1f1b": [2, 2]}
    for name in stages.SCHEDULES:
        bubbles = facts["bubbles"][name]
        assert bubbles[1] < bubbles[0], "more micro-batches, a smaller bubble"
        # No run ends before its order lets it, on a busy machine least of all. (A stage that is held up works longer,
        # so that its part of waiting may well be less.)
        made, ordered = facts["makespans"][name], facts["makespans_predicted"][name]
        assert all(m > 0.9 * o for m, o in zip(made, ordered, strict=True))
    one, two = facts["cache_per_process"]
    assert one == two
    first, second = facts["weights_per_process"]
    assert first == 2 * second


@pytest.mark.parametrize("name", stages.SCHEDULES)
def test_spans_as_ordered_have_the_bubble_and_the_makespan_of_the_order(name: str) -> None:
    """What processes report is made up: every pass begins and ends when its order says."""
    order = schedule(name, 3, 5)
    timeline = execute(order, StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0))
    lanes = [list(zip(starts, ends, strict=True)) for starts, ends in zip(timeline.start, timeline.end, strict=True)]
    row = stages.measured_row(name, 3, 5, [{"spans": [lane, lane], "hop": 0.0, "peak": 2} for lane in lanes])
    assert row["makespan"] == row["makespan_predicted"] == 3 * (5 + 3 - 1)
    assert row["bubble"] == pytest.approx(row["predicted"])
    # (P - 1) / (m + P - 1).
    assert row["bubble"] == pytest.approx(2 / 7)


def test_stages_that_do_not_divide_the_layers_are_refused(cpu: Machine) -> None:
    for count in (1, 3):
        with pytest.raises(InputError, match="--stages"):
            stages.experiment(cpu, TimeLimit(60.0), stages=count)
    with pytest.raises(InputError, match="--pace"):
        stages.experiment(cpu, TimeLimit(60.0), pace=0.0)
