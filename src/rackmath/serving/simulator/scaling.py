"""How many replicas an autoscaler asks for: the rule of Kubernetes' horizontal pod autoscaler, on metrics of servers.

Sources: Kubernetes' documentation of the HorizontalPodAutoscaler (ratio, tolerance, sync period of 15 s, stabilization
window of 300 s downwards); Knative (requests in flight, 70 % of what a container takes); vLLM's production stack under
KEDA (``vllm:num_requests_waiting``, threshold 5).
"""

from __future__ import annotations

from math import ceil

METRICS = ("concurrency", "queue", "rate", "slo")
"""What is held against the target of a replica: requests in flight, requests that wait, arrivals per second, or the
replicas that keep a limit on the time per token, as :mod:`rackmath.serving.simulator.planner` says."""

QUEUE_TARGET = 5.0
"""Requests that may wait for each replica. [requests]"""
CONCURRENCY_PART = 0.7
"""Part of the requests that a replica holds at once. [1]"""


def wanted_replicas(current: int, total: float, target: float, tolerance: float) -> int:
    r"""Replicas that would bring a metric to its target. [replicas]

    .. math:: n' = \lceil n \, m / m^* \rceil = \lceil \Sigma / m^* \rceil

    and n itself where the ratio of the metric to its target is within the tolerance of 1.

    Parameters
    ----------
    current : int
        Replicas that are there or starting.
    total : float
        The metric over all of them.
    target : float
        Of each.
    """
    ratio = total / (target * current)
    return current if abs(ratio - 1) <= tolerance else ceil(total / target - 1e-9)


class Advice:
    """What an autoscaler asked for lately: it goes down only to the most of a window."""

    def __init__(self, window: float) -> None:
        """Advice that counts for a time. [s]"""
        self.window = window
        self.history: list[tuple[float, int]] = []
        """Moment and replicas, oldest first."""

    def settled(self, now: float, target: int, current: int) -> int:
        """Replicas to go to: at once upwards, downwards to the most that was asked for within the window."""
        self.history = [(t, n) for t, n in self.history if t > now - self.window]
        self.history.append((now, target))
        return target if target > current else min(current, max(n for _, n in self.history))
