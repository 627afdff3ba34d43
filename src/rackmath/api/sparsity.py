"""How sparse a model should be for a number of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.lists import numbers
from rackmath.api.result import Result
from rackmath.api.subjects import system_of
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.formats import weight_format
from rackmath.serving.sparsity import cost_by_sparsity
from rackmath.training.routed import LAWS, equivalent_active, total_size, within_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsityRequest:
    """Mixtures as good as a dense model, and numbers of users."""

    on: Annotated[str | System, options.SYSTEM]
    dense: Annotated[
        float, Option(help="Parameters of the dense model whose quality is to be kept.", kind=kinds.NUMBER)
    ]
    users: Annotated[str, Option(help="Users at a time, several with commas.")] = "1,100,1000,10000,100000"
    experts: Annotated[str, Option(help="Numbers of experts to try.")] = "1,2,4,8,16,32,64,128,256,512"
    router: Annotated[str, Option(help="Law of routed models.", kind=kinds.choice(*sorted(LAWS)))] = "s-base"
    weights: Annotated[str, options.WEIGHTS.but(help="Format of the weights.")] = "fp8"
    context: Annotated[float, Option(help="Tokens of a request.", kind=kinds.NUMBER)] = 8192.0
    kv_bytes: Annotated[float, Option(help="Cache bytes per token.", kind=kinds.BYTES)] = 70000.0

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_sparsity(r: SparsityRequest) -> Result:
    """Find the mixture of least cost among those worth one dense model, for each number of users.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    system, form, law = system_of(r.on), weight_format(r.weights), LAWS[r.router]
    if not 1e6 <= r.dense <= 1e15 or not 0 < r.context <= 1e9 or not 0 < r.kv_bytes <= 1e9:
        raise InputError("--dense", r.dense, "write 1e6 to 1e15 parameters, and positive --context and --kv-bytes")
    users = numbers(r.users, "--users", 1, 1e9)
    expert_counts = numbers(r.experts, "--experts", 1, 1e6)
    actives = [float(equivalent_active(r.dense, e, law)) for e in expert_counts]
    totals = [float(total_size(a, e)) for a, e in zip(actives, expert_counts, strict=True)]
    cost = cost_by_sparsity(system, totals, actives, users, form, context=r.context, kv_bytes_per_token=r.kv_bytes)
    ratio = system.chip.ratio(form.compute)
    models = [
        {
            "experts": e,
            "active_params": a,
            "total_params": t,
            "memory_share": t * form.bytes_per_element / system.domain_capacity,
            "balance_batch": ratio * t / a,
            "within_fit": within_fit(a, e),
            "gpu_seconds": cost.gpu_seconds[i],
            "time": cost.time[i],
        }
        for i, (e, a, t) in enumerate(zip(expert_counts, actives, totals, strict=True))
    ]
    facts = {
        "system": system.name,
        "router": r.router,
        "dense_params": r.dense,
        "users": users,
        "models": models,
        "best_experts": [None if b is None else expert_counts[b] for b in cost.best],
    }
    return Result(request=r, facts=facts, details=(models, users))
