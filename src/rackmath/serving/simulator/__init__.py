"""A fleet that serves a trace, event by event: what percentiles users see under bursts, caches, queues, failures."""

from rackmath.serving.simulator.kinds import Kind
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import Batching, Failures, Fleet, PrefixCache, Scaling, Tier, Upgrade
from rackmath.serving.simulator.times import StepTimes, step_times
from rackmath.serving.simulator.workload import Workload

__all__ = [
    "Batching",
    "Failures",
    "Fleet",
    "Kind",
    "Outcome",
    "PrefixCache",
    "Scaling",
    "StepTimes",
    "Tier",
    "Upgrade",
    "Workload",
    "simulate",
    "step_times",
]
