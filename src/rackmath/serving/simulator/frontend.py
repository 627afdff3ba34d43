"""When first tokens reach their users: a server's one process passes them on one after another."""

from __future__ import annotations

import numpy as np

from rackmath.serving.simulator.state import I4, F, Requests


def passed_on(first: F, place: I4, frontend: F) -> F:
    r"""Times at which the servers of all replicas have passed their first tokens on. (requests,) [s]

    .. math:: y_n = \max_{m \le n} \left( x_m + (n - m) \, h \right)

    with x the times at which an engine has written them, in their order, and h what its server's process takes for
    each. A single one is not late: what it takes itself is part of a request's time outside of the engine.

    Parameters
    ----------
    first : array
        When engines wrote them; not a number for requests that were refused. (requests,) [s]
    place : array
        Replica of each. (requests,)
    frontend : array
        Of each replica's server. (replicas,) [s]
    """
    passed = first.copy()
    answered = np.flatnonzero(np.isfinite(first))
    order = answered[np.lexsort((first[answered], place[answered]))]
    begins = np.flatnonzero(np.diff(place[order], prepend=-1))
    for group in np.split(order, begins[1:]):
        if len(group):
            queue = np.arange(len(group)) * frontend[place[group[0]]]
            passed[group] = np.maximum.accumulate(first[group] - queue) + queue
    return passed


def with_servers(q: Requests, frontend: F) -> Requests:
    """Requests with the times at which users have their first tokens.

    An answer ends no sooner than its first token has come; where others wait for its end, which engines know of, the
    first token comes with it at the latest.
    """
    if not frontend.any():
        return q
    q = q.copy()
    passed = passed_on(q["first"], q["place"], frontend)
    q["first"] = np.where(q["precedes"], np.minimum(passed, q["finish"]), passed)
    q["finish"] = np.maximum(q["finish"], q["first"])
    return q
