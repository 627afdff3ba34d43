"""Sizes that stand in a model's name, against its counts: a guard against a config that was read as another model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rackmath.models.architecture import Architecture
from rackmath.models.counts import active_params, embedding_params, encoder_params, params_by_role, total_params

TOLERANCE = 0.1
"""Part by which a count may be off what the name says, or half a unit of its last digit, whichever is more. [1]"""

_SIZE = re.compile(r"(?<![a-z0-9.])(?P<active>a?)(?P<number>\d+(?:[._]\d+)?)(?P<unit>[bmt])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_PER_EXPERT = re.compile(r"(?<![a-z0-9])\d+x\d", re.IGNORECASE)
"""8x7B names experts, not a sum of parameters."""


@dataclass(frozen=True, slots=True)
class StatedSize:
    """One size in a name."""

    text: str
    params: float
    half_unit: float
    active: bool


def stated_sizes(name: str) -> Iterator[StatedSize]:
    """Sizes that a name states, as in 816B-A42B; none where it names experts."""
    leaf = name.rsplit("/", maxsplit=1)[-1]
    if _PER_EXPERT.search(leaf):
        return
    for match in _SIZE.finditer(leaf):
        number = match["number"].replace("_", ".")
        unit = _UNITS[match["unit"].lower()]
        digits = len(number.partition(".")[2])
        yield StatedSize(match[0], float(number) * unit, 0.5 * unit / 10**digits, bool(match["active"]))


def size_warnings(architecture: Architecture) -> tuple[str, ...]:
    """Say where a count disagrees with the model's own name, and what may be wrong."""
    total, active, embedding = total_params(architecture), active_params(architecture), embedding_params(architecture)
    actives = (active, active - embedding, active - embedding - params_by_role(architecture).get("head", 0.0))
    totals = (total, total - embedding, total + encoder_params(architecture))
    warnings: list[str] = []
    for size in stated_sizes(architecture.name):
        # Some names state the active size alone, or first.
        counts = actives if size.active else (*totals, *actives)
        near = max(TOLERANCE * size.params, size.half_unit)
        # Others, as gemma-7b, leave the embedding out and round down.
        is_cut = 0 <= total - embedding - size.params < 2 * size.half_unit
        if is_cut or any(abs(count - size.params) <= near for count in counts):
            continue
        noun = "active parameters" if size.active else "parameters"
        value = active if size.active else total
        warnings.append(
            f"the name says {size.text}, the config counts {value / 1e9:.4g} billion {noun}: the config may be of"
            " another model, trimmed, or read as another kind; do not trust what follows from it"
        )
    return tuple(warnings)
