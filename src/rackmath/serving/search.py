"""Search over deployments: every sensible one is evaluated, as arrays.

A point is a deployment with a batch. The time of a decode step at that batch comes from
the engine; Little's law turns it into the number of users at which that batch is the
steady one, what they see, and what the deployment delivers. No point is iterated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.layout import stack_layouts
from rackmath.engine.timer import Timer, engine_timer
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.serving.encoders import encoded_apart
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.experts_apart import with_experts_apart
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.points import Array, Corrections, Points, joined, undominated_in_groups
from rackmath.serving.pools import DecodeOptions, PrefillOptions, two_pools
from rackmath.serving.prompts import images_time, reading_time, time_beside
from rackmath.serving.renting import rented, requests_per_billed
from rackmath.serving.search_waits import tokens_of_steps, until_begun_of_users
from rackmath.serving.waits import (
    prompts_met,
    prompts_of_a_step,
    reads_in_time,
    started,
    time_per_output_token,
)
from rackmath.serving.worker_layouts import layouts_that_hold
from rackmath.serving.workload import Limits, PlanWorkload, Space, Variant

BATCHES = np.unique(np.round(2 ** (np.arange(0, 57) / 4)))
"""Sequences in a step of one worker: four per doubling, 1 to 16,384. [sequences]"""


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
        grid = _grid(system, work, space, variant, losses, scheduling)
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
            decode, prefill = _options(grid, scheduling)
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
        raise DoesNotFit(
            f"no deployment on up to {space.gpus} accelerators of {system.name} holds the model and one request",
            "use more --gpus, narrower --weights or --kv, or shorter prompts",
        )
    deployments, _ = rented(points, work, space)
    return SearchResult(points=deployments, layouts=tuple(layouts), evaluated=count, fitting=fitting)


def _ways(space: Space) -> Iterator[tuple[int, Variant, Architecture | None]]:
    """Places of variants, what workers run, and the model whose images other accelerators encode, if any do."""
    for place, variant in enumerate(space.variants):
        yield place, variant, None
        if space.pools and variant.architecture.images is not None:
            yield place, replace(variant, architecture=replace(variant.architecture, images=None)), variant.architecture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grid:
    """Times of all layouts of one variant, over batches, drafts and chunks."""

    layouts: list[Layout]
    gpus: Array
    groups: Array
    """Data-parallel groups. (layouts,)"""
    step: Array
    """Time of a decode step. (layouts, batches, drafts) [s]"""
    alone: Array
    """Time of one prompt alone. (layouts, chunks) [s]"""
    first: Array
    """The same as a first token waits for it: no shorter than the host takes to start it. (layouts, chunks) [s]"""
    full: Array
    """Time of one prompt in a full pass. (layouts, chunks) [s]"""
    beside: Array
    """What a prompt adds to mixed steps; none where none are. (layouts, batches, drafts, chunks) [s]"""
    start: Number
    """Time in which the host starts a step that is no replayed graph. [s]"""
    together: Array
    """Prompts in a full pass. (chunks,)"""
    capacity: Array
    """Sequences that fit. (layouts, chunks)"""


def _grid(
    system: System, work: PlanWorkload, space: Space, variant: Variant, losses: Losses | None, s: Scheduling
) -> _Grid | None:
    """Times of all layouts that hold the variant; None where none does."""
    a = variant.architecture
    layouts, capacity = layouts_that_hold(a, system, work, space)
    if not layouts:
        return None
    piece = micro_batch_tokens(space.engine)
    timer = engine_timer(a, system, losses, draft=space.draft, piece=piece)
    deep, flat = stack_layouts(layouts, 3), stack_layouts(layouts, 2)
    draft_tokens, chunks = np.array(space.draft_tokens), np.array(space.chunks)
    alone, full, together = reading_time(flat, work.input, work.input - work.read, chunks, timer, piece=piece)
    shape = (len(layouts), len(chunks))
    alone = np.broadcast_to(np.asarray(alone), shape)
    images = images_time(a, flat, timer)
    return _Grid(
        layouts=layouts,
        gpus=np.array([float(x.gpus) for x in layouts]),
        groups=np.array([float(x.data) for x in layouts]),
        step=np.asarray(
            timer("decode", deep, BATCHES[None, :, None], work.input + work.output / 2, draft_tokens[None, None, :])
        ),
        alone=alone + images,
        first=np.asarray(started(alone, a, s, np.minimum(work.read, chunks), np.ceil(work.read / chunks)) + images),
        full=np.broadcast_to(np.asarray(full + images_time(a, flat, timer, together)), shape),
        beside=_beside(stack_layouts(layouts, 4), work, draft_tokens, chunks, timer, s, piece)
        + s.mixed * images_time(a, stack_layouts(layouts, 4), timer),
        start=np.asarray(
            started(0.0, a, s, tokens_of_steps(BATCHES, stack_layouts(layouts, 4), work, draft_tokens, chunks))
        ),
        together=np.broadcast_to(np.asarray(together), chunks.shape),
        capacity=capacity,
    )


def _beside(
    layout: Layout,
    work: PlanWorkload,
    draft_tokens: Array,
    chunks: Array,
    timer: Timer,
    s: Scheduling,
    piece: float,
) -> Array:
    """What a prompt adds to mixed steps: at every second batch, and between them on lines over its logarithm."""
    if not np.any(s.mixed):
        return np.zeros((1, 1, 1, 1))
    coarse = BATCHES[::2]
    drafts, batch = draft_tokens[:, None], coarse[:, None, None]
    arriving = prompts_of_a_step(batch, work.output, drafts, layout.data, s)
    before = work.input - work.read
    tokens = batch * (1 + drafts)
    prompt_cost = np.asarray(time_beside(layout, work.input, before, chunks, tokens, arriving, timer, piece))
    place = np.clip(np.searchsorted(coarse, BATCHES, side="right") - 1, 0, len(coarse) - 2)
    part = (np.log(BATCHES / coarse[place]) / np.log(coarse[place + 1] / coarse[place]))[:, None, None]
    return prompt_cost[:, place] * (1 - part) + prompt_cost[:, place + 1] * part


def _one_pool(grid: _Grid, work: PlanWorkload, space: Space, s: Scheduling) -> tuple[Points, int, int]:
    """Points where the same accelerators read prompts and write answers, all layouts at once."""
    shape = (len(grid.layouts), len(BATCHES), len(space.draft_tokens), len(space.chunks))
    batch = BATCHES[None, :, None, None]
    groups = grid.groups[:, None, None, None]
    draft_tokens = np.array(space.draft_tokens)[None, None, :, None]
    # Passes fill up only where enough requests finish at a time.
    is_full = batch / groups >= grid.together
    prompt = np.where(is_full, grid.full[:, None, None, :], grid.alone[:, None, None, :])
    load = Load(
        concurrency=batch,
        input=work.input,
        output=work.output,
        cached_tokens=work.input - work.read,
        draft_tokens=draft_tokens,
        max_num_batched_tokens=np.array(space.chunks),
    )
    step = grid.step[..., None]
    beside = s.mixed * np.maximum(grid.beside, grid.start - step) + (1 - s.mixed) * prompt
    times = PassTimes(step, prompt, grid.first[:, None, None, :], beside)

    def settled(users: Array) -> tuple[Array, Array, Array]:
        tpot = np.asarray(time_per_output_token(times, batch, users, load, groups, s))
        busy = work.output * tpot
        # A service that runs has no burst of a benchmark's start: as many as write an answer in the mean.
        unmet = np.asarray(s.arrival + times.alone + prompts_met(times, batch, busy, load, groups))
        first = unmet + until_begun_of_users(np.asarray(step), batch / groups, unmet / busy, busy, load, s)
        return tpot, first, np.asarray(batch * (busy + first) / busy)

    # How many users there are says how many prompts one of them meets, which says how long he is answered.
    tpot, first, users = settled(settled(np.asarray(np.inf))[-1])
    good = reads_in_time(times, batch, tpot, load, groups, s) & (users <= grid.capacity[:, None, None, :])
    good = np.broadcast_to(good, shape)
    at = np.nonzero(good)
    units = np.floor(space.gpus / grid.gpus)[at[0]]
    tpot_at = np.broadcast_to(np.asarray(tpot), shape)[at]
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
        concurrency=np.broadcast_to(users, shape)[at],
        gpus=units * grid.gpus[at[0]],
        billed=units * grid.gpus[at[0]],
        reading=np.zeros(len(at[0])),
        rate=units * BATCHES[at[1]] / (work.output * tpot_at),
        time_to_first_token=np.broadcast_to(np.asarray(first), shape)[at],
        time_per_output_token=tpot_at,
    )
    return points, int(np.prod(shape)), len(points)


def _options(grid: _Grid, s: Scheduling) -> tuple[DecodeOptions, PrefillOptions]:
    """The same times, read as those of pools that only write or only read."""
    return (
        DecodeOptions(
            layouts=grid.layouts,
            gpus=grid.gpus,
            batches=BATCHES,
            step=grid.step,
            capacity=grid.capacity,
            scheduling=s,
        ),
        PrefillOptions(
            layouts=grid.layouts,
            gpus=grid.gpus,
            groups=grid.groups,
            prompt=grid.full,
            alone=grid.first,
            capacity=grid.capacity,
        ),
    )


def _placed(points: Points, variant: int, start: int) -> Points:
    return replace(
        points,
        variant=np.full(len(points), variant, dtype=np.int64),
        layout=points.layout + start,
        prefill=np.where(points.prefill >= 0, points.prefill + start, -1),
    )
