"""Pipelines in processes: gradients of one process, activations of the scheduler, caches that do not shrink."""

from __future__ import annotations

import pytest

from rackmath.errors import InputError
from rackmath.lab import stages
from rackmath.lab.budget import TimeLimit
from rackmath.lab.machine import Machine

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


def test_stages_that_do_not_divide_the_layers_are_refused(cpu: Machine) -> None:
    for count in (1, 3):
        with pytest.raises(InputError, match="--stages"):
            stages.experiment(cpu, TimeLimit(60.0), stages=count)
    with pytest.raises(InputError, match="--pace"):
        stages.experiment(cpu, TimeLimit(60.0), pace=0.0)
