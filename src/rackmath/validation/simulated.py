"""A row under load -> what the simulator is asked to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from rackmath.io import constants_file
from rackmath.models.eagle import EAGLE3
from rackmath.serving.engines import engine_at, launched_max_num_seqs
from rackmath.validation.questions import Question

_SPREAD = 1.0
"""Spread of lengths that vary as in conversations, where the row does not say it. [1]"""


def simulation_fields(q: Question) -> Mapping[str, Any] | None:
    """Fields of a :class:`~rackmath.api.simulation.request.SimulateRequest` that repeats a row.

    None for rows that are not of one pool of equal replicas under requests: passes alone, two pools, limits, training.
    """
    row, d = q.row, q.deployment
    if q.kind not in ("open", "closed", "wave") or d.prefill is not None or d.layer_split:
        return None
    requests = row.num_requests
    fields: dict[str, Any] = {"on": row.hardware, "gpus": round(row.gpus), "layout": d.layout.text()}
    if q.kind == "open":
        fields |= {"poisson": q.rate} | ({"interarrival_cv": 0.0} if row.arrivals == "constant" else {})
    else:
        fields["users"] = round(q.load)
        if q.kind == "wave":
            # All at once, each of whom asks one time.
            requests = round(q.load)
    fields |= {"input": round(q.input, 2), "output": round(q.output, 2), "length_cv": _spread(q)}
    if q.cached_tokens:
        fields["cached_prefix"] = round(min(q.cached_tokens / q.input, 1.0), 4)
    if requests:
        fields["requests"] = round(requests)
    if isfinite(q.max_num_seqs):
        fields["max_num_seqs"] = launched_max_num_seqs(row.family, q.max_num_seqs / d.workers, d.layout)
    if row.gpu_memory_utilization is not None:
        fields["gpu_memory_utilization"] = row.gpu_memory_utilization
    if isfinite(q.max_num_batched_tokens):
        fields["max_num_batched_tokens"] = round(q.max_num_batched_tokens)
    if q.looks > 1:
        fields["scheduler_recv_interval"] = round(q.looks)
    if q.draft_tokens:
        fields |= _drafts(q)
    if row.family in constants_file.FAMILIES:
        fields["engine"] = row.family
    return fields | {"year": round(row.when, 2)}


def _drafts(q: Question) -> Mapping[str, Any]:
    """What drafts: the model's own layers, else a head of EAGLE where the row says so, else a source without a cost."""
    draft_tokens = {"draft_tokens": round(q.draft_tokens)}
    if q.architecture.mtp:
        return draft_tokens
    if q.draft is not None:
        return draft_tokens | {"draft_model": EAGLE3}
    acceptance = constants_file.scheduling_of(engine_at(q.system.chip, q.row.family, q.row.when)).acceptance
    return draft_tokens | {"acceptance": f"{acceptance:.4g}"}


def _spread(q: Question) -> float:
    if q.row.length_cv is not None:
        return q.row.length_cv
    return _SPREAD if q.varied else 0.0


def command(model: str, fields: Mapping[str, Any]) -> str:
    """The command line of ``rackmath simulate`` with such fields."""
    options = " ".join(f"--{name.replace('_', '-')} {_text(value)}" for name, value in fields.items())
    return f"rackmath simulate {model} {options}"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e5 else str(value)
