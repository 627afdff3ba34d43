"""Workers that write answers with routed experts on accelerators of their own (attention-FFN disaggregation)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.capacity import largest_batch
from rackmath.engine.layout import apart_layouts, stack_layouts
from rackmath.engine.timer import engine_timer
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.pools import DecodeOptions
from rackmath.serving.workload import PlanWorkload, Space


def with_experts_apart(
    decode: DecodeOptions,
    system: System,
    work: PlanWorkload,
    space: Space,
    architecture: Architecture,
    losses: Losses | None,
) -> DecodeOptions:
    """The same options, and behind them those of layouts of as many accelerators some of which hold experts only.

    Prompts are read elsewhere: experts of their own serve steps of many sequences, and engines offer them for those.
    """
    context = work.input + work.output
    sizes = sorted({int(gpus) for gpus in decode.gpus})
    layouts = [x for gpus in sizes if gpus <= space.largest_unit for x in apart_layouts(architecture, gpus)]
    if not layouts:
        return decode
    room = largest_batch(
        architecture,
        system,
        stack_layouts(layouts, 2),
        context=context,
        tokens=np.array(space.chunks),
        draft=space.draft,
    )
    fitting = [n for n, many in enumerate(np.asarray(room).max(axis=1)) if many >= layouts[n].data]
    if not fitting:
        return decode
    fitting_layouts = [layouts[n] for n in fitting]
    timer = engine_timer(architecture, system, losses, draft=space.draft)
    draft_tokens = np.array(space.draft_tokens)[None, None, :]
    step = timer(
        "decode",
        stack_layouts(fitting_layouts, 3),
        decode.batches[None, :, None],
        work.input + work.output / 2,
        draft_tokens,
    )
    return replace(
        decode,
        layouts=[*decode.layouts, *fitting_layouts],
        gpus=np.concatenate([decode.gpus, _sizes(fitting_layouts)]),
        step=np.concatenate([decode.step, np.broadcast_to(step, (len(fitting_layouts), *decode.step.shape[1:]))]),
        capacity=np.concatenate([decode.capacity, np.asarray(room)[fitting]]),
        drafted=np.concatenate([decode.drafted, np.ones((len(fitting_layouts), decode.drafted.shape[1]), dtype=bool)]),
        kind=np.concatenate([decode.kind, np.zeros(len(fitting_layouts), dtype=decode.kind.dtype)]),
    )


def _sizes(layouts: list[Layout]) -> np.ndarray:
    return np.array([float(x.gpus) for x in layouts])
