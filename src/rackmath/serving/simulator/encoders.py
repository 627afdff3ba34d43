"""Accelerators that encode the images of requests before servers read their prompts: when each request comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import Arrivals

F = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoders:
    """Equal accelerators, each of which encodes the images of one request at a time."""

    gpus: int
    """[accelerators]"""
    time: float
    """Of the images of a request. [s]"""
    transfer: float = 0.0
    """Sending what they become to a server. [s]"""
    chip: str = ""
    """Name of their chip."""
    price: float | None = None
    """Of one accelerator; None where nobody says. [USD/s]"""

    def slowed(self, factor: float) -> Encoders:
        """All encodes so many times as long."""
        return replace(self, time=self.time * factor)

    def ends(self, arrival: F) -> F:
        r"""When the images of each request are encoded, first come, first served. (requests,) [s]

        .. math:: e_i = \max(a_i, e_{i-n}) + t

        since all take as long: the accelerator that request i finds free first is that of request i - n. Unrolled over
        the k-th request of one accelerator, :math:`e_k = (k + 1) t + \max_{l \le k} (a_l - l t)`.

        Parameters
        ----------
        arrival : array
            In ascending order. [s]
        """
        rounds = -(-len(arrival) // self.gpus)
        grid = np.full(rounds * self.gpus, np.inf)
        grid[: len(arrival)] = arrival
        turns = grid.reshape(rounds, self.gpus)
        before = self.time * np.arange(rounds)[:, None]
        ends = np.asarray(np.maximum.accumulate(turns - before, axis=0), dtype=np.float64) + before + self.time
        return ends.reshape(-1)[: len(arrival)]

    def encoded(self, work: Arrivals) -> Arrivals:
        """The same requests as servers meet them, once their images are encoded and sent.

        Errors: :class:`InputError` for users who wait for answers before they ask again.
        """
        if work.graph is not None:
            raise InputError("--encoder-gpus", self.gpus, "encoders of their own take traces and open arrivals only")
        return replace(work, arrival=self.ends(work.arrival) + self.transfer)
