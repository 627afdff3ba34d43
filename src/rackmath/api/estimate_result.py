"""One pass of a model on a system, as a result: facts, pictures, sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.energy import NOTE, energy_of
from rackmath.api.estimate_facts import facts_of_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.measured_points import measured_steps
from rackmath.api.near import NearMeasurements
from rackmath.api.shown import Shown
from rackmath.api.summary import estimate_summary
from rackmath.engine import Estimate, Layout
from rackmath.engine.capacity import largest_batch
from rackmath.engine.encoding import timed_pass
from rackmath.engine.layout import as_floats
from rackmath.engine.roofline import OperatorTime, local_pass, timed_operators
from rackmath.engine.timeline import step_parts
from rackmath.errors import InputError
from rackmath.figures import Figure, pictures
from rackmath.figures.plotly import plotly_figure
from rackmath.figures.rack import rack_figure
from rackmath.figures.step import step_figure
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.counts import weight_bytes
from rackmath.models.operator import Pass
from rackmath.prices import usd_per_million_tokens
from rackmath.serving.variants import supported
from rackmath.units import show

PICTURES = ("roofline", "batch", "memory", "step", "rack")
"""What a result draws: operators on the roofline, the lecture's two graphs, memory, one pass part by part, the rack."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EstimateResult(Shown):
    """One pass of a model on a system, with what was chosen and assumed."""

    request: EstimateRequest
    architecture: Architecture
    system: System
    layout: Layout
    step: Estimate
    """Time with its range, what binds, memory."""
    tokens_per_step: float | None
    """Tokens that a decode step yields for each sequence; None of a prompt. [tokens]"""
    price: float | None
    """Of one accelerator. [USD/s]"""
    notes: tuple[str, ...]
    """What was chosen, and what the request leaves open."""
    settings: Mapping[str, Any]
    """Arguments of :func:`rackmath.engine.estimate`."""
    computed: Estimate
    """The same by physics alone, with its own range."""
    near: NearMeasurements | None = None
    """What measurements near it say, where they were asked."""

    @property
    def time(self) -> float:
        """Time of the pass. [s]"""
        return float(self.step.time)

    @property
    def time_range(self) -> tuple[float, float]:
        """90 % range of the time; both ends equal for the bound. [s]"""
        return float(self.step.time_low), float(self.step.time_high)

    @property
    def bound_by(self) -> str:
        """Term that takes most of the ideal time."""
        return str(self.step.bound_by)

    @property
    def fits(self) -> bool:
        """Whether weights and cache fit the accelerators' memory."""
        return bool(self.step.memory.fits)

    @property
    def breakdown(self) -> dict[str, float]:
        """Seconds by cause, ideal terms first, then what is lost beyond them; they add up to the time. [s]"""
        return {name: float(value) for name, value in (*self.step.terms.items(), *self.step.lost.items())}

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Speed that a user sees; None of a prompt, and where the model does not fit. [tokens/s]"""
        if self.tokens_per_step is None or not self.fits:
            return None
        return self.tokens_per_step / self.time

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Cost; None where the model does not fit or no price is known. [USD]"""
        return None if self.price is None or not self.fits else float(usd_per_million_tokens(self.step, self.price))

    @property
    def energy(self) -> dict[str, Any] | None:
        """Power of an accelerator and energy of a token, as ``--json`` has them; None where nobody says the power."""
        return energy_of(self.step, self.system.chip, self.request.grid) if self.fits else None

    @property
    def narrower(self) -> tuple[str, float] | None:
        """A narrower format of the weights, where none was asked for, and the time of the step in it over this one.

        The next one that the chip multiplies and the engine reads; None where none makes the weights fewer bytes.
        """
        r, architecture = self.request, self.architecture
        if not self.fits or r.weights is not None:
            return None
        family = "" if r.ideal else r.engine
        variants = supported(architecture, self.system.chip, kv=[architecture.cache_format.name], family=family)
        own_bytes = sum(weight_bytes(architecture).values())
        lighter = [v for v in variants if sum(weight_bytes(v.architecture).values()) < own_bytes]
        if not lighter:
            return None
        time = timed_pass(lighter[0].architecture, self.system, self.layout, self.settings).time
        return lighter[0].weights, float(time) / self.time

    @property
    def summary(self) -> list[str]:
        """The answer in sentences: cost and speed, what binds, what a narrower format of the weights would do."""
        return estimate_summary(self.to_dict(), self.narrower)

    @property
    def assumptions(self) -> list[str]:
        """What a reader has to know of the numbers."""
        e = self.step
        basis = (
            "ideal bound: nothing is lost"
            if e.time_high == e.time_low
            else f"losses and 90 % range fitted on {e.basis}; `rackmath calibrate` fits them on your own"
        )
        price = catalogue.price_note(self.system, self.request.usd_per_gpu_hour)
        if self.fits and self.system.chip.power is not None:
            price = (*price, NOTE)
        return [*self.notes, *([self.evidence] if self.evidence else []), *price, basis, *e.assumptions]

    @property
    def evidence(self) -> str:
        """How near the nearest measurements are and what they did, in one line; empty where no time is stated."""
        if self.near is None or not self.fits:
            return ""
        low, high = self.time_range
        return self.near.sentence(*(show(value, "s") for value in (float(self.computed.time), self.time, low, high)))

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath estimate --json`` prints."""
        return facts_of_estimate(self)

    def picture(self, kind: str = "batch") -> Figure:
        """One of :data:`PICTURES` as data."""
        if kind not in PICTURES:
            raise InputError("picture", kind, f"use one of {', '.join(PICTURES)}")
        r, a, system = self.request, self.architecture, self.system
        title = f"{a.name} on {int(self.step.gpus)} x {system.chip.name}, {self.layout.text()}, {r.phase}"
        note = "; ".join(self.assumptions[:2])
        if kind == "roofline":
            return pictures.roofline_figure(f"{title}, batch {r.batch:g}", system, self.operators()[1], note)
        if kind == "step":
            parts = step_parts(a, system, self.layout, self.settings)
            return step_figure(f"{title}, batch {r.batch:g}, {show(self.time, 's')}", parts, note)
        title = f"{title}, context {r.context:,.0f}"
        if kind == "rack":
            return rack_figure(f"{title}, batch {r.batch:g}", a, system, self.layout, self.settings, note)
        room = largest_batch(a, system, self.layout, context=r.context, tokens=1.0, draft=self.settings["draft"])
        most = max(2 * float(room), r.batch, 16.0)
        batches = np.unique(np.round(np.geomspace(1, most, 9 if kind == "memory" else 120)))
        curve = self._at(batches)
        if kind == "memory":
            return pictures.memory_figure(title, curve, list(batches), note)
        decode = r.phase == "decode" and self.near is not None
        measured = measured_steps(a, system, self.layout, r.context) if decode else []
        return pictures.batch_figure(title, curve, list(batches), self.price, note, measured)

    def figure(self, kind: str = "batch") -> Any:
        """One of :data:`PICTURES` as a figure of Plotly."""
        return plotly_figure(self.picture(kind))

    def operators(self) -> tuple[Pass, list[OperatorTime]]:
        """The pass on the busiest accelerator, and its operators, longest first."""
        r, wide = self.request, as_floats(self.layout)
        work = local_pass(r.phase, r.batch, r.context, r.cached_tokens, wide, None, r.draft_tokens)
        times = timed_operators(self.architecture, work, wide, self.system)
        return work, sorted(times, key=lambda operator: -float(operator.time))

    def _at(self, batches: NDArray[np.float64]) -> Estimate:
        """The same pass at many batches."""
        settings: dict[str, Any] = {**self.settings, "batch": batches}
        return timed_pass(self.architecture, self.system, self.layout, settings)

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        return [("estimate", self.to_dict())]
