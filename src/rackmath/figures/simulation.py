"""A simulation as a figure: load, work, waits over time, and what users see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rackmath.figures.record import Figure, Moment, Panel, Series
from rackmath.serving.simulator.outcome import Replay, RequestTimes
from rackmath.serving.simulator.tasks import Tasks
from rackmath.units import show

SHOWN = 64
"""Replicas that the replay shows at most."""
_DOING = ("waiting", "reading prompts", "writing answers")


def replay_panel(replay: Replay) -> Panel:
    """Requests of every replica, at any moment of the run; first at the one with the most."""
    count = replay.waiting.shape[0]
    bars = [values[:SHOWN] for values in (replay.waiting, replay.reading, replay.writing)]
    names = [str(r + 1) for r in range(min(count, SHOWN))]
    start = int(np.sum(bars, axis=(0, 1)).argmax())
    more = "" if count <= SHOWN else f", the first {SHOWN} of {count}"
    return Panel(
        title="replay: requests of each replica",
        across=f"replica{more}",
        up="requests",
        series=[
            Series(name=name, x=names, y=values[:, start].tolist(), kind="bars")
            for name, values in zip(_DOING, bars, strict=True)
        ],
        moments=[
            Moment(label=show(float(t), "s"), values=[values[:, i].tolist() for values in bars])
            for i, t in enumerate(replay.time)
        ],
        moment=start,
    )


def simulation_figure(
    facts: Mapping[str, Any],
    over: Mapping[str, Any],
    times: RequestTimes,
    replay: Replay,
    tasks: Tasks | None = None,
) -> Figure:
    """Load and queue over time, what each replica does, and the distribution of what users wait for."""
    shares = np.concatenate((np.linspace(0.01, 0.9, 60), np.linspace(0.9, 0.999, 40)))

    def quantiles(values: Any, name: str) -> Series:
        finite_values = values[np.isfinite(values)]
        return Series(name=name, x=list(np.quantile(finite_values, shares)), y=list(100 * shares))

    moments = list(over["time"])
    waits = [quantiles(times.first, "to the first token"), quantiles(times.whole, "to the last token")]
    series = [
        Series(name=name.removeprefix("cached_share_"), x=moments, y=list(100 * over[name]))
        for name in over
        if name.startswith("cached_share_")
    ]
    prompt_hits = [Panel(title="prompts found, by tier", across="s", up="% of their tokens", series=series)]
    if np.isfinite(times.per_token).any():
        waits.append(quantiles(times.per_token, "per token"))
    if tasks is not None:
        waits.append(quantiles(tasks.whole, "of a task (% of tasks)"))
    return Figure(
        title=f"{facts['requests']:,} requests to {facts['model']} on {facts['system']}",
        panels=[
            Panel(
                title="requests in the fleet",
                across="s",
                up="requests",
                series=[
                    Series(name="decoding", x=moments, y=list(over["decoding"])),
                    Series(name="waiting", x=moments, y=list(over["waiting"])),
                ],
            ),
            Panel(
                title="work",
                across="s",
                up="per second",
                series=[
                    Series(name="tokens written", x=moments, y=list(over["tokens_per_second"])),
                    Series(name="requests arriving", x=moments, y=list(over["arrivals"])),
                ],
                log_up=True,
            ),
            Panel(
                title="time to the first token, by arrival",
                across="s",
                up="s",
                series=[Series(name=f"p{p}", x=moments, y=list(over[f"first_p{p}"]), kind="points") for p in (50, 99)],
                log_up=True,
            ),
            Panel(title="what users see", across="s", up="% of requests", series=waits, log_across=True),
            replay_panel(replay),
            *(prompt_hits if facts["blocks_asked"] else []),
        ],
        note="; ".join(facts["assumptions"][:3]),
    )
