"""Which requests are sent after which: users who ask again, tasks of agents that fork and join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

F = NDArray[np.float64]
I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
B1 = NDArray[np.bool_]

LONGEST_WAIT = 1e9
"""Of a delay between requests that is still believed. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Edges between requests, in the order of their sources; each leads to a later request.

    A request with edges to it is sent when all of them allow it, and not before its own time of arrival if it has one.
    """

    start: I8
    """Where the edges of each source begin. (requests + 1,)"""
    to: I4
    """Request that waits. (edges,)"""
    delay: F
    """Time of a tool or of thought from the source's end, or from when it is sent. (edges,) [s]"""
    dispatch: B1
    """Whether the delay counts from when the source is sent; else from the end of its answer. (edges,)"""
    in_order: bool = False
    """Whether an edge, of whatever source, allows the next request of the list, as where users share one list."""

    @property
    def source(self) -> I8:
        """Request that each edge comes from. (edges,)"""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def indegree(self) -> I4:
        """Edges that lead to each request. (requests,)"""
        return np.bincount(self.to, minlength=len(self.start) - 1).astype(np.int32)


def graph_of(
    requests: int, source: I8, to: I8, delay: F, dispatch: B1 | None = None, *, in_order: bool = False
) -> Graph:
    """Edges in any order -> a graph.

    Parameters
    ----------
    source, to, delay : array
        (edges,)
    dispatch : array, optional
        By default all delays count from the end of an answer. (edges,)
    in_order : bool
        Whether edges allow the next request of the list, as many as they are, instead of those that they lead to.

    Errors: :class:`InputError` for delays that cannot be meant.
    """
    wrong = np.flatnonzero(~((delay >= 0) & (delay <= LONGEST_WAIT)))
    if len(wrong):
        at = int(wrong[0])
        way_out = f"write a time from 0 to {LONGEST_WAIT:g} s"
        raise InputError(f"delay from request {source[at] + 1} to request {to[at] + 1}", float(delay[at]), way_out)
    assert np.all(source < to), "edges lead to later requests"
    order = np.argsort(source, kind="stable")
    return Graph(
        start=np.concatenate(([0], np.cumsum(np.bincount(source, minlength=requests)))).astype(np.int64),
        to=to[order].astype(np.int32),
        delay=np.asarray(delay, dtype=np.float64)[order],
        dispatch=np.zeros(len(to), np.bool_) if dispatch is None else dispatch[order],
        in_order=in_order,
    )


def chains(requests: int, step: int, delay: F) -> Graph:
    """So many users who share a list of requests: each sends the next one when his last is answered.

    Parameters
    ----------
    delay : array
        From the end of each request to the next. (requests,) [s]
    """
    source = np.arange(max(requests - step, 0))
    return graph_of(requests, source, source + step, delay[: len(source)], in_order=True)


def first_edges(graph: Graph, requests: int) -> Graph:
    """Edges between the first so many requests."""
    source, to = graph.source, graph.to.astype(np.int64)
    is_inside = (to < requests) & (source < requests)
    return graph_of(
        requests, source[is_inside], to[is_inside], graph.delay[is_inside], graph.dispatch[is_inside],
        in_order=graph.in_order,
    )  # fmt: skip


def no_edges(requests: int) -> Graph:
    """No edges: all requests have a time of arrival."""
    nobody = np.zeros(0, np.int64)
    return graph_of(requests, nobody, nobody, np.zeros(0))
