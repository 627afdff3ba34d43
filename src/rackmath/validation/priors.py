"""What is fitted: every constant of every generation, family and stage that rows can tell about.

Base values come from the table of terms. Moves are drawn to none, all moves of one constant along
one axis (generations, families, stages) by one width, which the fit estimates from the rows: where
members do not differ, their moves vanish, and a member without rows keeps the base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.constants import inward
from rackmath.engine.kernel_curves import TIMED
from rackmath.engine.term import PART
from rackmath.engine.terms import TERMS
from rackmath.validation.fit import Prior
from rackmath.validation.questions import Question

FEWEST = 12
"""Rows of a member below which it gets no move of its own."""

PART_WIDTH = 0.7
"""Width of moves of parts before any row is seen, on their log-odds: from 0.8 to 0.67 or 0.89."""

FREE_WIDTH = 0.7
"""The same of kernels where no timings are: engines and chips that the tables do not hold."""

_KERNELS = {
    "compute": ("product.wide",),
    "memory": ("product.wide", "attention.decode"),
    "prompt_attention": ("attention.prompt",),
    "grouped": ("experts.",),
}
"""Terms that stand for kernels -> kernels that have to be timed; where a name ends with a point, one kind of it."""
_NO_ENGINE = "other"
"""Family of rows that name no engine: what one of them is says nothing of the others."""


def priors(questions: Sequence[Question], timed_kernels: Mapping[str, frozenset[str]]) -> tuple[Prior, ...]:
    """All constants with their priors, on the inner scale.

    Parameters
    ----------
    questions : sequence of Question
        Rows of the fit.
    timed_kernels : mapping
        Generations with kernel timings -> kinds of kernels that were timed.
    """
    rows = [
        Prior(name=t.name, kind="base", member="", axis="", centre=inward(t.centre, t.scale), width=t.width)
        for t in TERMS
    ]
    inferring = _members([q for q in questions if q.kind != "train"])
    for axis, members in _members(questions).items():
        for t in TERMS:
            if axis not in t.axes:
                continue
            for member in members:
                is_timed = _is_timed(t.name, timed_kernels.get(member)) if axis == "generation" else member in TIMED
                free = t.name in _KERNELS and axis != "stage" and not is_timed
                if is_timed and (t.name in _KERNELS or (t.name, axis) == ("own_kernels", "family")):
                    # Kernels of engines and chips with timings are as they were timed.
                    continue
                if t.name == "compute" and member not in inferring[axis]:
                    # Where all rows are of training, ``sustained`` says the same.
                    continue
                rows.append(
                    Prior(
                        name=t.name,
                        kind="move",
                        member=member,
                        axis=f"{axis} free" if free else axis,
                        centre=0.0,
                        width=FREE_WIDTH if free else PART_WIDTH if t.scale == PART else t.spread,
                    )
                )
    return tuple(rows)


def _is_timed(term: str, kinds: frozenset[str] | None) -> bool:
    """Whether a generation has timings of all kernels that a term stands for, of any where it stands for none."""
    if kinds is None:
        return False
    kernel_names = _KERNELS.get(term, ())
    return all(
        any(kind == name or (name.endswith(".") and kind.startswith(name)) for kind in kinds) for name in kernel_names
    )


def has_place(questions: Sequence[Question], timed_kernels: Collection[str]) -> NDArray[np.bool_]:
    """Whether what a row's chip lacks of other chips' kernels has a place: timings, or moves of its generation.

    Rows of a generation with neither would move what all others share. (questions,)
    """
    generations = set(timed_kernels) | set(_members(questions)["generation"])
    return np.array([q.system.chip.generation in generations for q in questions])


def _members(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Generations, families and stages with rows enough, most rows first."""
    counts = {
        "generation": Counter(q.system.chip.generation for q in questions),
        "family": Counter(q.row.family for q in questions),
        "stage": Counter(q.row.stage for q in questions),
    }
    return {axis: [m for m, n in c.most_common() if _is_a_kind(m) and n >= FEWEST] for axis, c in counts.items()}


def _is_a_kind(member: str) -> bool:
    return member not in ("", _NO_ENGINE)
