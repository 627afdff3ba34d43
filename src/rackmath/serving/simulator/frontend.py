"""What a server's one process adds: it receives the requests of a burst, and passes first tokens on in turn."""

from __future__ import annotations

import numpy as np

from rackmath.serving.simulator.state import I4, F, Requests


def reception_ends(arrival: F, replicas: int, seconds: float) -> F:
    """When engines have the requests that come to servers: all of a burst, when the last of it is received. [s]

    A server's process turns from one request to the next as each waits for something: those that come at one time are
    received at one time. What a single one takes is part of a request's time outside of the engine.

    Parameters
    ----------
    arrival : array
        In ascending order. (requests,) [s]
    replicas : int
        Servers that share the requests.
    seconds : float
        Time of a server's process to receive a request. [s]
    """
    begins = np.flatnonzero(np.diff(arrival, prepend=-np.inf))
    together = np.diff(begins, append=len(arrival))
    behind = np.repeat(np.ceil(together / replicas) - 1, together)
    return np.maximum.accumulate(arrival + seconds * behind)


def passed_on(arrival: F, first: F, place: I4, *, frontend: F, reception: F) -> F:
    r"""Times at which the servers of all replicas begin to pass their first tokens on. (requests,) [s]

    .. math:: y_n = \max_{m \le n} \left( x_m + \sum_{m \le i < n} h_i \right)

    with x the times at which requests come and engines have written first tokens, in their order, and h what the
    server's process takes for each: a part of its time for a request to receive it, and the rest to pass its first
    token on. A single one is not late: what it takes itself is part of a request's time outside of the engine.

    Parameters
    ----------
    arrival, first : array
        When requests came, and when engines wrote their first tokens; the latter not a number for those that were
        refused. (requests,) [s]
    place : array
        Replica of each. (requests,)
    frontend : array
        Time of each replica's server for a request. (replicas,) [s]
    reception : array
        Part of that to receive it. (replicas,)
    """
    first_out = first.copy()
    places = np.flatnonzero(np.isfinite(first))
    by_place = places[np.argsort(place[places], kind="stable")]
    begins = np.flatnonzero(np.diff(place[by_place], prepend=-1))
    for group in np.split(by_place, begins[1:]):
        if len(group):
            replica = place[group[0]]
            receive = reception[replica] * frontend[replica]
            seconds = np.repeat([receive, frontend[replica] - receive], len(group))
            come = np.concatenate([arrival[group], first[group]])
            # What comes at one time is received before first tokens are passed on.
            order = np.argsort(come, kind="stable")
            before = np.cumsum(seconds[order]) - seconds[order]
            starts = np.empty_like(come)
            starts[order] = np.maximum.accumulate(come[order] - before) + before
            first_out[group] = starts[len(group) :]
    return first_out


def with_servers(q: Requests, *, frontend: F, reception: F) -> Requests:
    """Requests with the times at which users have their first tokens.

    An answer ends no sooner than its first token has come; where others wait for its end, which engines know of, the
    first token comes with it at the latest.
    """
    if not frontend.any():
        return q
    q = q.copy()
    first_out = passed_on(q["arrival"], q["first"], q["place"], frontend=frontend, reception=reception)
    q["first"] = np.where(q["precedes"], np.minimum(first_out, q["finish"]), first_out)
    q["finish"] = np.maximum(q["finish"], q["first"])
    return q
