"""The train of batches, with passes that take no time of their own."""

from __future__ import annotations

from time import sleep

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.lab import departures
from rackmath.lab.budget import TimeLimit
from rackmath.lab.decode import Subject
from rackmath.lab.departures import SIZES
from rackmath.lab.machine import Machine


def subject(seconds: float) -> Subject:
    return Subject(
        name="sleeper", architecture=SIZES.architecture, pass_of=lambda phase, batch, context: lambda: sleep(seconds)
    )


def test_nobody_is_lost_and_nobody_leaves_before_he_comes(cpu: Machine) -> None:
    arrivals = np.sort(np.random.default_rng(1).uniform(0, 0.4, 200))
    wait, total, _, trains = departures.run(subject(1e-3), cpu, 16, 0.02, arrivals)
    assert len(wait) == len(total) == 200
    assert (wait >= 0).all()
    assert (total >= wait + 1e-3).all()
    assert trains >= 20


def test_a_full_train_leaves_the_rest_behind(cpu: Machine) -> None:
    wait, _, _, trains = departures.run(subject(0.0), cpu, 2, 0.01, np.zeros(7))
    assert trains == 4
    assert len(wait) == 7
    assert (np.diff(wait) >= -1e-9).all()


def test_waits_spread_over_one_period(cpu: Machine) -> None:
    found = departures.experiment(cpu, TimeLimit(2.0), seats=4, load=0.3)
    facts = found.facts
    assert facts["period"] >= 5e-3
    assert facts["requests"] > 0
    assert facts["mean_seats_taken"] <= 4
    predicted = found.curves[0].predicted
    assert predicted[-1] == pytest.approx(0.98 * facts["period"])
    assert list(found.curves[0].measured) == sorted(found.curves[0].measured)


def test_a_load_that_no_timetable_carries_is_refused(cpu: Machine) -> None:
    for load in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="--load"):
            departures.experiment(cpu, TimeLimit(2.0), load=load)
