"""Times of all layouts of a model, over batches, drafts and chunks: what a search reads its points from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.layout import stack_layouts
from rackmath.engine.timer import Timer, engine_timer
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.serving.engine_limits import pools_alike, pools_in_stages, verifies_drafts
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.load import Load, Scheduling
from rackmath.serving.points import Array, Mask
from rackmath.serving.pools import DecodeOptions, PrefillOptions
from rackmath.serving.prompts import images_time, reading_time, turns_of
from rackmath.serving.search_waits import tokens_of_steps
from rackmath.serving.steady import added_by_prompt
from rackmath.serving.waits import in_turn, started
from rackmath.serving.worker_layouts import layouts_that_hold
from rackmath.serving.workload import PlanWorkload, Space, Variant

BATCHES = np.unique(np.round(2 ** (np.arange(0, 57) / 4)))
"""Sequences in a step of one worker: four per doubling, 1 to 16,384. [sequences]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Times of all layouts of one variant, over batches, drafts and chunks."""

    architecture: Architecture
    layouts: list[Layout]
    gpus: Array
    groups: Array
    """Data-parallel groups. (layouts,)"""
    stages: Array
    """Stages of the pipeline. (layouts,)"""
    step: Array
    """Time of a decode step. (layouts, batches, drafts) [s]"""
    first: Array
    """Time of a prompt alone, no shorter than the host takes to start it. (layouts, chunks) [s]"""
    full: Array
    """Time of one prompt in a full pass. (layouts, chunks) [s]"""
    together: Array
    """Prompts in a full pass. (layouts, chunks)"""
    long: Mask
    """Whether a prompt is read in several pieces. (chunks,)"""
    beside: Array
    """What decode steps wait for a prompt, before the host and other stages. (layouts, batches, drafts, chunks) [s]"""
    start: Number
    """Time in which the host starts a step that is no replayed graph. [s]"""
    capacity: Array
    """Sequences that fit. (layouts, chunks)"""
    drafted: Mask
    """Whether the engine verifies so many drafts in the layout. (layouts, drafts)"""


def grid_of(
    system: System, work: PlanWorkload, space: Space, variant: Variant, losses: Losses | None, s: Scheduling
) -> Grid | None:
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
    stages = np.array([float(x.pipeline) for x in layouts])
    return Grid(
        architecture=a,
        layouts=layouts,
        gpus=np.array([float(x.gpus) for x in layouts]),
        groups=np.array([float(x.data) for x in layouts]),
        stages=stages,
        step=np.asarray(
            timer("decode", deep, BATCHES[None, :, None], work.input + work.output / 2, draft_tokens[None, None, :])
        ),
        first=np.asarray(started(alone, a, s, np.minimum(work.read, chunks), np.ceil(work.read / chunks)) + images),
        full=np.broadcast_to(np.asarray(full + images_time(a, flat, timer, together)), shape),
        together=np.broadcast_to(np.asarray(together), shape),
        long=work.read > chunks,
        beside=_beside(a, stack_layouts(layouts, 4), work, draft_tokens, chunks, timer, s, piece),
        start=np.asarray(
            started(0.0, a, s, tokens_of_steps(BATCHES, stack_layouts(layouts, 4), work, draft_tokens, chunks))
        ),
        capacity=capacity,
        drafted=verifies_drafts(space.engine, flat) | (draft_tokens == 0),
    )


def _beside(
    architecture: Architecture,
    layout: Layout,
    work: PlanWorkload,
    draft_tokens: Array,
    chunks: Array,
    timer: Timer,
    s: Scheduling,
    piece: float,
) -> Array:
    """What a prompt adds to steps: at every second batch, and between them on lines over its logarithm."""
    coarse = BATCHES[::2]
    load = Load(
        concurrency=np.inf,
        input=work.input,
        output=work.output,
        cached_tokens=work.input - work.read,
        draft_tokens=draft_tokens[:, None],
        max_num_batched_tokens=chunks,
        piece=piece,
    )
    prompt_cost = np.asarray(added_by_prompt(architecture, layout, load, coarse[:, None, None], timer, s))
    place = np.clip(np.searchsorted(coarse, BATCHES, side="right") - 1, 0, len(coarse) - 2)
    part = (np.log(BATCHES / coarse[place]) / np.log(coarse[place + 1] / coarse[place]))[:, None, None]
    return prompt_cost[:, place] * (1 - part) + prompt_cost[:, place + 1] * part


def options_of(grid: Grid, space: Space, s: Scheduling) -> tuple[DecodeOptions, PrefillOptions]:
    """The same times, read as those of pools that only write or only read, in layouts that the engine has there."""
    plain = grid.stages[:, None] == 1
    flat, a = stack_layouts(grid.layouts, 1), grid.architecture
    kind = np.array([int(x.tensor) for x in grid.layouts]) * pools_alike(space.engine, a)
    # Who looks drafts up in the text needs nothing of the pool that reads prompts.
    may_draft = np.broadcast_to(verifies_drafts(space.engine, flat) | (space.draft is None and not a.mtp), kind.shape)
    prefill, decode = (np.where(plain | in_stages, grid.capacity, 0.0) for in_stages in pools_in_stages(space.engine))
    return (
        DecodeOptions(
            layouts=grid.layouts,
            gpus=grid.gpus,
            batches=BATCHES,
            step=grid.step,
            capacity=decode,
            drafted=grid.drafted,
            kind=kind,
            scheduling=s,
        ),
        PrefillOptions(
            layouts=grid.layouts,
            gpus=grid.gpus,
            groups=grid.groups,
            prompt=np.asarray(in_turn(grid.full, s)),
            alone=grid.first,
            together=grid.together,
            stages=np.where(
                grid.long, 1.0, np.asarray(turns_of(grid.stages[:, None], micro_batch_tokens(space.engine)))
            ),
            capacity=prefill,
            drafted=may_draft,
            kind=kind,
        ),
    )
