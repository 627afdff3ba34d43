"""How two runs of the simulator on the same draws differ, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.api.simulation.report import QUANTITIES
from rackmath.serving.simulator.paired import COMPARED, paired_half_width


def differences(base: Mapping[str, Any], changed_run: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a second run has more than a first, by quantity and statistic: ``value`` and ``half_width``. [s]

    ``half_width`` is that of the 95 % interval, None where the runs are too short to tell it. None for runs that were
    not made, or whose traffic is not request for request the same.
    """
    if "error" in base or "error" in changed_run or base["requests"] != changed_run["requests"]:
        return None
    warm = max(base["warm_up_requests"] or 0, changed_run["warm_up_requests"] or 0) / base["requests"]
    result: dict[str, Any] = {}
    for key in (*QUANTITIES, *(["task_time"] if "tasks" in base else [])):
        first, second = (facts["tasks"]["time"] if key == "task_time" else facts[key] for facts in (base, changed_run))
        if first is None or second is None:
            result[key] = None
            continue
        stretches = base["stretches"][key], changed_run["stretches"][key]
        result[key] = {
            p: {
                "value": second[p] - first[p],
                "half_width": paired_half_width(*stretches, p, warm) if all(stretches) else None,
            }
            for p in COMPARED
        }
    return result
