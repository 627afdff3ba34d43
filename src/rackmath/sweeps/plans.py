"""Plans side by side: one row per model, system, formats, and whatever else is swept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rackmath import catalogue
from rackmath.constants_file import DEFAULT_ENGINE, NOW
from rackmath.errors import DoesNotFit, InputError
from rackmath.serving.choice import describe
from rackmath.serving.search import search
from rackmath.serving.variants import supported
from rackmath.sweeps.asked import Asked, asked, names
from rackmath.units import parse

NUMBERS = (
    "gpus",
    "input",
    "output",
    "ttft",
    "tpot",
    "cached-prefix",
    "rate",
    "year",
    "usd-per-gpu-hour",
    "speed",
    "cost",
)
TEXTS = ("model", "on", "weights", "kv", "drafted", "acceptance", "draft-model", "engine")
"""Inputs that can be swept, by the names of their options."""

DEFAULTS: Mapping[str, Any] = {
    "ttft": None,
    "tpot": None,
    "cached-prefix": 0.0,
    "rate": None,
    "weights": None,
    "kv": None,
    "drafted": None,
    "acceptance": None,
    "draft-model": None,
    "one-pool": False,
    "bill-used": False,
    "engine": DEFAULT_ENGINE,
    "year": NOW,
    "usd-per-gpu-hour": None,
    "basis": "any",
    "ideal": False,
    "speed": 50.0,
    "cost": None,
}

FEW = 8
"""Plans that take less time than starting processes for them."""

_AT_SPEED = ("usd_per_million_at_speed", "tokens_per_second_per_gpu_at_speed", "batch_at_speed")
_SCHEMA = {
    **dict.fromkeys((*TEXTS, "best_layout", "reason"), str),
    **dict.fromkeys((*NUMBERS, *_AT_SPEED), float),
    **dict.fromkeys(("low_at_speed", "high_at_speed", "speed_at_cost", "fastest", "most_per_gpu", "evaluated"), float),
}
"""Columns of a row, with their types."""


def swept(text: str) -> tuple[str, list[Any]]:
    """``key=a,b,c`` -> the key and its values.

    Errors: :class:`InputError` for keys that no input has and values that are no numbers.
    """
    key, _, values = text.partition("=")
    key = key.strip().lstrip("-")
    if key not in (*NUMBERS, *TEXTS):
        raise InputError("--sweep", text, f"write key=a,b,c with a key of {', '.join((*TEXTS, *NUMBERS))}")
    parts = [part.strip() for part in values.split(",") if part.strip()]
    if not parts:
        raise InputError("--sweep", text, "give at least one value")
    if key in TEXTS:
        return key, parts
    try:
        return key, [_number(key, part) for part in parts]
    except InputError as error:
        raise InputError("--sweep", text, "the values of this key are numbers") from error


def _number(key: str, text: str) -> float:
    return parse(text, "s" if key in ("ttft", "tpot") else "1", "--sweep")


def cases(given: Mapping[str, Any], sweeps: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of what is swept, in order; formats that the chip has where none are named.

    Errors: :class:`InputError` for unknown models and systems, before any work is done.
    """
    for values in itertools.product(*sweeps.values()):
        case = {**DEFAULTS, **given, **dict(zip(sweeps, values, strict=True))}
        architecture, system = catalogue.model(case["model"]), catalogue.system(case["on"])
        if case["weights"] is None:
            own = dict.fromkeys(v.weights for v in supported(architecture, system.chip))
            yield from ({**case, "weights": name} for name in own)
        else:
            yield from ({**case, "weights": name} for name in names(case["weights"], "--weights"))


def row(case: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one case: cost at the asked speed, speed at the asked cost, or the reason for neither.

    Errors: :class:`InputError` for numbers out of range.
    """
    question = asked(
        case["model"],
        case["on"],
        {
            **{key.replace("-", "_"): value for key, value in case.items()},
            "gpus": int(case["gpus"]),
            "input_": case["input"],
            "as_ideal": case["ideal"],
        },
    )
    found = dict.fromkeys(_SCHEMA)
    found |= {key: case[key] for key in (*NUMBERS, *TEXTS)}
    try:
        system = question.system
        comparable = case["basis"] in ("any", system.price_basis) or case["usd-per-gpu-hour"] is not None
        found |= _points(question, case["speed"], case["cost"], question.price if comparable else None)
    except DoesNotFit as error:
        found["reason"] = str(error)
    return {name: None if found[name] is None else kind(found[name]) for name, kind in _SCHEMA.items()}


def _points(question: Asked, speed: float, cost: float | None, price: float | None) -> dict[str, Any]:
    result = search(
        question.system, question.work, question.limits, question.space, question.losses, question.scheduling
    )
    p = result.points
    inside = np.flatnonzero(p.time_to_first_token <= question.limits.time_to_first_token)
    if not len(inside):
        shortest = float(p.time_to_first_token.min())
        return {"evaluated": result.evaluated, "reason": f"the first token takes at least {shortest:.3g} s"}
    speeds, per_gpu = 1 / p.time_per_output_token[inside], p.per_gpu[inside] * question.work.output
    dollars = None if price is None else price / per_gpu * 1e6
    found: dict[str, Any] = {
        "evaluated": result.evaluated,
        "fastest": float(speeds.max()),
        "most_per_gpu": float(per_gpu.max()),
    }
    quick = np.flatnonzero(speeds >= speed)
    if len(quick):
        best = int(quick[np.argmax(per_gpu[quick])])
        low, high = question.range("throughput")
        found |= {
            "tokens_per_second_per_gpu_at_speed": float(per_gpu[best]),
            "batch_at_speed": float(p.batch[inside[best]]),
            "best_layout": describe(result.layouts, p, int(inside[best])),
        }
        if dollars is not None:
            at = float(dollars[best])
            found |= {"usd_per_million_at_speed": at, "low_at_speed": at / high, "high_at_speed": at / low}
    else:
        found["reason"] = f"no deployment writes {speed:g} tokens/s for a user"
    if cost is not None and dollars is not None:
        cheap = speeds[dollars <= cost]
        found["speed_at_cost"] = float(cheap.max()) if len(cheap) else None
    return found
