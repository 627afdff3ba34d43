"""How many sequences a deployment can hold at once."""

from __future__ import annotations

import numpy as np

from rackmath.engine.layout import Layout, as_floats
from rackmath.engine.sharding import USABLE, memory
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum


def largest_batch(
    architecture: Architecture, system: System, layout: Layout, *, context: Number, tokens: Number
) -> Number:
    """Sequences of ``context`` tokens that fit beside the weights; 0 where not one does. [sequences]

    Parameters
    ----------
    context : Number
        Tokens that a sequence holds. [tokens]
    tokens : Number
        Tokens of the largest pass, for which activations are set aside. [tokens]

    Over all data-parallel groups and pipeline stages. Broadcasts.
    """
    wide = as_floats(layout)
    none = memory(architecture, wide, 0.0, context * 1.0, tokens * 1.0, system.chip.memory_capacity)
    one = memory(architecture, wide, 1.0, context * 1.0, 0.0, system.chip.memory_capacity)
    free = USABLE * none.capacity - none.weights - none.activations
    each = maximum(one.cache + one.activations, 1.0)
    return wide.data * np.floor(maximum(free, 0.0) / each)
