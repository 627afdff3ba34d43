"""A pass by other corrections and ranges is what it is when it is computed anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.ranged import ranged
from rackmath.io import catalogue


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("factor", [0.01, 0.8, 1.7])
def test_a_pass_ranged_is_the_pass_computed_again(phase: str, factor: float) -> None:
    model, system = catalogue.model("qwen3-30b-a3b"), catalogue.system("h100-sxm")
    arguments = {"batch": np.array([1.0, 64.0]), "context": 2000.0, "phase": phase}
    before = Losses(host=1e-3, launch=5e-6, low=0.7, high=1.5, correction={phase: 1.2})
    after = replace(before, correction={phase: factor}, low=0.9, high=1.1)
    first, again = (estimate(model, system, Layout(tensor=2), losses=k, **arguments) for k in (before, after))
    answer = ranged(first, after, phase)
    for name in ("time", "time_low", "time_high", "time_ideal"):
        assert getattr(answer, name) == pytest.approx(getattr(again, name), rel=1e-12), name
    assert answer.lost.keys() == again.lost.keys()
    for name, seconds in again.lost.items():
        assert answer.lost[name] == pytest.approx(seconds, rel=1e-9, abs=1e-15), name
    # Nothing comes below the bound, whatever a correction says.
    assert np.all(answer.time >= answer.time_ideal)
