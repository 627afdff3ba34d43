"""What a run says of requests that were refused because a queue was full."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.simulation.request import SimulateRequest
from rackmath.errors import InputError
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.workload import Arrivals


def check_limit(r: SimulateRequest, work: Arrivals) -> None:
    """Refuse a queue limit where it has no meaning.

    Errors: :class:`InputError` for tasks, and for pools of which only one has a queue.
    """
    if r.max_queued_requests is None:
        return
    if work.task is not None:
        way_out = "nobody knows what a task does without one of its answers: leave it out for sessions and agents"
        raise InputError("--max-queued-requests", r.max_queued_requests, way_out)
    for field, value in (("--prefill-gpus", r.prefill_gpus), ("--encoder-gpus", r.encoder_gpus)):
        if value:
            way_out = f"leave it out beside {field}: SGLang limits the queue of servers that do all of a request"
            raise InputError("--max-queued-requests", r.max_queued_requests, way_out)


def refusals(r: SimulateRequest, outcome: Outcome, counted_requests: NDArray[np.intp]) -> dict[str, Any]:
    """Requests that were refused, their part of those that count, and how many had tokens of their answer already.

    Empty for a queue without a limit.
    """
    if r.max_queued_requests is None:
        return {}
    is_refused = ~outcome.answered
    return {
        "refused": {
            "requests": int(is_refused.sum()),
            "share": float(is_refused[counted_requests].mean()),
            "with_tokens": int((is_refused & np.isfinite(outcome.requests["first"])).sum()),
        }
    }
