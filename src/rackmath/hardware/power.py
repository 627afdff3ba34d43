r"""Power of an accelerator by what it does: a part that running at all takes, reading memory, and multiplying.

.. math:: P = \min(P_{rated}, a \, P_{rated} + \epsilon \, B + c \, P_{rated} \sqrt{u})

with B bytes per second and u FLOPs over what the time at the peak rate would carry. The three constants are fitted on
36 profiled services of Llama 2 70B and BLOOM on A100 (Splitwise) and 470 of vLLM on H100 and B200 (ML.ENERGY
leaderboard), by ``tools/power.py`` (docs/accuracy-of-power.md); other generations have no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.hardware.chip import Chip

Share = float | NDArray[np.float64]

STATIC_SHARE = 0.315
"""Part of the rated power of an accelerator that runs but waits. [1]"""
BYTE_ENERGY = 96.5e-12
"""Energy of a byte from memory. [J/B]"""
COMPUTE_SHARE = 0.754
"""Part of the rated power that multiplying at the peak rate adds. [1]"""
_MEASURED = frozenset({"ampere", "hopper", "blackwell"})
_ERROR, _ERROR_ELSEWHERE = 0.3, 0.45
"""Relative error, 90 %, on generations that were measured, and on others."""
_CLOCK = 3.0
"""Exponent of the clock in what multiplying takes at the same part of the nominal peak: voltage follows it."""
_LEAST_CAP = 0.7
"""Part of the rated power down to which the law of the clock is measured. [1]"""
KILOWATT_HOUR = 3.6e6
"""[J]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of one accelerator, with a 90 % range that ends at the rated one. [W]"""

    value: float
    low: float
    high: float


def power_draw(chip: Chip, bandwidth_share: Share, compute_share: Share) -> Share | None:
    """Power that an accelerator takes; None where nobody says its rated one. [W]

    Parameters
    ----------
    bandwidth_share, compute_share : float or array
        Parts of the peak bandwidth and of the peak rate, at its clock, in use. [1]
    """
    if chip.power is None:
        return None
    compute_power = COMPUTE_SHARE * chip.power * np.sqrt(compute_share) * chip.clock ** (_CLOCK + 0.5)
    work = BYTE_ENERGY * chip.memory_bandwidth * bandwidth_share + compute_power
    return np.minimum(chip.power, STATIC_SHARE * chip.power + work)


def power_of(chip: Chip, bandwidth_share: float, compute_share: float) -> Power | None:
    """Power with its range, of parts of the peaks in use; None where nobody says the rated one."""
    value = power_draw(chip, bandwidth_share, compute_share)
    if value is None or chip.power is None:
        return None
    error = _ERROR if chip.generation in _MEASURED else _ERROR_ELSEWHERE
    watts = float(value)
    return Power(value=watts, low=watts * (1 - error), high=min(watts * (1 + error), max(chip.power, watts)))


def capped_clock(chip: Chip, cap: float) -> float:
    r"""Clock, over that of the rated power, at which an accelerator that multiplies all the time keeps a cap. [1]

    .. math:: a P_{rated} + (1 - a) P_{rated} \sqrt{f} f^3 = P_{cap}

    At the peak rate of the lower clock the part of the nominal peak in use is f. Memory keeps
    its clock, so what reads it is not slowed. Source of the exponent: prompts on RTX 3090 at 250 to 350 W
    (docs/accuracy-of-power.md); below 0.7 of the rated power the same sweep falls faster.

    Errors: :class:`InputError` for a cap below that, and where nobody says the rated power.
    """
    if chip.power is None:
        raise InputError("power_cap", cap, f"nobody says the rated power of {chip.name}: there is nothing to cap")
    if not cap >= _LEAST_CAP * chip.power:
        least = f"{_LEAST_CAP * chip.power:.0f} of its {chip.power:.0f} W"
        raise InputError("power_cap", cap, f"below {least} the clock falls faster than is known: write more")
    return min(1.0, (cap / chip.power - STATIC_SHARE) / (1 - STATIC_SHARE)) ** (1 / (_CLOCK + 0.5))


def cap_note(chip: Chip) -> tuple[str, ...]:
    """What a reader has to know of times under a cap; empty without one."""
    if chip.clock == 1:
        return ()
    return (
        f"under the power cap what multiplies runs at {chip.clock:.0%} of its clock; a service that reads memory at "
        "the same time may be a tenth slower still, as eight H200 at 500 W were in MLPerf Power",
    )
