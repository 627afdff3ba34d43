"""Powers of ten beside a logarithmic axis as plain text: a formula would take a quarter of a picture's time."""

from __future__ import annotations

import re

from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatterSciNotation

_FORMULA = re.compile(r"\$\\mathdefault\{(.*)\}\$")
_POWER = re.compile(r"\^\{(-?\d+)\}")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class _Powers(LogFormatterSciNotation):
    """Matplotlib's own choice of labels, without its formulas."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        text = _FORMULA.sub(r"\1", super().__call__(x, pos)).replace(r"\times", "\N{MULTIPLICATION SIGN}")
        return _POWER.sub(lambda power: power.group(1).translate(_RAISED), text)


def write_powers(axis: Axis) -> None:
    """Label a logarithmic axis so."""
    axis.set_major_formatter(_Powers())
    axis.set_minor_formatter(_Powers())
