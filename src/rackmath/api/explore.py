"""How an answer follows the numbers behind it: elasticities, and curves over one number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, log
from types import MappingProxyType
from typing import Any

import numpy as np

from rackmath.api.answers import answer
from rackmath.api.result import Result
from rackmath.errors import InputError, RackmathError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware.changes import UNITS
from rackmath.io import catalogue
from rackmath.io.changed_names import changed_name

Progress = Callable[[str], None]

OUTCOMES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "EstimateRequest": {
            "time of a step": ("time",),
            "tokens/s per accelerator": ("tokens_per_second_per_gpu",),
            "$ per M tokens": ("usd_per_million_tokens",),
            "J per token": ("energy", "joules_per_token"),
        },
        "PlanRequest": {
            "tokens/s per accelerator": ("best", "tokens_per_second_per_gpu"),
            "time per token": ("best", "time_per_output_token"),
            "$ per M tokens": ("best", "usd_per_million_output_tokens"),
            "J per token": ("energy", "joules_per_token"),
        },
        "TrainRequest": {"days": ("days",), "$": ("usd",), "MFU": ("mfu",), "MWh": ("energy_mwh",)},
        "MemoryRequest": {"tokens of cache": ("cache_tokens",), "requests at once": ("concurrency",)},
    }
)
"""What is followed of the answer to each kind of request, and where its JSON has it."""

_DEPLOYMENT: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "EstimateRequest": (("layout",),),
        "PlanRequest": tuple(("best", key) for key in ("layout", "units", "pools", "weights", "kv", "draft_tokens")),
        "TrainRequest": tuple((key,) for key in ("layout", "context_parallel", "microbatch", "recompute", "sharded")),
        "MemoryRequest": (("layout",),),
    }
)
"""What an answer has chosen: where it differs, outcomes jump."""

_STEP = 1.1
"""Factor by which a number of the hardware is raised and lowered."""
_DOUBLE = 2.0
"""Factor by which a number of the model is raised: widths and counts stay whole."""
_POINTS = 13
"""Of a curve."""
_SHOWN = 12
"""Numbers in the picture of one outcome's elasticities."""
_END = re.compile(r"^(\d+\.?\d*(?:[eE][-+]?\d+)?)\s*(\D*)$")
"""One end of a range: a number and its unit."""


def outcomes(request: Any) -> dict[str, float | None]:
    """What is followed of an answer; None where it has no such number.

    Errors: :class:`InputError` for a kind of request that is not followed; those of the request.
    """
    return _followed(request)[0]


def _followed(request: Any) -> tuple[dict[str, float | None], list[Any]]:
    """Outcomes of an answer, and the deployment that it has chosen."""
    kind = type(request).__name__
    if kind not in OUTCOMES:
        names = ", ".join(name.removesuffix("Request").lower() for name in OUTCOMES)
        raise InputError("COMMAND", kind.removesuffix("Request").lower(), f"explore one of {names}")
    if kind == "PlanRequest" and request.asks_for_size:
        way_out = "the fewest accelerators are not followed: give --gpus, and limits on means alone"
        raise InputError("COMMAND", "plan", way_out)
    facts = answer(request).to_dict()
    values = {name: _number(_at(facts, path)) for name, path in OUTCOMES[kind].items()}
    return values, [_at(facts, path) for path in _DEPLOYMENT[kind]]


def _at(facts: Any, path: Sequence[str]) -> Any:
    for key in path:
        facts = None if facts is None else facts[key]
    return facts


def _number(value: Any) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def changed(request: Any, key: str, value: str) -> Any:
    """A request with one number of its system, or with ``model.`` before it of its model, at another value.

    Errors: :class:`InputError` for a subject that is no name: nothing can be written behind it.
    """
    subject = "model" if key.startswith("model.") else "on"
    name = getattr(request, subject, None)
    if not isinstance(name, str):
        raise InputError(key, value, "name the model and the system: records have no numbers to change by name")
    return replace(request, **{subject: changed_name(name, (key.removeprefix("model."), value))})


def _quiet(text: str) -> None:
    """Say nothing of how far the work is."""


def explore(request: Any, over: str | None = None, progress: Progress | None = None) -> Result:
    """Say which numbers an answer depends on: all elasticities, or the outcomes over one number.

    Parameters
    ----------
    request
        An EstimateRequest, PlanRequest, TrainRequest or MemoryRequest whose model and system are names.
    over
        A number and its range, as ``bandwidth=1x..4x``.
    progress : callable, optional
        What is told how far the work is.

    Errors: :class:`InputError` for other requests and for a text that says no range; those of the request.
    """
    report = progress or _quiet
    return run_elasticities(request, report) if over is None else run_curve(request, over, report)


def run_elasticities(request: Any, progress: Progress = _quiet) -> Result:
    """Elasticity of every outcome to every number of the system and of the model, the strongest first.

    An elasticity is the relative change of an outcome over that of the number: -1 halves the outcome where the number
    doubles. Numbers of the system are moved by a tenth to either side, those of the model doubled.
    Where another deployment is best at such a value, the row says so: its outcomes jump from one to the other.
    Errors: those of the request itself; numbers that it has not, or cannot have otherwise, are named as left out.
    """
    base, deployment = _followed(request)
    rows: list[dict[str, Any]] = []
    left_out: list[dict[str, str]] = []
    keys = [key for key in UNITS if key != "domain"]
    if isinstance(request.model, str):
        keys += [f"model.{name}" for name in catalogue.model_numbers(request.model) if name != "context"]
    for count, key in enumerate(keys):
        progress(f"explore: {count} of {len(keys)} numbers")
        try:
            row = _elasticity(request, key, base, deployment)
        except RackmathError as error:
            left_out.append({"number": key, "reason": str(error)})
            continue
        rows.append({"number": key, **row})
    rows.sort(key=lambda row: -max((abs(row[name]) for name in base if row[name] is not None), default=0.0))
    facts = {"outcomes": base, "elasticities": rows, "left_out": left_out}
    return Result(request=request, facts=facts, draw=lambda: _tornado(request, facts))


def _elasticity(
    request: Any, key: str, base: Mapping[str, float | None], deployment: Sequence[Any]
) -> dict[str, float | bool | None]:
    """Elasticity of each outcome to a number, and whether another deployment is best where it is changed."""
    here = (base, deployment)
    if key.startswith("model."):
        above, below, distance = _followed(changed(request, key, f"{_DOUBLE:g}x")), here, log(_DOUBLE)
    else:
        above, below = (_followed(changed(request, key, f"{factor:.6g}x")) for factor in (_STEP, 1 / _STEP))
        distance = 2 * log(_STEP)
    slopes = {name: _slope(above[0][name], below[0][name], distance) for name in base}
    return {**slopes, "another_deployment": any(side[1] != deployment for side in (above, below))}


def _slope(above: float | None, below: float | None, distance: float) -> float | None:
    if not above or not below or above < 0 or below < 0:
        return None
    slope = log(above / below) / distance
    return 0.0 if abs(slope) < 1e-6 else slope


def run_curve(request: Any, over: str, progress: Progress = _quiet) -> Result:
    """Outcomes over one number, as ``bandwidth=1x..4x``.

    Errors: :class:`InputError` for text that says no range; those of the request at any point.
    """
    key, equals, ends = over.partition("=")
    low, high = (_END.match(end.strip()) for end in ends.partition("..")[::2])
    if not equals or low is None or high is None or low[2] != high[2]:
        raise InputError("--over", over, "write a number and a range, both ends alike, as bandwidth=1x..4x")
    first, last, unit = float(low[1]), float(high[1]), low[2]
    if not 0 < first < last < inf:
        raise InputError("--over", over, "write the smaller end first, both above zero")
    points: list[dict[str, Any]] = []
    for count, value in enumerate(np.geomspace(first, last, _POINTS)):
        progress(f"explore: {count} of {_POINTS} points")
        text = f"{value:.6g}{unit}"
        points.append({"value": text, "number": float(value), **outcomes(changed(request, key.strip(), text))})
    facts = {"over": key.strip(), "points": points}
    return Result(request=request, facts=facts, draw=lambda: _curve(request, facts))


def _title(request: Any) -> str:
    kind = type(request).__name__.removesuffix("Request").lower()
    return f"{kind} {request.model} on {request.on}"


def _tornado(request: Any, facts: Mapping[str, Any]) -> Figure:
    strongest = {name: _strongest(facts["elasticities"], name) for name in facts["outcomes"]}
    panels = [
        Panel(
            across="",
            up="elasticity",
            title=name,
            series=[Series(name=name, x=list(values), y=list(values.values()), kind="horizontal", named=False)],
        )
        for name, values in strongest.items()
        if values
    ]
    note = "relative change of the outcome over that of the number"
    return Figure(title=_title(request), panels=panels, note=note)


def _strongest(rows: Sequence[Mapping[str, Any]], outcome: str) -> dict[str, float]:
    """Numbers that an outcome follows most, the strongest first, with its elasticity to each."""
    slopes = {row["number"]: row[outcome] for row in rows if row[outcome]}
    return dict(sorted(slopes.items(), key=lambda pair: -abs(pair[1]))[:_SHOWN])


def _curve(request: Any, facts: Mapping[str, Any]) -> Figure:
    points = facts["points"]
    names = [name for name in points[0] if name not in ("value", "number")]
    panels = [
        Panel(
            across=facts["over"],
            up=name,
            series=[
                Series(
                    name=name,
                    x=[point["number"] for point in points if point[name] is not None],
                    y=[point[name] for point in points if point[name] is not None],
                    labels=[point["value"] for point in points if point[name] is not None],
                    named=False,
                )
            ],
            log_across=True,
        )
        for name in names
        if any(point[name] is not None for point in points)
    ]
    return Figure(title=_title(request), panels=panels)
