"""A network between accelerators: bandwidth one way per accelerator, and latency."""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one accelerator can send, in one direction.

    Parameters
    ----------
    bandwidth : float
        Out of one accelerator, one direction; vendors print twice that. [B/s]
    latency : float
        Of one small collective over it. [s]
    """

    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that no arithmetic can use."""
        if not self.bandwidth > 0:
            raise InputError("bandwidth", self.bandwidth, "write a positive number")
        if not self.latency >= 0:
            raise InputError("latency", self.latency, "write a number of at least 0")
