"""Questions of one model, system, engine and kind, as arrays that one broadcast answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.layout import stack_layouts
from rackmath.hardware import System
from rackmath.io import kernel_files
from rackmath.models.architecture import Architecture
from rackmath.serving import Pool
from rackmath.serving.engines import micro_batch_tokens
from rackmath.training import TrainingRun
from rackmath.validation.questions import Question

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WITHOUT_QUEUES = ("train", "decode", "prefill", "static")
"""Kinds of rows that no requests wait for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Questions of one model on one system and of one kind, as arrays; a fit reads each of them thousands of times."""

    architecture: Architecture
    system: System
    kind: str
    questions: tuple[Question, ...]
    index: NDArray[np.int64]
    """Their places among all questions."""
    _arrays: dict[str, Array] = field(default_factory=dict[str, Array], init=False, repr=False)

    def array(self, name: str) -> Array:
        """One number of every question."""
        if name not in self._arrays:
            numbers = np.array([getattr(q, name) for q in self.questions], dtype=float)
            numbers.setflags(write=False)
            self._arrays[name] = numbers
        return self._arrays[name]

    @cached_property
    def quantities(self) -> dict[str, Ints]:
        """Places of the questions that ask for each quantity."""
        names = np.array([q.quantity for q in self.questions])
        return {str(name): np.flatnonzero(names == name) for name in np.unique(names)}

    @cached_property
    def latency(self) -> NDArray[np.bool_]:
        """Whether each question asks for seconds of a pass, and not for tokens per second."""
        return np.array([q.quantity == "latency" for q in self.questions])

    @cached_property
    def kernels(self) -> Kernels:
        """Curves of the system's kernels in the engine of the questions."""
        return kernel_files.kernels(self.system.chip, self.questions[0].row.family)

    @cached_property
    def layout(self) -> Layout:
        """Layouts of the workers that write answers."""
        return stack_layouts([q.deployment.layout for q in self.questions])

    @cached_property
    def workers(self) -> Array:
        """Workers of that layout."""
        return np.array([q.deployment.workers for q in self.questions], dtype=float)

    @cached_property
    def two_batch(self) -> Array:
        """1 where expert exchange overlaps computation: two half-batches, or training; else 0."""
        return np.array([float(q.deployment.two_batch or q.kind == "train") for q in self.questions])

    @cached_property
    def draft(self) -> Architecture | None:
        """Head that drafts the tokens of all questions, or of none."""
        return self.questions[0].draft

    @cached_property
    def prompts(self) -> Pool:
        """Workers that read prompts, where they stand apart."""
        pools = [(q.deployment.prefill or q.deployment.layout, q.deployment.prefill_workers) for q in self.questions]
        return Pool(layout=stack_layouts([p[0] for p in pools]), workers=np.array([p[1] for p in pools], dtype=float))

    @cached_property
    def training(self) -> TrainingRun:
        """Training runs that the questions ask about."""
        runs = [q.run for q in self.questions if q.run is not None]
        names = [f.name for f in fields(TrainingRun) if f.name != "layout"]
        numbers = {name: np.array([getattr(run, name) for run in runs], dtype=float) for name in names}
        return TrainingRun(layout=self.layout, **numbers)

    @property
    def piece(self) -> float:
        """Tokens of the pieces in which prompts pass the stages of a pipeline. [tokens]"""
        return micro_batch_tokens(self.questions[0].row.family)


def groups(questions: Sequence[Question]) -> list[Group]:
    """Sort questions into groups that one broadcast can answer."""
    members: defaultdict[tuple[int, str, str, str, bool], list[int]] = defaultdict(list)
    for i, q in enumerate(questions):
        members[id(q.architecture), q.system.name, q.kind, q.row.family, q.draft is not None].append(i)
    return [
        Group(
            architecture=questions[places[0]].architecture,
            system=questions[places[0]].system,
            kind=key[2],
            questions=tuple(questions[i] for i in places),
            index=np.array(places),
        )
        for key, places in members.items()
    ]
