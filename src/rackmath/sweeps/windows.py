"""A run too long for one machine's memory or patience: windows of its time, each simulated by itself after a lead-in.

Each window generates its own arrivals, at the rate that the whole run has then, from a lead-in before its begin until
after its end; requests that arrive within it are counted. What the cut leaves out is a queue that is older than the
lead-in: the report sets the first tenth of all windows beside the rest, where such a queue would be missing.
Times are counted in classes of half a per cent, so that 10^9 requests are merged as 10^3 are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, inf, sqrt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rackmath.api.fields import plain_fields
from rackmath.api.simulation.report import QUANTITIES, facts_of, user_times
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of
from rackmath.errors import InputError
from rackmath.serving.simulator.days import DAY, even_time
from rackmath.serving.simulator.outcome import PERCENTILES, STATISTICS, good

F = NDArray[np.float64]

LEAD = 0.1
"""Part of a window's time that is simulated before it, at least :data:`LEAST` requests."""
LEAST = 2_000
MOST = 5_000_000
"""Requests of a window: about a gigabyte of memory and half a minute."""
_LOWEST, _RATIO, _CLASSES = 1e-6, 1.005, 6_500
"""Of the classes of times: the upper end of the first, the ratio of two, how many (up to three years). [s]"""
_EARLY = 0.1
"""Part of each window that is compared with the rest of it."""
_STUDENT = 1.96


def arrivals_until(r: SimulateRequest, moment: float) -> float:
    """Requests that are expected from the begin of a run until a moment. [requests]"""
    return _rate(r) * float(even_time(moment, r.diurnal_amplitude, r.day_start))


def windows_of(r: SimulateRequest, count: int) -> list[dict[str, Any]]:
    """What each window simulates: fields of its request, its lead-in and its length in seconds.

    Errors: :class:`InputError` for traffic that does not come by itself, and for windows too long or too short.
    """
    _refuse(r, count)
    span = r.requests / _rate(r)
    length = span / count
    lead = max(LEAD * length, LEAST / _rate(r))
    per_window = r.requests * (length + lead) / span
    if per_window > MOST:
        need = ceil(r.requests * (1 + LEAD) / MOST - 1e-9)
        raise InputError("--windows", count, f"{per_window:,.0f} requests in a window: write at least {need:,}")
    if r.requests / count < LEAST:
        most = max(r.requests // LEAST, 1)
        raise InputError("--windows", count, f"{r.requests / count:,.0f} requests in a window: write at most {most:,}")
    result: list[dict[str, Any]] = []
    for i in range(count):
        begin = i * length - lead
        arrivals = arrivals_until(r, begin + lead + length) - arrivals_until(r, begin)
        # So many more that the load goes on beyond the end, whatever is drawn.
        requests = ceil(arrivals + 6 * sqrt(arrivals) * max(r.interarrival_cv, 1.0) + LEAST)
        day_start = (r.day_start + begin) % DAY if r.diurnal_amplitude else r.day_start
        part = replace(r, requests=requests, day_start=day_start, seed=(r.seed + 7_919 * (i + 1)) % 2**63)
        result.append({"request": plain_fields(part), "lead": lead, "length": length})
    return result


def _rate(r: SimulateRequest) -> float:
    rate = r.traffic.rate
    assert rate is not None, "windows of other traffic are refused"
    return rate


def _refuse(r: SimulateRequest, count: int) -> None:
    """Windows are of generated arrivals that do not wait for answers."""
    for field, value in (("--trace", r.trace), ("--users", r.users)):
        if value is not None:
            raise InputError("--windows", count, f"are of traffic that --poisson generates: leave {field} out")
    if r.poisson is None:
        raise InputError("--windows", count, "are of traffic that --poisson generates: give its rate")
    if r.turns > 1 or r.upgrade_at is not None:
        field = "--turns" if r.turns > 1 else "--upgrade-at"
        raise InputError("--windows", count, f"each begins anew: leave {field} out")


def window(request: Mapping[str, Any], lead: float, length: float) -> dict[str, Any]:
    """Simulate one window: counts by class of time, and sums, of the requests that arrive within it."""
    r = SimulateRequest(**request)
    setup = setup_of(r)
    outcomes = run(setup)
    times, arrival = user_times(setup, outcomes), setup.work.arrival
    inside = (arrival >= lead) & (arrival < lead + length)
    is_answered = inside & outcomes[-1].answered
    early = is_answered & (arrival < lead + _EARLY * length)
    within = good(times, r.ttft or inf, r.tpot or inf)
    facts = facts_of(setup, outcomes)
    row: dict[str, Any] = {
        "requests": int(inside.sum()),
        "good": int(within[inside].sum()),
        "tokens": int(setup.work.output[is_answered].sum()),
        "refused": int((inside & ~is_answered).sum()),
        "simulated": len(setup.work),
        "early": float(times.whole[early].mean()) if early.any() else None,
        "late": float(times.whole[is_answered & ~early].mean()) if (is_answered & ~early).any() else None,
        "facts": json.dumps({name: facts[name] for name in ("model", "system", "layout", "replicas")}),
        "usd_per_million_tokens": facts["usd_per_million_tokens"],
        "joules_per_token": facts["joules_per_token"],
        "preempted": facts["preempted"],
        "failures": facts["failures"],
        "utilisation": facts["utilisation"],
    }
    for key, values in zip(QUANTITIES, (times.first, times.per_token, times.whole), strict=True):
        finite = values[inside & np.isfinite(values)]
        row[key] = histogram(finite).tolist()
        row[f"{key}_sum"] = float(finite.sum())
    return row


def histogram(values: F) -> NDArray[np.int64]:
    """How many values fall into each class. (classes,)"""
    at = np.ceil(np.log(np.maximum(values, _LOWEST) / _LOWEST) / np.log(_RATIO)).astype(np.int64)
    return np.bincount(np.clip(at, 0, _CLASSES - 1), minlength=_CLASSES)


def percentile(counts: NDArray[np.int64], part: float) -> float:
    """Value below which a part of what was counted lies, within half a class: a quarter of a per cent."""
    cumulative = np.cumsum(counts)
    at = int(np.searchsorted(cumulative, part * cumulative[-1]))
    return _LOWEST * _RATIO ** (at - 0.5)


def join_windows(table: pl.DataFrame, length: float) -> dict[str, Any]:
    """What the whole run says: percentiles with intervals, rates, dollars, and whether windows lost what was before.

    Parameters
    ----------
    table : DataFrame
        A row of :func:`window` for each.
    length : float
        Of a window. [s]
    """
    requests = np.array(table["requests"], dtype=float)
    total, tokens = float(requests.sum()), np.array(table["tokens"], dtype=float)
    return {
        **json.loads(table["facts"][0]),
        "windows": len(table),
        "requests": int(total),
        "simulated": int(table["simulated"].sum()),
        "span": length * len(table),
        **{key: _spread(table, key) for key in QUANTITIES},
        "requests_per_second": total / (length * len(table)),
        "throughput": float(tokens.sum()) / (length * len(table)),
        "good_share": float(table["good"].sum()) / max(total, 1.0),
        "utilisation": float(np.average(np.array(table["utilisation"], dtype=float), weights=requests)),
        "refused": int(table["refused"].sum()),
        "preempted": int(table["preempted"].sum()),
        "failures": int(table["failures"].sum()),
        "usd_per_million_tokens": _mean(table["usd_per_million_tokens"], tokens),
        "joules_per_token": _mean(table["joules_per_token"], tokens),
        "lead_in": _lead_in(table),
    }


def _mean(values: pl.Series, weights: F) -> float | None:
    if values.null_count():
        return None
    return float(np.average(np.array(values, dtype=float), weights=weights))


def _spread(table: pl.DataFrame, key: str) -> dict[str, Any] | None:
    """Mean and percentiles over all windows; the interval is that of their mean over independent windows."""
    counts = np.array(table[key].to_list(), dtype=np.int64)
    whole = counts.sum(axis=0)
    if not whole.sum():
        return None
    result: dict[str, Any] = {"mean": float(table[f"{key}_sum"].sum()) / float(whole.sum())}
    result["confidence"] = {}
    for name, part in zip(STATISTICS[1:], PERCENTILES, strict=True):
        value = percentile(whole, part)
        result[name] = value
        # The part below the percentile, window by window: they are independent, whatever hangs together within one.
        edge = round(np.log(value / _LOWEST) / np.log(_RATIO) + 0.5)
        below = counts[:, : edge + 1].sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
        half = _STUDENT * float(below.std(ddof=1)) / sqrt(len(below)) if len(below) > 1 else part
        ends = (percentile(whole, max(part - half, 0.0)), percentile(whole, min(part + half, 1.0)))
        result["confidence"][name] = list(ends)
    return result


def _lead_in(table: pl.DataFrame) -> dict[str, float | None]:
    """Mean latency of the first tenth of all windows over that of the rest, with its standard error."""
    pairs = zip(table["early"].to_list(), table["late"].to_list(), strict=True)
    ratios = [early / late for early, late in pairs if early is not None and late is not None]
    if len(ratios) < 2:
        return {"ratio": ratios[0] if ratios else None, "error": None}
    return {"ratio": float(np.mean(ratios)), "error": float(np.std(ratios, ddof=1)) / sqrt(len(ratios))}
