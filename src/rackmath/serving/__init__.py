"""Load on a deployment: what users see when many of them are served at once."""

from rackmath.serving.load import Load, Pool, Scheduling, Steady
from rackmath.serving.open_loop import at_rate, open_loop
from rackmath.serving.steady import closed_loop, disaggregated

__all__ = ["Load", "Pool", "Scheduling", "Steady", "at_rate", "closed_loop", "disaggregated", "open_loop"]
