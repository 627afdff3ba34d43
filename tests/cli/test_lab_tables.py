"""What ``lab`` prints of curves that were only measured."""

from __future__ import annotations

import pytest

from rackmath.cli.lab.show import show_panel
from rackmath.lab.experiment import ExperimentCurve


def _curve(name: str, x: list[int], rise: float = 0.01) -> ExperimentCurve:
    return ExperimentCurve(panel="share", name=name, across="round", up="share", x=x, measured=[rise * at for at in x])


def _rows(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()[:1].isdigit()]


def test_measured_curves_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    show_panel("share", [_curve("left", [1, 2, 4]), _curve("right", [1, 4, 8], 0.02)])
    assert _rows(capsys) == [["1", "0.01", "0.02"], ["2", "0.02"], ["4", "0.04", "0.08"], ["8", "0.16"]]


def test_long_curves_are_thinned_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_panel("share", [_curve("left", [*range(1, 33)]), _curve("right", [1, 2, 4, 8, 32, 64], 0.02)])
    printed = _rows(capsys)
    assert [row[0] for row in printed[:-1]] == ["1", "2", "4", "8", "32", "64"]
    assert printed[-1][:4] == ["6", "of", "33", "rows;"]


def test_no_row_of_a_long_curve_is_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    show_panel("share", [_curve("left", [*range(1, 33)])])
    places = [float(row[0]) for row in _rows(capsys)[:-1]]
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (1, 32)
    assert len(places) <= 12


def test_predicted_curves_keep_their_error(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = ExperimentCurve(
        panel="share", name="line", across="round", up="share", x=[1], measured=[0.5], predicted=[0.6]
    )
    show_panel("share", [drawn])
    assert "+20%" in capsys.readouterr().out
