"""How far real systems stay from the ideal bound: a factor on time, with its spread."""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Measured time over ideal time: middle and 90 % range. [1]

    Parameters
    ----------
    mid, low, high : float
        Median, 5th and 95th percentile over the measurements it was fitted on.
    basis : str
        What it was fitted on, for the reader of a result.
    """

    mid: float
    low: float
    high: float
    basis: str

    def __post_init__(self) -> None:
        """Nothing beats the bound, and the range is in order."""
        if not 1 <= self.low <= self.mid <= self.high:
            raise InputError(
                "efficiency", (self.low, self.mid, self.high), "factors on time are in order and at least 1"
            )


def ideal() -> Efficiency:
    """Return the pure bound: factors of one."""
    return Efficiency(mid=1.0, low=1.0, high=1.0, basis="ideal bound")
