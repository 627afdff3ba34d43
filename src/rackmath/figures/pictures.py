"""Results -> figures: the frontier, the roofline, latency and cost against batch, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rackmath.engine import Estimate
from rackmath.engine.roofline import OperatorTime
from rackmath.figures.record import Figure, Panel, Series
from rackmath.hardware import System

_LABELS = 6
"""Spots of a roofline that are named."""
_APART = 0.15
"""Logarithm of the ratio of two intensities below which markers would cover each other."""


def frontier_figure(facts: Mapping[str, Any], panels: int = 2) -> Figure:
    """Throughput against speed, and cost against time per token, of a plan."""
    rows, best = facts["frontier"], facts["best"]
    labels = [
        f"{r['units']:.0f} x ({r['layout']}), batch {r['batch']:.0f}, draft {r['draft_tokens']:.0f}" for r in rows
    ]

    def panel(x: str, y: str, across: str, up: str, scale: float = 1.0) -> Panel:
        series = [
            Series(
                name="frontier, with 90 % range",
                x=[r[x] * scale for r in rows],
                y=[r[y] for r in rows],
                low=[r[f"{y}_low"] for r in rows],
                high=[r[f"{y}_high"] for r in rows],
                labels=labels,
            ),
            Series(
                name="deployments",
                x=[r[x] * scale for r in rows],
                y=[r[y] for r in rows],
                kind="points",
                labels=labels,
            ),
        ]
        if best is not None:
            series.append(Series(name="best under the limits", x=[best[x] * scale], y=[best[y]], kind="mark"))
        measurements = [m for m in facts["measured"] if x in m and y in m]
        if measurements:
            series.append(
                measured_series([m[x] * scale for m in measurements], [m[y] for m in measurements], measurements)
            )
        return Panel(across=across, up=up, series=series)

    panel_list = [
        panel(
            "tokens_per_second_per_user", "tokens_per_second_per_gpu", "tokens/s of one user", "output tokens/s per GPU"
        )
    ]
    if panels > 1 and rows and rows[0]["usd_per_million_output_tokens"] is not None:
        cost = panel(
            "time_per_output_token",
            "usd_per_million_output_tokens",
            "time per output token [ms]",
            "$ per million output tokens",
            1e3,
        )
        panel_list.append(Panel(across=cost.across, up=cost.up, series=cost.series, log_up=True))
    return Figure(
        title=f"{facts['model']} on up to {facts['gpus']} x {facts['system']}: {facts['evaluated']:,} configurations",
        panels=panel_list,
        note="; ".join(facts["assumptions"][:2]),
    )


def measured_series(x: Sequence[float], y: Sequence[float], rows: Sequence[Mapping[str, Any]]) -> Series:
    """Measurements as points beside a curve; what each was of is shown where a reader points at it."""
    labels = [
        ", ".join(
            str(part)
            for part in (f"{r['engine']} on {r['n_gpus']:g}", r["weights"], r["date"], r["source"])
            if part is not None
        )
        for r in rows
    ]
    return Series(name="measured", x=x, y=y, kind="points", labels=labels, colour=5)


def roofline_figure(title: str, system: System, operators: Sequence[OperatorTime], note: str) -> Figure:
    """Operators on the chip's roofline: FLOPs per byte against FLOP/s at the bound."""
    chip = system.chip
    drawable_operators = [t for t in operators if float(t.time) > 0 and float(t.compute) > 0 and float(t.memory) > 0]
    rates = {t.operator.compute for t in drawable_operators}
    series: list[Series] = []
    flops = {id(t): float(t.compute) * chip.rate(t.operator.compute) for t in drawable_operators}
    intensity = {id(t): flops[id(t)] / (float(t.memory) * chip.memory_bandwidth) for t in drawable_operators}
    low = min(intensity.values(), default=1.0) / 3
    high = max([*intensity.values(), chip.rate("bf16") / chip.memory_bandwidth]) * 3
    across = np.geomspace(low, high, 200)
    for precision in sorted(rates):
        roof = np.minimum(across * chip.memory_bandwidth, chip.rate(precision))
        series.append(Series(name=f"roof at {chip.runs_at(precision)}", x=list(across), y=list(roof / 1e12)))
    spots = _spots(drawable_operators, intensity)
    longest = sorted(spots, key=lambda spot: -sum(float(t.time) for t in spot))[:_LABELS]
    series.append(
        Series(
            name="operators at their bound",
            x=[intensity[id(spot[0])] for spot in spots],
            y=[flops[id(spot[0])] / float(spot[0].time) / 1e12 for spot in spots],
            kind="points",
            labels=[_spot_label(spot) if spot in longest else "" for spot in spots],
        )
    )
    return Figure(
        title=title,
        panels=[
            Panel(
                across="FLOPs per byte of memory traffic",
                up="TFLOP/s per accelerator",
                series=series,
                log_across=True,
                log_up=True,
                show_labels=True,
            )
        ],
        note=note,
    )


def _spots(operators: Sequence[OperatorTime], intensity: Mapping[int, float]) -> list[list[OperatorTime]]:
    """Operators that a reader could not tell apart, together; each spot starts with its longest."""
    spots: list[list[OperatorTime]] = []
    for t in sorted(operators, key=lambda t: -float(t.time)):
        near = (s for s in spots if abs(np.log(intensity[id(s[0])] / intensity[id(t)])) < _APART)
        twin = next(near, None)
        if twin is None:
            spots.append([t])
        else:
            twin.append(t)
    return spots


def _spot_label(spot: Sequence[OperatorTime]) -> str:
    more = f" and {len(spot) - 1} more" if len(spot) > 1 else ""
    return f"{spot[0].operator.name}{more}"


def batch_figure(
    title: str,
    curve: Estimate,
    batch: Sequence[float],
    price: float | None,
    note: str,
    measured: Sequence[Mapping[str, Any]] = (),
) -> Figure:
    """The lecture's two graphs: time per token, and cost per token, against batch.

    ``measured`` are times [s] by batch that were measured near it.
    """
    fits = np.asarray(curve.memory.fits)
    time, low, high = (np.asarray(x) * 1e3 for x in (curve.time, curve.time_low, curve.time_high))
    ideal = np.asarray(curve.time_overlapped) * 1e3
    per_token = 1.0 if price is None else price * 1e6
    unit = "GPU-seconds per token" if price is None else "$ per million tokens"
    gpus = np.broadcast_to(np.asarray(curve.gpus, dtype=float), time.shape)

    def cost(of: Any) -> list[float]:
        return list(np.asarray(of) * 1e-3 * gpus * per_token / np.asarray(batch))

    edge = [float(np.asarray(batch)[fits].max())] if fits.any() and not fits.all() else []
    marks = [
        Series(name="memory is full", x=edge, y=[float(np.interp(edge[0], batch, values))], kind="mark")
        for values in (time, np.asarray(cost(time)))
        if edge
    ]
    inside = [m for m in measured if batch[0] <= m["batch"] <= batch[-1]]
    times = [measured_series([m["batch"] for m in inside], [m["time"] * 1e3 for m in inside], inside)] if inside else []
    panels = [
        Panel(
            across="sequences in the batch",
            up=up,
            log_across=True,
            log_up=log,
            series=[
                Series(name="estimate, with 90 % range", x=list(batch), y=list(y), low=list(lower), high=list(upper)),
                Series(name="the lecture's bound: all overlaps", x=list(batch), y=list(bound)),
                *marks[i : i + 1],
                *(times if i == 0 else ()),
            ],
        )
        for i, (up, log, y, lower, upper, bound) in enumerate(
            (
                ("time per token [ms]", False, time, low, high, ideal),
                (unit, True, cost(time), cost(low), cost(high), cost(ideal)),
            )
        )
    ]
    return Figure(title=title, panels=panels, note=note)


def memory_figure(title: str, curve: Estimate, batch: Sequence[float], note: str) -> Figure:
    """Memory per accelerator by kind, against batch."""
    m = curve.memory
    shape = np.shape(np.asarray(curve.time))
    names = [f"{b:g}" for b in batch]
    parts = [
        Series(name=name, x=names, y=list(np.broadcast_to(np.asarray(value, dtype=float), shape) / 1e9), kind="bars")
        for name, value in (("weights", m.weights), ("cache", m.cache), ("activations", m.activations))
    ]
    capacity = Series(name="capacity", x=names, y=[m.capacity / 1e9] * len(names))
    return Figure(
        title=title,
        panels=[Panel(across="sequences in the batch", up="GB per accelerator", series=[*parts, capacity])],
        note=note,
    )


def cost_figure(plans: Sequence[Mapping[str, Any]], speed: float, keys: Sequence[str]) -> Figure:
    """Cost at a fixed speed, a bar for each row of ``compare`` that has one; ``keys`` differ as well."""
    rows = [r for r in plans if r["usd_per_million_at_speed"] is not None]
    return Figure(
        title=f"cost at {speed:g} tokens/s for each user",
        panels=[
            Panel(
                across="",
                up="$ per million output tokens",
                series=[
                    Series(
                        name=system,
                        kind="bars",
                        x=["\n".join(str(r[key]) for key in ("model", "on", "weights", *keys)) for r in rows],
                        y=[r["usd_per_million_at_speed"] if r["on"] == system else 0.0 for r in rows],
                    )
                    for system in dict.fromkeys(r["on"] for r in rows)
                ],
            )
        ],
        note="every bar is the cheapest deployment of a full search",
    )


def training_memory_figure(facts: Mapping[str, Any]) -> Figure:
    """Memory of an accelerator in training, a bar for each kind, beside its capacity."""
    parts = {name: size / 1e9 for name, size in facts["memory"].items()}
    return Figure(
        title=f"{facts['model']} on {facts['system']}, {facts['layout']}",
        panels=[
            Panel(
                across="",
                up="GB of an accelerator",
                series=[Series(name=name, kind="bars", x=["memory"], y=[size]) for name, size in parts.items()],
            )
        ],
        note=f"capacity {facts['capacity'] / 1e9:.0f} GB",
    )
