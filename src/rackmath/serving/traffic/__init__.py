"""Traffic as a small model: what a trace's arrivals, lengths and prefixes are like, and requests drawn from it.

A workload enters and a :class:`~rackmath.serving.traffic.model.TrafficModel` leaves (``fit``), and the way back
(``draw``); ``closeness`` says how far the two workloads are apart. ``rackmath traffic`` and ``simulate`` call it.
"""

from rackmath.serving.traffic.closeness import Closeness, closeness
from rackmath.serving.traffic.draw import draw
from rackmath.serving.traffic.fit import fit_traffic
from rackmath.serving.traffic.model import LengthClass, Reuse, SharedPrefixes, TrafficModel

__all__ = ["Closeness", "LengthClass", "Reuse", "SharedPrefixes", "TrafficModel", "closeness", "draw", "fit_traffic"]
