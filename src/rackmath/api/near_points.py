"""What measurements near the points of a plan say of each: one solution for each set of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.api.near import configuration_of, factors_of
from rackmath.api.near_service import QUESTIONS
from rackmath.engine import Layout
from rackmath.evidence.configurations import Configuration
from rackmath.evidence.posterior import FAR
from rackmath.evidence.subjects import layout_text
from rackmath.hardware import System
from rackmath.serving.points import Array, Corrections, Mask, Points
from rackmath.serving.workload import PlanWorkload, Space

CLASSES = ("time per token", "first token", "throughput")
"""Classes of measurements that ranges of points come from."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointsNear:
    """What is the same over all points of a plan."""

    system: System
    work: PlanWorkload
    space: Space
    engine: str
    year: float
    computed: Mapping[str, tuple[float, float]]
    """90 % range of measured over computed values where nothing is near, by class of measurement."""

    def corrections(self, points: Points, layouts: Sequence[Layout]) -> Corrections:
        """Factors and ranges of points.

        Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
        """
        steps = self.configurations(points, layouts)
        decode, d_low, d_high, distance = factors_of(steps)
        prefill, p_low, p_high, p_distance = factors_of([replace(c, question=QUESTIONS["prefill"]) for c in steps])
        return Corrections(
            decode=decode,
            prefill=prefill,
            distance=distance,
            ranges={
                "time per token": self._ranges("time per token", decode, d_low, d_high, distance == FAR),
                "first token": self._ranges("first token", prefill, p_low, p_high, p_distance == FAR),
                "throughput": self._ranges("throughput", decode, d_low, d_high, distance == FAR),
            },
        )

    def configurations(self, points: Points, layouts: Sequence[Layout]) -> list[Configuration]:
        """What the steps of points are of: one unit of each."""
        unit = points.gpus / points.units
        of = [
            configuration_of(
                variant.architecture,
                self.system,
                engine=self.engine,
                year=self.year,
                question=QUESTIONS["decode"],
                layout="",
                gpus=1.0,
                load=1.0,
                input=self.work.input,
                output=self.work.output,
                cached_prefix=self.work.cached_prefix,
            )
            for variant in self.space.variants
        ]
        return [
            replace(
                of[int(points.variant[i])],
                layout=layout_text(
                    None if points.prefill[i] < 0 else layouts[int(points.prefill[i])], layouts[int(points.layout[i])]
                ),
                gpus=float(unit[i]),
                load=float(points.concurrency[i] / unit[i]),
                draft_tokens=float(points.draft_tokens[i]),
            )
            for i in range(len(points))
        ]

    def _ranges(self, kind: str, factor: Array, low: Array, high: Array, far: Mask) -> Array:
        """Measured over corrected values; those of physics where measurements correct nothing. (points, 2)"""
        low, high = np.minimum(low / factor, 1.0), np.maximum(high / factor, 1.0)
        near = np.stack([1 / high, 1 / low] if kind == "throughput" else [low, high], axis=1)
        return np.where(far[:, None], np.array(self.computed[kind]), near)
