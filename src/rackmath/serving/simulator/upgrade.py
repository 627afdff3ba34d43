"""A rolling upgrade: replicas are drained and started again, so many at a time, until all run the new version.

Sources: Kubernetes' documentation of Deployments (``RollingUpdate``, ``maxUnavailable``, no surge) and of pods
(a pod that terminates gets no new requests and ends those that it has).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.settings import Upgrade
from rackmath.serving.simulator.state import Replicas

LOOKS = 1.0
"""Between two looks at whether a replica is drained. [s]"""


class RollingUpgrade:
    """Which replicas run the old version, are drained, or start again."""

    def __init__(self, rules: Upgrade) -> None:
        """An upgrade that has not begun."""
        self.rules = rules
        self.old: set[int] = set()
        self.draining: set[int] = set()
        self.restarting: set[int] = set()
        self.replicas = 0
        """Started again so far."""
        self.end = nan
        """When the last one served again, or an autoscaler took it away; not a number until then. [s]"""

    def begin(self, replicas: set[int], s: Replicas) -> None:
        """Everybody who is there runs the old version.

        Errors: :class:`InputError` for a service of one replica, which nobody else could serve meanwhile.
        """
        services, counts = np.unique(s.own["service"][sorted(replicas)], return_counts=True)
        if (counts < 2).any():
            alone = int(services[counts.argmin()])
            subject = "the fleet" if len(services) == 1 else f"service {alone + 1}"
            raise InputError("--upgrade-at", self.rules.begin, f"{subject} has one replica: nobody serves meanwhile")
        self.old = set(replicas)

    def go_on(self, s: Replicas, holds: NDArray[np.int64]) -> list[int]:
        """Drain the next replicas; returns those that are drained and start again.

        A replica that is down stays among the old ones until it is repaired, and the last one up is never drained.
        """
        empty = [r for r in sorted(self.draining) if holds[r] == 0]
        self.draining.difference_update(empty)
        self.restarting.update(empty)
        up, service = s.own["up"], s.own["service"]
        for r in sorted(r for r in self.old if up[r]):
            has_others = int((up & (service == service[r])).sum()) > 1
            if has_others and len(self.draining) + len(self.restarting) < self.rules.at_a_time:
                up[r] = False
                self.old.discard(r)
                self.draining.add(r)
        return empty

    def forget(self, r: int, now: float) -> None:
        """An autoscaler has taken a replica away, whatever it ran; with the last old one the upgrade ends."""
        if r in self.old:
            self.old.discard(r)
            if not self.busy:
                self.end = now

    def on_return(self, r: int, now: float) -> None:
        """A replica serves; the upgrade ends with the last of those that it started again."""
        if r in self.restarting:
            self.restarting.discard(r)
            self.replicas += 1
            if not self.busy:
                self.end = now

    @property
    def busy(self) -> bool:
        """Whether replicas are still to be upgraded."""
        return bool(self.old or self.draining or self.restarting)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its state, as arrays that a file keeps exactly."""
        sets = {"old": self.old, "draining": self.draining, "restarting": self.restarting}
        return {
            **{f"upgrade_{name}": np.array(sorted(values), np.int64) for name, values in sets.items()},
            "upgrade_end": np.array([self.replicas, self.end]),
        }

    def put_back(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Take what :meth:`arrays` gave."""
        self.old, self.draining, self.restarting = (
            set(snapshot[f"upgrade_{name}"].tolist()) for name in ("old", "draining", "restarting")
        )
        self.replicas, self.end = int(snapshot["upgrade_end"][0]), float(snapshot["upgrade_end"][1])
