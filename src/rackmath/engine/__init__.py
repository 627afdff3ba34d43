"""One forward pass on a system: layout, shares, what fits, collectives, losses, time."""

from rackmath.engine.layout import Layout, parse_layout
from rackmath.engine.losses import Losses
from rackmath.engine.step import TIME_FIELDS, Estimate, estimate

__all__ = ["TIME_FIELDS", "Estimate", "Layout", "Losses", "estimate", "parse_layout"]
