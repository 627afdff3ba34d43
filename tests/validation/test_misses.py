"""Which constants explain a measurement that was not expected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackmath.engine.constants import inward, outward
from rackmath.engine.terms import TERM
from rackmath.io import constants_file
from rackmath.validation.calibrate import usable
from rackmath.validation.misses import causes
from rackmath.validation.problem import evaluate
from rackmath.validation.question_constants import engine_of
from rackmath.validation.questions import Question

ROW = {
    "id": "a", "model": "llama-3.1-8b", "hardware": "H100-SXM-80GB", "n_gpus": "1", "engine": "vllm", "tp": "1",
    "weights": "bf16", "arrivals": "closed", "concurrency": "4", "input_mean": "100", "output_mean": "200",
    "phase": "serving", "metric": "tpot", "statistic": "mean", "per": "request", "value": "0.01", "date": "2026-03-01",
}  # fmt: skip


_QUICKEN = {"acceptance", "hidden"}
"""Terms of which more means less time."""


def question(**cells: str) -> Question:
    (answer,), refused = usable([{**ROW, **cells}])
    assert not refused
    return answer


@pytest.mark.parametrize(("metric", "term"), [("tpot", "host"), ("ttft", "arrival"), ("ttft", "dispatch")])
def test_what_a_constant_alone_would_have_to_be_gives_the_measured_value(metric: str, term: str) -> None:
    """The constant that is named, set to what is named, predicts what was measured."""
    # Before vLLM replayed graphs where prompts are read, a first token waited for the host to start its kernels: on
    # four accelerators a short one takes less than that.
    q = question(metric=metric, date="2024-06-01", n_gpus="4", tp="4")
    constants = constants_file.constants()
    expected = float(evaluate([q], constants)[0][0])
    measured = expected * 1.03
    cause = next(c for c in causes([q], constants, [expected], [measured])[0] if c.term.name == term)
    assert cause.needed is not None
    assert cause.value == constants.value(term, engine_of(q))
    step = inward(cause.needed, TERM[term].scale) - inward(cause.value, TERM[term].scale)
    base = outward(inward(constants.base[term], TERM[term].scale) + step, TERM[term].scale)
    moved = replace(constants, base={**constants.base, term: base})
    assert float(evaluate([q], moved)[0][0]) == pytest.approx(measured, rel=1e-3)


def test_slower_asks_for_more_of_a_cost_and_faster_for_less() -> None:
    q, constants = question(), constants_file.constants()
    expected = float(evaluate([q], constants)[0][0])
    slow, fast = (causes([q], constants, [expected], [expected * ratio])[0] for ratio in (1.03, 0.97))
    assert [c.term.name for c in slow] == [c.term.name for c in fast]
    for more, less in zip(slow, fast, strict=True):
        assert more.part == less.part
        if more.needed is not None and less.needed is not None and more.term.name not in _QUICKEN:
            assert more.needed > more.value > less.needed


def test_a_rate_asks_the_other_way_round() -> None:
    q, constants = question(metric="output_throughput", per="system", value="300"), constants_file.constants()
    expected = float(evaluate([q], constants)[0][0])
    named = causes([q], constants, [expected], [expected * 1.02])[0]
    assert named
    # Every term of a time is shorter where more is served.
    assert all(c.needed is not None and c.needed < c.value for c in named)


def test_measurements_asked_together_have_the_causes_that_each_has_alone() -> None:
    # Passes alone, which are asked a hundred times in a second.
    alone_cells = {"arrivals": "", "concurrency": "", "phase": "decode", "metric": "decode_speed", "statistic": ""}
    alone_cells |= {"batch": "16", "context": "2000", "per": "system", "value": "2000"}
    rows = [question(**alone_cells), question(**alone_cells | {"batch": "64", "hardware": "A100-SXM-80GB"})]
    constants = constants_file.constants()
    expected = [float(value) for value in evaluate(rows, constants)[0]]
    measured = [value * ratio for value, ratio in zip(expected, (1.1, 0.9), strict=True)]
    together = causes(rows, constants, expected, measured)
    alone = [causes([row], constants, [e], [m])[0] for row, e, m in zip(rows, expected, measured, strict=True)]
    assert [[c.term for c in part] for part in together] == [[c.term for c in part] for part in alone]
    for some, others in zip(together, alone, strict=True):
        assert some
        assert [c.part for c in some] == pytest.approx([c.part for c in others], rel=1e-9)
