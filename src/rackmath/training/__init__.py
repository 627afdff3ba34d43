"""What a training run computes and how long its steps take."""

from rackmath.training.throughput import TrainingRun, step_time

__all__ = ["TrainingRun", "step_time"]
