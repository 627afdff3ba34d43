"""What a run says of its tasks: how long they take, what they wait for, what they cost, what caches keep of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.simulation.setup import Setup
from rackmath.serving.simulator.balance import Balance, balance
from rackmath.serving.simulator.outcome import STATISTICS, spread
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.tasks import Tasks, prefix_reuse, task_times

_FEWEST = 30
"""Tasks that must be left for the first and last ones to be left out."""


def tasks_of_run(setup: Setup, outcomes: tuple[Outcome, ...]) -> Tasks | None:
    """What became of each task; None for traffic without tasks."""
    if setup.work.task is None:
        return None
    return task_times(setup.work, outcomes[-1], setup.groups[0].batching.outside)


def task_rates(tasks: Tasks) -> Balance:
    """Whether tasks end as fast as they begin; requests of a task do not come by themselves, and cannot tell."""
    return balance(tasks.begins, tasks.begins, tasks.begins + tasks.whole, np.ones(len(tasks.whole), np.int32))


def task_facts(
    setup: Setup, outcomes: tuple[Outcome, ...], tasks: Tasks | None, dollars: float | None
) -> dict[str, Any]:
    """Statistics of tasks, under the key ``tasks``; empty for traffic without.

    Parameters
    ----------
    dollars : float or None
        Of the whole run. [USD]
    """
    if tasks is None:
        return {}
    rates = task_rates(tasks)
    steady_tasks = steady_part(tasks)
    times = {
        name: asdict(statistics)
        for name in ("whole", "service", "queueing", "tools")
        if (statistics := spread(getattr(tasks, name)[steady_tasks])) is not None
    }
    return {
        "tasks": {
            "count": len(tasks.whole),
            "in_statistics": len(steady_tasks),
            "offered_rate": rates.offered,
            "served_rate": rates.served,
            "growth": rates.growth,
            "steady": rates.steady,
            "requests": float(tasks.requests.mean()),
            "input_tokens": float(tasks.prompt.mean()),
            "output_tokens": float(tasks.output.mean()),
            "cached_share": float(tasks.cached_tokens.sum() / tasks.prompt.sum()),
            "time": times["whole"],
            "service_time": times["service"],
            "queueing_time": times["queueing"],
            "tool_time": times["tools"],
            "prefix_reuse": prefix_reuse(setup.work, outcomes[0]) if len(setup.work.start) else {},
            "usd": None if dollars is None else dollars / len(tasks.whole),
        }
    }


def steady_part(tasks: Tasks) -> NDArray[np.intp]:
    """Tasks that ran among as many others as most did, not at the start of the run or beyond its traffic.

    The first ones and the last ones are left out, those that began within the median time of a task from either end;
    all count where that would leave too few.
    """
    order = np.argsort(tasks.begins, kind="stable")
    begins, typical = tasks.begins[order], float(np.median(tasks.whole))
    inside = order[(begins >= begins[0] + typical) & (begins <= begins[-1] - typical)]
    return inside if len(inside) >= _FEWEST else order


def with_task_range(facts: dict[str, Any], low: Mapping[str, Any], high: Mapping[str, Any]) -> None:
    """Write the ends of the range beside what they are ends of."""
    for key in ("time", "service_time", "queueing_time", "tool_time"):
        for name in STATISTICS:
            facts[key][f"{name}_range"] = [low[key][name], high[key][name]]
    if facts["usd"] is not None:
        facts["usd_range"] = sorted((low["usd"], high["usd"]))
