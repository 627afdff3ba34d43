"""Search over deployments: every sensible one is evaluated, as arrays.

A point is a deployment with a batch. The time of a decode step at that batch comes from
the engine; the balance of a closed loop turns it into the number of users at which that batch is
the steady one, what they see, and what the deployment delivers. No point is iterated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.encoders import encoded_apart
from rackmath.serving.engine_limits import verifies_drafts
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.experts_apart import with_experts_apart
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.points import Corrections, Points, joined, undominated_in_groups
from rackmath.serving.pools import two_pools
from rackmath.serving.prompts import turns_of
from rackmath.serving.renting import rented, requests_per_billed
from rackmath.serving.search_grid import BATCHES, Grid, grid_of, options_of
from rackmath.serving.search_waits import loop_of_batch
from rackmath.serving.steady import prompts_first
from rackmath.serving.waits import reads_in_time
from rackmath.serving.workload import Limits, PlanWorkload, Space, Variant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """Result of :func:`search`."""

    points: Points
    """Undominated points of every layout, and the best of each under the limits."""
    layouts: tuple[Layout, ...]
    evaluated: int
    """Points whose time, throughput and memory were computed."""
    fitting: int
    """Those of them that fit in memory and have a steady state."""
    corrections: Corrections | None = None
    """What measurements near each point say, where they were asked."""


def search(
    system: System, work: PlanWorkload, limits: Limits, space: Space, losses: Losses | None, scheduling: Scheduling
) -> SearchResult:
    """Evaluate all sensible deployments of a model.

    Parameters
    ----------
    system : System
        What is there to deploy on.
    work, limits, space
        Requests, what users accept, and the choices.
    losses : Losses, optional
        What separates the engine from the bound; None for the bound.
    scheduling : Scheduling
        How the engine mixes prompts and answers.

    Errors: :class:`DoesNotFit` where no deployment holds the weights and one request, or
    serves the rate of requests.
    """
    parts: list[Points] = []
    layouts: list[Layout] = []
    count = fitting = 0
    for place, variant, apart in _ways(space):
        grid = grid_of(system, work, space, variant, losses, scheduling)
        if grid is None:
            continue
        start = len(layouts)
        layouts += grid.layouts
        pool, n, good = _one_pool(grid, work, space, scheduling)
        count, fitting = count + n, fitting + good
        pool = encoded_apart(pool, system, space, apart, losses)
        rates = requests_per_billed(pool, work, space)
        frontier = undominated_in_groups(pool, rates, limits.time_to_first_token, pool.layout)
        parts.append(_placed(pool.taken(frontier), place, start))
        if space.pools:
            decode, prefill = options_of(grid, space, scheduling)
            if space.afd:
                decode = with_experts_apart(decode, system, work, space, variant.architecture, losses)
                layouts += decode.layouts[len(grid.layouts) :]
            pooled_points, n, good = two_pools(
                system, work, limits, space, variant.architecture, decode, prefill, scheduling
            )
            count, fitting = count + n, fitting + good
            parts.append(_placed(encoded_apart(pooled_points, system, space, apart, losses), place, start))
    points = joined(parts)
    if not len(points):
        way_out = "use more --gpus, narrower --weights or --kv, or shorter prompts"
        if min(space.draft_tokens) > 0 and not all(verifies_drafts(space.engine, layout) for layout in layouts):
            way_out += f"; or --draft-tokens 0: {space.engine} verifies none in stages or where ranks share a context"
        reason = f"no deployment on up to {space.gpus} accelerators of {system.name} holds the model and one request"
        raise DoesNotFit(reason, way_out)
    deployments, _ = rented(points, work, space)
    return SearchResult(points=deployments, layouts=tuple(layouts), evaluated=count, fitting=fitting)


def _ways(space: Space) -> Iterator[tuple[int, Variant, Architecture | None]]:
    """Places of variants, what workers run, and the model whose images other accelerators encode, if any do."""
    for place, variant in enumerate(space.variants):
        yield place, variant, None
        if space.pools and variant.architecture.images is not None:
            yield place, replace(variant, architecture=replace(variant.architecture, images=None)), variant.architecture


def _one_pool(grid: Grid, work: PlanWorkload, space: Space, s: Scheduling) -> tuple[Points, int, int]:
    """Points where the same accelerators read prompts and write answers, all layouts at once."""
    shape = (len(grid.layouts), len(BATCHES), len(space.draft_tokens), len(space.chunks))
    batch = BATCHES[None, :, None, None]
    groups = grid.groups[:, None, None, None]
    draft_tokens = np.array(space.draft_tokens)[None, None, :, None]
    load = Load(
        concurrency=batch,
        input=work.input,
        output=work.output,
        cached_tokens=work.input - work.read,
        draft_tokens=draft_tokens,
        max_num_batched_tokens=np.array(space.chunks),
        turns=turns_of(grid.stages[:, None, None, None], micro_batch_tokens(space.engine)),
    )
    step = grid.step[..., None]
    beside = s.mixed * np.maximum(grid.beside, grid.start - step)
    beside = beside + (1 - s.mixed) * prompts_first(grid.beside, load, batch / groups, s)
    times = PassTimes(step, grid.full[:, None, None, :], grid.first[:, None, None, :], beside)
    tpot, first, users = loop_of_batch(times, np.asarray(batch), load, groups, s)
    good = reads_in_time(times, batch, tpot, load, groups, s) & (users <= grid.capacity[:, None, None, :])
    good = np.broadcast_to(good & grid.drafted[:, None, :, None], shape)
    at = np.nonzero(good)
    units = np.floor(space.gpus / grid.gpus)[at[0]]
    tpot_at, first_at, users_at = (np.broadcast_to(x, shape)[at] for x in (tpot, first, users))
    points = Points(
        variant=np.zeros(len(at[0]), dtype=np.int64),
        layout=at[0],
        prefill=np.full(len(at[0]), -1),
        workers=np.ones(len(at[0])),
        prefill_workers=np.zeros(len(at[0])),
        units=units,
        encoders=np.zeros(len(at[0])),
        batch=BATCHES[at[1]],
        chunk=np.array(space.chunks)[at[3]],
        decode_chunk=np.array(space.chunks)[at[3]],
        draft_tokens=np.array(space.draft_tokens)[at[2]],
        concurrency=users_at,
        gpus=units * grid.gpus[at[0]],
        billed=units * grid.gpus[at[0]],
        reading=np.zeros(len(at[0])),
        rate=units * users_at / (first_at + work.output * tpot_at),
        time_to_first_token=first_at,
        time_per_output_token=tpot_at,
    )
    return points, int(np.prod(shape)), len(points)


def _placed(points: Points, variant: int, start: int) -> Points:
    return replace(
        points,
        variant=np.full(len(points), variant, dtype=np.int64),
        layout=points.layout + start,
        prefill=np.where(points.prefill >= 0, points.prefill + start, -1),
    )
