"""What calls waited for, read from when they were sent and ended: a recording has times, not causes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from rackmath.io.agent_traces.calls import Call, Wait

TOGETHER = 1e-6
"""Times so close are one. [s]"""


@dataclass(slots=True)
class Record:
    """A call and its times."""

    call: Call
    start: float
    """[s]"""
    end: float
    """[s]"""
    after: set[int] = field(default_factory=set[int])
    """Calls whose ends it waited for."""
    during: set[int] = field(default_factory=set[int])
    """Calls that were being answered when it was sent."""


def in_order(records: Sequence[Record], members: Sequence[int]) -> None:
    """Let each call of a context wait for those that ended last before it was sent.

    Of calls that are intervals of time, those precede another that end before it starts; the last of these, with
    nobody between, are what it waited for. One that starts before anybody has ended was sent during the latest.
    """
    by_start = sorted(members, key=lambda k: (records[k].start, k))
    by_end = sorted(members, key=lambda k: (records[k].end, records[k].start))
    ends = [records[k].end for k in by_end]
    latest = list(accumulate((records[k].start for k in by_end), max))
    for at, k in enumerate(by_start):
        start = records[k].start
        first = last = bisect_right(ends, start + TOGETHER)
        while first and ends[first - 1] >= start:
            first -= 1
        # Those that end just now may be sent just now: they precede nobody here.
        just = [j for j in by_end[first:last] if records[j].start < start]
        between = max([*latest[first - 1 : first], *(records[j].start for j in just)], default=None)
        if between is None:
            if at:
                records[k].during.add(by_start[at - 1])
            continue
        while first and ends[first - 1] >= between:
            first -= 1
            just.append(by_end[first])
        records[k].after |= {j for j in just if records[j].end > between + TOGETHER or records[j].start == between}


def spawn(records: Sequence[Record], parents: Iterable[int], children: Sequence[int]) -> None:
    """Let the first calls of a context that a parent's call began wait for the latest such call."""
    first = min(children, key=lambda k: (records[k].start, k))
    start = records[first].start
    before = [k for k in parents if records[k].start <= start + TOGETHER]
    if not before:
        return
    source = max(before, key=lambda k: (records[k].start, k))
    for k in children:
        if not records[k].after and not records[k].during:
            (records[k].after if records[source].end <= start + TOGETHER else records[k].during).add(source)


def join(records: Sequence[Record], parents: Iterable[int], children: Sequence[int], end: float) -> None:
    """Let the first call of a parent after a context's end wait for what ended it."""
    sources = {j for k in children for j in records[k].after | records[k].during} - set(children)
    start = max((records[j].start for j in sources), default=-inf)
    later = [k for k in parents if records[k].start + TOGETHER >= end and records[k].start > start]
    if later:
        target = min(later, key=lambda k: (records[k].start, k))
        waits = {j for k in children for j in records[k].after}
        records[target].after |= set(children) - waits


def calls_of(records: Sequence[Record]) -> list[Call]:
    """Calls with what they wait for, and how long after.

    After the last of the ends that it waited for a call took a tool's or a person's time: the same after each.
    """
    for record in records:
        gap = max(record.start - max((records[k].end for k in record.after), default=record.start), 0.0)
        record.call.waits = [Wait(records[k].call.name, gap) for k in sorted(record.after)]
        record.call.waits += [
            Wait(records[k].call.name, max(record.start - records[k].start, 0.0), dispatch=True)
            for k in sorted(record.during)
        ]
    return [record.call for record in records]
