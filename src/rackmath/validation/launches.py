"""How a public benchmark starts an engine, where that decides what its rows measure."""

from __future__ import annotations

import re

_INFERENCEX = re.compile(r"inference(x|max)", re.IGNORECASE)

_CROWDED = 16.0
"""Users from which InferenceX lets SGLang look less often. [requests]"""

_SPARSE = {"blackwell": (10.0, 30.0), "cdna3": (4.0, 4.0), "cdna4": (4.0, 4.0)}
"""Steps between SGLang's looks at new requests, for few users and for many, by generation of chip: on Blackwell
``--scheduler-recv-interval``, on Instinct ``--num-continuous-decode-steps``. Others keep the default of 1. Source:
SemiAnalysisAI/InferenceX, benchmarks/single_node, as of 2026."""


def looks(family: str, generation: str, users: float, spread: bool, origin: str) -> float:
    """Steps from one look of an engine at new requests to the next. [steps]

    Parameters
    ----------
    family, generation : str
        Of the engine and of the chip.
    users : float
        Requests in the system. [requests]
    spread : bool
        Whether attention is data-parallel: the engine's processes then meet at every step.
    origin : str
        Where a row is from: its source and its notes.
    """
    if family != "sglang" or spread or not _INFERENCEX.search(origin):
        return 1.0
    few, many = _SPARSE.get(generation, (1.0, 1.0))
    return many if users >= _CROWDED else few
