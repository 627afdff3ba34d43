r"""Power of an accelerator by what it does: a part that running at all takes, reading memory, and multiplying.

.. math:: P / P_{rated} = \min(1, a + b \, u_{memory} + c \, u_{compute})

where u are bytes and FLOPs over what the time at peak rates would carry. The three constants are fitted on 36 profiled
services of Llama 2 70B and BLOOM on A100 (Splitwise; docs/accuracy-of-power.md); other accelerators have no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackmath.hardware import Chip
from rackmath.models.numbers import Number, minimum

RUNNING, READING, MULTIPLYING = 0.29, 0.72, 0.94
"""Parts of the rated power: least squares of ``tools/power.py``. [1]"""
_MEASURED, _UNMEASURED = 0.15, 0.35
"""Relative error, 90 %, on the generation that was measured, and on others."""
KILOWATT_HOUR = 3.6e6
"""[J]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of one accelerator, with a 90 % range that ends at the rated one. [W]"""

    value: float
    low: float
    high: float


def power_share(memory: Number, compute: Number) -> Number:
    """Part of the rated power that an accelerator takes. [1]

    Parameters
    ----------
    memory, compute : Number
        Parts of its peak bandwidth and of its peak rate that it uses. [1]
    """
    return minimum(1.0, RUNNING + READING * memory + MULTIPLYING * compute)


def power_of(chip: Chip, terms: Mapping[str, float], time: float) -> Power | None:
    """Power in a step; None where nobody says the chip's.

    Parameters
    ----------
    terms : mapping
        Seconds at peak rates by cause, as of :class:`~rackmath.engine.Estimate`.
    time : float
        Of the step. [s]
    """
    if chip.power is None or not time > 0:
        return None
    memory = sum(terms.get(name, 0.0) for name in ("weights", "cache", "activations")) / time
    value = chip.power * float(power_share(memory, terms.get("compute", 0.0) / time))
    error = _MEASURED if chip.generation == "ampere" else _UNMEASURED
    return Power(value=value, low=value * (1 - error), high=min(value * (1 + error), max(chip.power, value)))
