"""Speed of schedules and layout search. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import pytest

from rackmath.engine.timer import engine_timer
from rackmath.io import catalogue, constants_file
from rackmath.training.budget import Life, cheapest
from rackmath.training.memory import training_memory
from rackmath.training.options import Recipe, all_options
from rackmath.training.pipelines import StageTimes, run
from rackmath.training.run import step_times
from rackmath.training.scaling_laws import law

pytestmark = pytest.mark.benchmark
TIMES = StageTimes(forward=1.0, backward_input=1.0, backward_weight=0.6, send_time=0.02)


@pytest.mark.parametrize("name", ["1f1b", "zb-h2", "interleaved", "zb-v", "zb-2p"])
def test_a_schedule_of_64_stages(benchmark, name: str) -> None:
    found = benchmark.pedantic(run, args=(name, 64, 1024, TIMES), rounds=2)
    assert found.makespan >= 1024 * 2.6


def test_layouts_of_16384_gpus(benchmark) -> None:
    model, system = catalogue.model("deepseek-v3"), catalogue.system("h100-sxm")
    recipe = Recipe(sequences=4096.0, length=4096.0)
    engine = constants_file.engine_of(system, "other", 2026.5)
    timer = engine_timer(model, system, constants_file.losses_of(system, engine, "training"), 1.0)

    def search() -> int:
        options = all_options(model, system, 16_384, recipe)
        assert training_memory(model, system, options, recipe).fits.any()
        return len(step_times(model, system, options, recipe, timer, 0.1))

    assert benchmark.pedantic(search, rounds=2) > 1000


def test_a_budget(benchmark) -> None:
    benchmark(cheapest, law("besiroglu"), 2.0, Life(answer_tokens=1e13))
