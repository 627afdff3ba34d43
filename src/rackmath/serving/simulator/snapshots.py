"""State of a run as arrays, kept and put back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.events import Events, RequestQueue
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests

Snapshot = dict[str, NDArray[Any]]
"""Everything that a run has changed so far, as arrays by name."""


def snapshot(
    q: Requests, s: Replicas, c: PrefixCaches, line: RequestQueue, turn: NDArray[np.int64], events: Events
) -> Snapshot:
    """State of a run, by name."""
    arrays = {f"s.{name}": values for name, values in s._asdict().items()}
    arrays |= {f"c.{name}": values for name, values in c._asdict().items() if name != "ids"}
    place = np.array([line.sent, line.looked])
    arrays |= {"q": q, "due": line.due, "who": line.who, "count": line.count, "turn": turn, "place": place}
    return arrays | {f"events.{name}": values for name, values in events.arrays().items()}


def put_back(
    moment: Snapshot,
    q: Requests,
    s: Replicas,
    c: PrefixCaches,
    line: RequestQueue,
    turn: NDArray[np.int64],
    events: Events,
) -> None:
    """Continue a run from a state."""
    q[:], line.due[:], line.who[:], line.count[:], turn[:] = (moment[n] for n in ("q", "due", "who", "count", "turn"))
    for prefix, arrays in (("s", s), ("c", c)):
        for name, values in arrays._asdict().items():
            if f"{prefix}.{name}" in moment:
                values[...] = moment[f"{prefix}.{name}"]
    line.sent, line.looked = int(moment["place"][0]), float(moment["place"][1])
    events.put_back({name.removeprefix("events."): values for name, values in moment.items()})
