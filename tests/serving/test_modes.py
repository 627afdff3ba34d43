"""Fast, standard and slow; and the train that leaves on time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Losses
from rackmath.engine.timer import engine_timer
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.serving import Scheduling
from rackmath.serving.choice import frontier
from rackmath.serving.modes import STANDARD, Modes, levers, modes
from rackmath.serving.plan import space_of
from rackmath.serving.trains import expected_waits, simulated_waits
from rackmath.serving.workload import Limits, PlanWorkload

WORK = PlanWorkload(input=2000, output=500)
USUAL = Scheduling(interruption=0.9, queueing=0.1, arrival=0.05, acceptance=0.6)


def question() -> Any:
    model, system = catalogue.model("qwen3-30b-a3b"), catalogue.system("h100-sxm")
    return system, WORK, Limits(time_to_first_token=5.0), space_of(model, system, 4), Losses(memory=1.25), USUAL


def found(**options: Any) -> Modes:
    return modes(*question(), **options)


def test_fast_costs_more_and_slow_costs_less_than_standard() -> None:
    m = found()
    assert m.ratio(m.standard) == (1.0, 1.0)
    assert m.fast is not None
    speed, price = m.ratio(m.fast)
    assert speed >= 2.5 - 1e-9
    assert price > 1
    slow_speed, slow_price = m.ratio(m.slow)
    assert slow_speed < 1
    assert slow_speed < slow_price < 1
    assert m.saved_by_waiting == pytest.approx(1 - slow_price)
    assert m.ratio(m.fastest)[0] >= speed


def test_waiting_saves_more_than_half_of_a_fast_standard() -> None:
    m = found(speed=200.0, speedup=1.01)
    _, slow_price = m.ratio(m.slow)
    assert 0 < slow_price < 0.5
    assert m.saved_by_waiting == pytest.approx(1 - slow_price)


def test_the_standard_is_the_cheapest_of_its_speed() -> None:
    m = found()
    p = m.search.points
    quick = [i for i in frontier(p, Limits(time_to_first_token=5.0)) if 1 / p.time_per_output_token[i] >= STANDARD]
    assert p.per_gpu[m.standard] == max(p.per_gpu[i] for i in quick)
    assert 1 / p.time_per_output_token[m.standard] >= STANDARD
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="--speed"):
            found(speed=wrong)


def test_each_choice_that_is_opened_makes_speed_cheaper_or_leaves_it() -> None:
    m = found(speedup=2.0)
    asked: list[Any] = [*question(), m]
    opened = list(levers(*asked, speedup=2.0))
    reached = [x for x in opened if x.reached >= 2.0 - 1e-9]
    assert opened[0].name == "a smaller batch"
    prices = [x.price for x in reached]
    assert np.all(np.diff(prices) <= 1e-9)
    assert m.fast is not None
    named = {x.name: x for x in opened}
    assert named["and other formats"].price == pytest.approx(m.ratio(m.fast)[1])


def test_a_stated_speed_moves_the_standard() -> None:
    quick = found(speed=150.0)
    assert 1 / quick.search.points.time_per_output_token[quick.standard] >= 150.0
    with pytest.raises(DoesNotFit, match="the fastest writes"):
        found(speed=1e6)
    with pytest.raises(InputError, match="factor above 1"):
        found(speedup=1.0)


def test_a_first_token_that_is_too_late_is_refused() -> None:
    model, system = catalogue.model("qwen3-30b-a3b"), catalogue.system("h100-sxm")
    with pytest.raises(DoesNotFit, match="allow a longer --ttft"):
        modes(system, WORK, Limits(time_to_first_token=1e-6), space_of(model, system, 4), None, USUAL)


@pytest.mark.parametrize("rate", [0.5, 30.0, 4000.0])
def test_the_simulated_train_keeps_its_timetable(rate: float) -> None:
    closed, drawn = expected_waits(0.02), simulated_waits(0.02, rate, 40_000)
    assert drawn.worst <= closed.worst
    assert drawn.worst == pytest.approx(closed.worst, rel=2e-3)
    assert drawn.median == pytest.approx(closed.median, rel=0.02)
    assert drawn.mean == pytest.approx(closed.mean, rel=0.02)


@given(period=st.floats(1e-3, 10.0), seed=st.integers(0, 50))
def test_nobody_waits_for_two_departures(period: float, seed: int) -> None:
    drawn = simulated_waits(period, 3.0 / period, 500, seed)
    assert period <= drawn.median <= drawn.worst <= 2 * period * (1 + 1e-9)


@pytest.mark.parametrize("bad", [(0.0, 1.0, 10), (1.0, -1.0, 10), (1.0, 1.0, 0), (float("nan"), 1.0, 10)])
def test_a_train_needs_positive_numbers(bad: tuple[float, float, int]) -> None:
    with pytest.raises(InputError):
        simulated_waits(*bad)


def test_reading_again_costs_one_prompt_more() -> None:
    m = found()
    p, i = m.search.points, m.standard
    model, system = catalogue.model("qwen3-30b-a3b"), catalogue.system("h100-sxm")
    reader = m.search.layouts[p.prefill[i] if p.prefill[i] >= 0 else p.layout[i]]
    variant = space_of(model, system, 4).variants[p.variant[i]]
    timer = engine_timer(variant.architecture, system, Losses(memory=1.25))
    length, chunk = 2250.0, float(p.chunk[i])
    together = max(chunk // length, 1.0)
    if length <= chunk:
        prompt = timer("prefill", reader, reader.data * together, length, 0.0, 0.0) / together
    else:
        halves = [timer("prefill", reader, reader.data, length / 2 * k, 0.0, length / 2 * (k - 1)) for k in (1, 2)]
        prompt = sum(halves)
    spent = prompt * reader.gpus / reader.data
    assert m.reread == pytest.approx(float(spent * p.rate[i] / p.gpus[i]), rel=0.02)
