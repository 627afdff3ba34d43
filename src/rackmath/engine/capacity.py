"""How many sequences a deployment can hold at once."""

from __future__ import annotations

import numpy as np

from rackmath.engine.layout import Layout, as_floats, draft_layout
from rackmath.engine.sharding import USABLE, memory
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum


def largest_batch(
    architecture: Architecture,
    system: System,
    layout: Layout,
    *,
    context: Number,
    tokens: Number,
    draft: Architecture | None = None,
) -> Number:
    """Sequences of ``context`` tokens that fit beside the weights; 0 where not one does. [sequences]

    Parameters
    ----------
    context : Number
        Tokens that a sequence holds. [tokens]
    tokens : Number
        Tokens of the largest pass, for which activations are set aside. [tokens]
    draft : Architecture, optional
        Model that drafts beside it, with a cache of its own.

    Over all data-parallel groups and pipeline stages. Broadcasts.
    """
    wide = as_floats(layout)
    empty_memory = memory(architecture, wide, 0.0, context * 1.0, tokens * 1.0, system.chip.usable_memory)
    single = memory(architecture, wide, 1.0, context * 1.0, 0.0, system.chip.usable_memory)
    weights, cache = empty_memory.weights, single.cache
    if draft is not None:
        beside = memory(draft, draft_layout(draft, wide), 1.0, context * 1.0, 0.0, system.chip.usable_memory)
        weights, cache = weights + beside.weights, cache + beside.cache
    free = USABLE * empty_memory.capacity - weights - empty_memory.activations
    per_sequence = maximum(cache + single.activations, 1.0)
    hold = np.less_equal(empty_memory.experts, USABLE * empty_memory.capacity) * 1.0
    return wide.data * hold * np.floor(maximum(free, 0.0) / per_sequence)
