"""Schedules of pipeline stages: who does what in which order, and what that takes."""

from rackmath.training.pipelines.execute import StageTimes, Timeline, execute
from rackmath.training.pipelines.run import NAMES, round_robin, run
from rackmath.training.pipelines.schedules import schedule

__all__ = ["NAMES", "StageTimes", "Timeline", "execute", "round_robin", "run", "schedule"]
