"""A fleet that serves a trace, event by event: what percentiles users see under bursts, caches, queues, failures."""

from rackmath.serving.simulator.kinds import ReplicaKind
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import Batching, Failures, Fleet, PrefixCache, Scaling, Tier, Upgrade
from rackmath.serving.simulator.times import StepTimes, step_times
from rackmath.serving.simulator.workload import Arrivals

__all__ = [
    "Arrivals",
    "Batching",
    "Failures",
    "Fleet",
    "Outcome",
    "PrefixCache",
    "ReplicaKind",
    "Scaling",
    "StepTimes",
    "Tier",
    "Upgrade",
    "simulate",
    "step_times",
]
