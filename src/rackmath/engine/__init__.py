"""One forward pass on a system: layout, shares, what fits, collectives, time."""

from rackmath.engine.efficiency import Efficiency, ideal
from rackmath.engine.layout import Layout, parse_layout
from rackmath.engine.step import Estimate, estimate

__all__ = ["Efficiency", "Estimate", "Layout", "estimate", "ideal", "parse_layout"]
