"""The covariance that is learned is the one that answers are computed with."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rackmath.evidence.configurations import book_of, columns_of
from rackmath.evidence.kernel import covariance
from tests.evidence.test_posterior import AT

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
learning = pytest.importorskip("evidence_learning", reason="needs PyTorch")


def test_gradients_are_of_the_covariance_that_is_shipped() -> None:
    rows = [AT, replace(AT, chip="H200", load=64.0), replace(AT, source="b", year=2024.0), replace(AT, input=9.0)]
    columns = columns_of(rows, book_of(rows))
    p = learning._Parameters()
    places = np.arange(len(rows))
    learned = learning._covariance(p, columns, places, places).detach().numpy()
    assert learned == pytest.approx(covariance(p.parts(), columns, columns), rel=1e-12)
