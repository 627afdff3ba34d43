"""Plans side by side: one row per model, system, formats, and whatever else is swept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api import kinds, options
from rackmath.api.fields import Field, fields_of
from rackmath.api.kinds import Kind
from rackmath.api.lists import names
from rackmath.api.plan_energy import energy_of_point
from rackmath.api.plan_question import PERCENTILE_LIMITS, PlanQuestion, PlanRequest, question_of
from rackmath.engine.layout import parse_layout
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.serving.choice import describe
from rackmath.serving.corrections import searched
from rackmath.serving.search import SearchResult
from rackmath.serving.variants import supported


def field_key(field: Field) -> str:
    """What a sweep calls a field: its option without hyphens before it."""
    return field.name if field.option.argument else field.names[0].lstrip("-")


_OWN: Mapping[str, Kind] = {"speed": kinds.SPEED, "cost": kinds.NUMBER, "layout": kinds.TEXT}
"""Inputs of a comparison beside those of a plan: cost at this speed, speed at this cost, layout of one copy."""
_NUMERIC = (kinds.NUMBER, kinds.SECONDS, kinds.TIME_PER_TOKEN, kinds.SPEED, kinds.REQUEST_RATE, options.GPUS.kind)
"""Kinds that a table keeps as numbers."""
_NOT_SWEPT = (
    "grid", "one_pool", "bill_used", "ideal", "no_evidence",
    *map("_".join, PERCENTILE_LIMITS),
)  # fmt: skip
"""Choices of a plan that stay as they are by default, and limits of a search that a comparison does not make."""
_FIELDS: Mapping[str, Kind] = {
    field_key(field): field.option.kind for field in fields_of(PlanRequest) if field.name not in _NOT_SWEPT
} | dict(_OWN)
KEYS = tuple(_FIELDS)
"""Inputs that can be swept, by the names of their options."""
DEFAULTS: Mapping[str, Any] = {
    **{field_key(field): field.default for field in fields_of(PlanRequest) if not field.required},
    "basis": "any",
    "speed": 50.0,
    "cost": None,
    "layout": None,
}

_ROUNDING = 1e-9
"""Part by which sums of equal numbers differ. [1]"""
FEW = 8
"""Plans that take less time than starting processes for them."""

_AT_SPEED = (
    "usd_per_million_at_speed", "tokens_per_second_per_gpu_at_speed", "batch_at_speed", "joules_per_token_at_speed",
)  # fmt: skip
_SCHEMA = {
    **{key: float if kind in _NUMERIC else str for key, kind in _FIELDS.items()},
    **dict.fromkeys(("best_layout", "reason"), str),
    **dict.fromkeys(_AT_SPEED, float),
    **dict.fromkeys(("low_at_speed", "high_at_speed", "speed_at_cost", "fastest", "most_per_gpu", "evaluated"), float),
}
"""Columns of a row, with their types."""


def swept(text: str, option: str = "--sweep") -> tuple[str, list[Any]]:
    """``key=a,b,c`` -> the key and its values; layouts, which have commas themselves, with semicolons between.

    Errors: :class:`InputError` for keys that no input has and values that are no numbers.
    """
    key, _, values = text.partition("=")
    key = key.strip().lstrip("-")
    if key not in KEYS:
        raise InputError(option, text, f"write key=a,b,c with a key of {', '.join(KEYS)}")
    parts = [part.strip() for part in values.split(";" if key == "layout" else ",") if part.strip()]
    if not parts:
        raise InputError(option, text, "give at least one value")
    try:
        return key, [_FIELDS[key].read(part, option) for part in parts]
    except InputError as error:
        raise InputError(option, text, f"values of this key are read as {_FIELDS[key].name}") from error


def cases(axes: Mapping[str, Any], sweeps: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of what is swept, in order; formats that the chip has where none are named.

    Errors: :class:`InputError` for unknown models and systems, before any work is done.
    """
    for values in itertools.product(*sweeps.values()):
        case = {**DEFAULTS, **axes, **dict(zip(sweeps, values, strict=True))}
        architecture, system = catalogue.model(case["model"]), catalogue.system(case["on"])
        if case["weights"] is None:
            formats = dict.fromkeys(v.weights for v in supported(architecture, system.chip, family=case["engine"]))
            yield from ({**case, "weights": name} for name in formats)
        else:
            yield from ({**case, "weights": name} for name in names(case["weights"], "--weights"))


def row(case: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one case: cost at the asked speed, speed at the asked cost, or the reason for neither.

    Errors: :class:`InputError` for numbers out of range.
    """
    fields = {f.name: case[field_key(f)] for f in fields_of(PlanRequest) if field_key(f) in case}
    question = question_of(PlanRequest(**fields))
    facts = dict.fromkeys(_SCHEMA) | {key: case[key] for key in KEYS}
    try:
        system = question.system
        comparable = case["basis"] in ("any", system.price_basis) or case["usd-per-gpu-hour"] is not None
        facts |= _points(question, case, question.price if comparable else None)
    except DoesNotFit as error:
        facts["reason"] = str(error)
    return {name: None if facts[name] is None else kind(facts[name]) for name, kind in _SCHEMA.items()}


def _of_layout(q: PlanQuestion, search: SearchResult, text: str) -> NDArray[np.bool_]:
    """Which points are copies of one layout that read and write. (points,)

    Errors: :class:`InputError` for a text that is no layout.
    """
    layout_text = parse_layout(text, None, q.architecture).text()
    is_layout = np.array([layout.text() == layout_text for layout in search.layouts])
    return is_layout[search.points.layout] & (search.points.prefill < 0)


def _points(question: PlanQuestion, case: Mapping[str, Any], price: float | None) -> dict[str, Any]:
    q, speed, cost = question, case["speed"], case["cost"]
    # The limits of the plan that this row stands for: which points are corrected together depends on them.
    limits = replace(q.limits, time_per_output_token=min(q.limits.time_per_output_token, 1 / speed))
    result = searched(q.system, q.work, limits, q.space, q.losses, q.scheduling, q.correct)
    p = result.points
    inside = np.flatnonzero(p.time_to_first_token <= question.limits.time_to_first_token)
    if not len(inside):
        shortest = float(p.time_to_first_token.min())
        return {"evaluated": result.evaluated, "reason": f"the first token takes at least {shortest:.3g} s"}
    if case["layout"] is not None:
        inside = inside[_of_layout(q, result, case["layout"])[inside]]
        if not len(inside):
            return {"evaluated": result.evaluated, "reason": f"no deployment with copies of {case['layout']} fits"}
    speeds, per_gpu = 1 / p.time_per_output_token[inside], p.per_gpu[inside] * question.work.output
    dollars = None if price is None else price / per_gpu * 1e6
    facts: dict[str, Any] = {
        "evaluated": result.evaluated,
        "fastest": float(speeds.max()),
        "most_per_gpu": float(per_gpu.max()),
    }
    quick = np.flatnonzero(speeds >= speed)
    if len(quick):
        # Of deployments that are equal but for rounding, which differs between processors, the first.
        best = int(quick[per_gpu[quick] >= (1 - _ROUNDING) * per_gpu[quick].max()][0])
        low, high = question.range_at(result, int(inside[best]), "throughput")
        facts |= {
            "tokens_per_second_per_gpu_at_speed": float(per_gpu[best]),
            "batch_at_speed": float(p.batch[inside[best]]),
            "joules_per_token_at_speed": (energy_of_point(question, result, int(inside[best])) or {}).get(
                "joules_per_token"
            ),
            "best_layout": describe(result.layouts, p, int(inside[best])),
        }
        if dollars is not None:
            at = float(dollars[best])
            facts |= {"usd_per_million_at_speed": at, "low_at_speed": at / high, "high_at_speed": at / low}
    else:
        facts["reason"] = f"no deployment writes {speed:g} tokens/s for a user"
    if cost is not None and dollars is not None:
        cheap = speeds[dollars <= cost]
        facts["speed_at_cost"] = float(cheap.max()) if len(cheap) else None
    return facts
