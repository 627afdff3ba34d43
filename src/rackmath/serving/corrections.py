"""A search's frontier and what is near it, corrected by measurements near each point.

A search is corrected as a whole: one factor on all steps and one on all prompts. What is shown, and what could take its
place, has factors of its own: of its formats, layout, load and drafts. Times per output token and to the first token
are multiplied by them and never fall under the bound; what follows from both is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.layout import stack_layouts
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.serving.choice import frontier, runners_up, within
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.load import Scheduling
from rackmath.serving.points import Array, Corrections, Ints, Points
from rackmath.serving.renting import most_units, rented, repeated
from rackmath.serving.search import SearchResult, search
from rackmath.serving.startup.held import held_as_launched
from rackmath.serving.workload import Limits, PlanWorkload, Space

Corrector = Callable[[Points, Sequence[Layout]], Corrections]
"""Says what measurements near points say."""

_SLACK = 1.3
"""Times by which a point may miss a limit, or the frontier's throughput, and still be looked at again."""
_BANDS = 16
"""Bands of speed that are looked at apart."""
_MOST = 24
"""Points of a band."""
_FAMILIES = 40
"""Other deployments whose best point is looked at again."""

_BUSY = 0.95
"""Part of their time that workers may read prompts where they did less before they were corrected. [1]"""


def searched(
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    losses: Losses | None,
    scheduling: Scheduling,
    correct: Corrector | None = None,
) -> SearchResult:
    """Search all deployments; with ``correct``, those at and near the frontier with factors of their own.

    Arguments as of :func:`~rackmath.serving.search.search`.
    Errors: :class:`DoesNotFit` where nothing fits, or serves the rate of requests.
    """
    answer = search(system, work, limits, space, losses, scheduling)
    if correct is None or losses is None:
        return answer
    return corrected(answer, system, work, limits, space, losses, correct)


def corrected(
    result: SearchResult,
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    losses: Losses,
    correct: Corrector,
) -> SearchResult:
    """Points of a search at and near its frontier, with factors of their own.

    Parameters
    ----------
    result : SearchResult
        Its points are computed with the factors in ``losses``.
    correct : callable
        Says what measurements near points say.

    Errors: :class:`DoesNotFit` where no point serves the rate of requests, or fits, once it is corrected.
    """
    points = result.points.taken(_near_frontier(result.points, limits))
    factors = correct(points, result.layouts)
    steps, prompts = _bounded(points, result, system, work, space, losses, factors)
    points = _repeated(points, work, space, steps, prompts)
    fitting = points.concurrency * (1 - 1e-9) <= _room(points, result, system, work, space)
    if not fitting.any():
        raise DoesNotFit(
            "no deployment holds the requests that it would have in flight at the speeds that were measured",
            "use more --gpus or shorter prompts, or --no-evidence for what is computed alone",
        )
    points, factors = points.taken(fitting), factors.taken(fitting)
    deployments, enough = rented(points, work, space)
    return replace(result, points=deployments, corrections=factors.taken(enough))


def _near_frontier(points: Points, limits: Limits) -> Ints:
    """Places of points on the frontier, near it in every band of speed, and of the best of other deployments."""
    soft = Limits(
        time_to_first_token=limits.time_to_first_token * _SLACK,
        time_per_output_token=limits.time_per_output_token,
    )
    inside = np.flatnonzero(points.time_to_first_token <= soft.time_to_first_token)
    if not len(inside):
        inside = np.arange(len(points))
    inside = inside[np.argsort(points.time_per_output_token[inside], kind="stable")]
    gain, cost = points.per_gpu[inside], points.time_per_output_token[inside]
    behind = np.maximum.accumulate(gain) / gain
    fastest, slowest = float(cost[0]), float(cost[-1])
    # Bands of equal width on a logarithm.
    close = np.flatnonzero(behind <= _SLACK)
    band = np.floor(_BANDS * np.log(cost[close] / fastest) / np.log(max(slowest / fastest, 1 + 1e-9)))
    order = np.lexsort((behind[close], band))
    sorted_band: Array = band[order]
    rank = np.arange(len(order)) - np.asarray(np.searchsorted(sorted_band, sorted_band))
    places = [inside[close[order[rank < _MOST]]], frontier(points, limits)]
    keeping = np.flatnonzero(within(points, soft))
    if len(keeping):
        winner = int(keeping[np.argmax(points.per_gpu[keeping])])
        places.append(np.array([winner, *runners_up(points, soft, winner, _FAMILIES)]))
    return np.unique(np.concatenate(places))


def _bounded(
    points: Points,
    result: SearchResult,
    system: System,
    work: PlanWorkload,
    space: Space,
    losses: Losses,
    factors: Corrections,
) -> tuple[Array, Array]:
    """Times per output token and to the first token with factors of their own, never under the bound. [s]"""
    steps = points.time_per_output_token * factors.decode / losses.correction.get("decode", 1.0)
    prompts = points.time_to_first_token * factors.prefill / losses.correction.get("prefill", 1.0)
    reading = np.where(points.prefill < 0, points.layout, points.prefill)
    for place, variant in enumerate(space.variants):
        at = np.flatnonzero(points.variant == place)
        if not len(at):
            continue
        step = estimate(
            variant.architecture,
            system,
            _stacked(result, points.layout[at]),
            batch=points.batch[at],
            context=work.input + work.output / 2,
            draft_tokens=points.draft_tokens[at],
            draft=space.draft,
            losses=losses,
        )
        prompt = estimate(
            variant.architecture,
            system,
            _stacked(result, reading[at]),
            batch=1.0,
            context=work.input,
            cached_tokens=work.cached_prefix * work.input,
            piece=micro_batch_tokens(space.engine),
            phase="prefill",
        )
        bound = points.time_per_output_token[at] * np.asarray(step.time_ideal / step.time)
        steps[at] = np.maximum(steps[at], bound)
        prompts[at] = np.maximum(prompts[at], np.asarray(prompt.time))
    return steps, prompts


def _repeated(points: Points, work: PlanWorkload, space: Space, steps: Array, prompts: Array) -> Points:
    """Points at other times per output token and to the first token, on as many units as there is room for. [s]"""
    faster = points.time_per_output_token / steps
    # Workers that read prompts keep up, if not to the last of their time.
    busy = points.reading * prompts / points.time_to_first_token
    keeping_up = np.maximum(points.reading, _BUSY) / np.where(busy > 0, busy, 1.0)
    faster = np.where(busy > 0, np.minimum(faster, keeping_up), faster)
    whole = prompts + work.output * steps
    two_pools = points.workers * points.batch / (work.output * points.time_per_output_token) * faster
    # In one pool as many users keep the same batch, however long a step takes.
    unit = np.where(points.prefill < 0, points.concurrency / whole, two_pools)
    own_gpus = (points.gpus - points.encoders) / points.units
    units, encoders = most_units(float(space.gpus), own_gpus, points.encoders / points.units * faster)
    # Slower encoders wait longer rather than take what the deployment runs on.
    encoders = np.minimum(encoders, np.floor(space.gpus - units * own_gpus))
    return replace(
        repeated(points, units, own_gpus, encoders, unit),
        concurrency=unit * whole,
        time_to_first_token=prompts,
        time_per_output_token=steps,
    )


def _room(points: Points, result: SearchResult, system: System, work: PlanWorkload, space: Space) -> Array:
    """Requests that fit in one unit; of two pools those in flight anywhere are not counted against memory."""
    room = np.full(len(points), np.inf)
    for place, variant in enumerate(space.variants):
        at = np.flatnonzero((points.variant == place) & (points.prefill < 0))
        if len(at):
            used_layouts, layout = np.unique(points.layout[at], return_inverse=True)
            budgets, budget = np.unique(points.chunk[at], return_inverse=True)
            layouts = [result.layouts[int(i)] for i in used_layouts]
            context = work.input + work.output
            sequences = held_as_launched(variant.architecture, system, layouts, budgets.tolist(), space.server, context)
            room[at] = sequences[layout, budget]
    return room


def _stacked(result: SearchResult, places: Ints) -> Layout:
    """Layouts of points as one. (points,)"""
    return stack_layouts([result.layouts[int(i)] for i in places])
