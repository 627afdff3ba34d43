"""What measurements near a service say of its decode steps and of its prompts: one correction for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rackmath.api.near import NearMeasurements, configuration_of, corrections, near
from rackmath.engine.losses import Losses
from rackmath.evidence.configurations import Configuration
from rackmath.evidence.posterior import FAR
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.points import Array, Corrections

QUESTIONS = {"decode": "time per token", "prefill": "first token"}
"""Class of measurements that steps and prompts of a service are compared with."""
_LOAD = 16.0
"""Sequences per accelerator at which a service is compared where its load is what is asked. [sequences]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """Measurements near a service."""

    decode: NearMeasurements
    """Of the time per token."""
    prefill: NearMeasurements
    """Of the time to the first token."""

    @staticmethod
    def at(steps: Configuration) -> Service:
        """Measurements near a service, by what its steps are of.

        Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
        """
        return Service(decode=near(steps), prefill=near(replace(steps, question=QUESTIONS["prefill"])))

    def applied(self, corrections: Corrections, place: int) -> Service:
        """The same with the factors that were applied to a point, which were solved among rows near any point."""

        def to(at: NearMeasurements, factor: float, ratios: Array) -> NearMeasurements:
            if at.posterior.distance == FAR:
                return at
            return replace(at, factor=factor, low=factor * float(ratios[0]), high=factor * float(ratios[1]))

        c = corrections
        return Service(
            decode=to(self.decode, float(c.decode[place]), c.ranges["time per token"][place]),
            prefill=to(self.prefill, float(c.prefill[place]), c.ranges["first token"][place]),
        )

    def corrected(self, losses: Losses) -> Losses:
        """Losses with both corrections."""
        return replace(losses, correction=corrections({"decode": self.decode, "prefill": self.prefill}))

    def range(self, kind: str, computed_range: tuple[float, float]) -> tuple[float, float]:
        """90 % range of measured over corrected values of a class; that of physics where nothing is near."""
        at = self.prefill if kind == "first token" else self.decode
        if at.posterior.distance == FAR:
            return computed_range
        low, high = at.relative_range
        return (1 / high, 1 / low) if kind == "throughput" else (low, high)

    @property
    def sentences(self) -> tuple[str, str]:
        """How near the nearest rows are and what they did, one line for steps and one for prompts."""
        return self.decode.verdict("time per token"), self.prefill.verdict("time to first token")

    def to_dict(self) -> dict[str, Any]:
        """Facts of both."""
        return {"decode": self.decode.to_dict(), "prefill": self.prefill.to_dict()}


def service_near(
    architecture: Architecture,
    system: System,
    *,
    engine: str,
    year: float,
    gpus: float,
    input: float,
    output: float,
    cached_prefix: float,
    layout: str = "",
) -> Service:
    """Measurements near a service on so many accelerators; lengths in tokens, ``cached_prefix`` a part of the prompts.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    return Service.at(
        configuration_of(
            architecture,
            system,
            engine=engine,
            year=year,
            question=QUESTIONS["decode"],
            layout=layout,
            gpus=gpus,
            load=_LOAD * gpus,
            input=input,
            output=output,
            cached_prefix=cached_prefix,
        )
    )
