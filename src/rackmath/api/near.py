"""What measurements near an answer say of it: its correction, its range, and the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.losses import Losses
from rackmath.evidence.configurations import Book, Configuration, columns_of
from rackmath.evidence.posterior import (
    FAR,
    NEAREST,
    Array,
    Base,
    Posterior,
    all_factors,
    distance_of,
    factors,
    nearest_by_name,
    posteriors,
    residuals,
)
from rackmath.evidence.subjects import bits_of_model, kind_of_model
from rackmath.hardware import System
from rackmath.io import constants_file, evidence_files
from rackmath.io.evidence_files import OwnVersion
from rackmath.models.architecture import Architecture
from rackmath.units import counted

if TYPE_CHECKING:
    import polars as pl

    from rackmath.validation.questions import Question

_NAMED = 10
"""Rows that an answer names."""
_OWN_NOISE = 0.05
"""Standard deviation of a user's own rows. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearMeasurements:
    """What near measurements say of one configuration."""

    configuration: Configuration
    posterior: Posterior
    factor: float
    """Expected measured over computed time. [1]"""
    low: float
    """Lower end of its 90 % range. [1]"""
    high: float

    @property
    def relative_range(self) -> tuple[float, float]:
        """90 % range of measured over corrected time, which holds 1. [1]"""
        return min(self.low / self.factor, 1.0), max(self.high / self.factor, 1.0)

    @property
    def rows(self) -> pl.DataFrame:
        """Rows within reach, the most telling first, with their correlation."""
        import polars as pl

        frame = _evidence()[2][self.posterior.rows]
        return frame.with_columns(pl.Series("correlation", self.posterior.correlation))

    def sentence(self, computed_text: str, corrected_text: str, low: str, high: str) -> str:
        """What the rows did to an answer, in one line."""
        if self.posterior.distance == FAR:
            return f"{self._far}: {computed_text} ({low} to {high}) by physics alone"
        return f"{self._within}: computed {computed_text}, corrected {corrected_text} ({low} to {high})"

    def verdict(self, name: str) -> str:
        """What the rows did to a number, as a factor, in one line."""
        if self.posterior.distance == FAR:
            return f"{name}: {self._far}, physics alone"
        return f"{name}: {self._within}: computed x {self.factor:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def _far(self) -> str:
        c = self.configuration
        subject = f"{c.engine} with {c.model} on {c.chip}"
        if not len(self.posterior.rows):
            return f"no measurement near {subject}"
        differ = "differs" if len(self.posterior.rows) == 1 else "differ"
        return f"{self._within} {differ} too much from {subject}"

    @property
    def _within(self) -> str:
        return f"{counted(len(self.posterior.rows), 'measurement')} within reach"

    def to_dict(self) -> dict[str, Any]:
        """Facts of it: how near, how many, what they did, and the ten most telling rows."""
        names = ("id", "source", "date", "model", "hardware", "n_gpus", "engine", "metric", "per", "value", "computed")
        return {
            "distance": self.posterior.distance,
            "rows": len(self.posterior.rows),
            "factor": self.factor,
            "factor_low": self.low,
            "factor_high": self.high,
            "unexplained": self.posterior.unexplained,
            "nearest": self.rows.head(_NAMED).select(*names, "correlation", "residual").to_dicts(),
        }


def configuration_of(
    architecture: Architecture,
    system: System,
    *,
    engine: str,
    year: float,
    question: str,
    layout: str,
    gpus: float,
    load: float,
    input: float,
    output: float = 0.0,
    cached_prefix: float = 0.0,
    draft_tokens: float = 0.0,
) -> Configuration:
    """What an answer is of: ``load`` in sequences of the whole deployment, lengths in tokens."""
    return Configuration(
        engine=engine,
        generation=system.chip.generation,
        chip=system.chip.name,
        model=architecture.name,
        kind=kind_of_model(architecture),
        question=question,
        bits=bits_of_model(architecture),
        layout=layout,
        source=evidence_files.OWN,
        year=year,
        load=load / gpus,
        input=input,
        output=output,
        gpus=gpus,
        cached_prefix=cached_prefix,
        draft_tokens=draft_tokens,
    )


def near(at: Configuration) -> NearMeasurements:
    """What measurements say of one configuration.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    return near_each([at])[0]


def near_each(at: Sequence[Configuration], without: Sequence[Sequence[int]] | None = None) -> list[NearMeasurements]:
    """What measurements say of each; ``without`` are places of rows that are not looked at, by configuration.

    Errors: as of :func:`near`.
    """
    if not at:
        # Who asks for no measurement does not wait until they are read.
        return []
    base, book, _ = _evidence()
    process = evidence_files.process()
    answers: list[NearMeasurements] = []
    for configuration, answer in zip(at, posteriors(process, base, columns_of(at, book), without), strict=True):
        factor, low, high = factors(process, answer, configuration.question)
        answers.append(
            NearMeasurements(configuration=configuration, posterior=answer, factor=factor, low=low, high=high)
        )
    return answers


def factors_of(at: Sequence[Configuration]) -> tuple[Array, Array, Array, NDArray[np.str_]]:
    """Factors of many configurations of one question, the ends of their 90 % ranges, and how near measurements are.

    Those of one set of names (model, engine, layout, formats) are solved among the rows that tell the most of that set:
    what is said of a configuration does not depend on the others that are asked with it. (configurations,)
    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    base, book, _ = _evidence()
    process = evidence_files.process()
    columns = columns_of(at, book)
    ends, unexplained_part = np.empty((3, len(at))), np.empty(len(at))
    _, first, group_of = np.unique(columns.names, axis=0, return_index=True, return_inverse=True)
    for i, place in enumerate(first):
        members = np.flatnonzero(group_of.reshape(-1) == i)
        rows = nearest_by_name(process, base, columns.take(np.array([place])), NEAREST)
        answers = residuals(process, base, columns.take(members), rows)
        ends[:, members] = all_factors(process, answers, at[0].question)
        unexplained_part[members] = answers.unexplained
    return ends[0], ends[1], ends[2], np.array([distance_of(float(u)) for u in unexplained_part])


def near_questions(questions: Sequence[Question]) -> list[NearMeasurements]:
    """What measurements say of each row, those of its own run left out.

    Errors: as of :func:`near`.
    """
    from rackmath.validation.nearness import configuration

    places = _places()
    without = [[*places.get(("id", q.row.id), ()), *places.get(("run_id", q.row.run_id), ())] for q in questions]
    return near_each([configuration(q) for q in questions], without)


def _places() -> dict[tuple[str, str], list[int]]:
    """Places of rows by their id, and by their run."""
    return _places_with(evidence_files.own_version())


@lru_cache(maxsize=1)
def _places_with(version: OwnVersion) -> dict[tuple[str, str], list[int]]:
    places: dict[tuple[str, str], list[int]] = {}
    frame = _evidence_with(version)[2]
    for name in ("id", "run_id"):
        for i, text in enumerate(frame[name].to_list()):
            if text:
                places.setdefault((name, text), []).append(i)
    return places


def corrected(losses: Losses, by_phase: dict[str, NearMeasurements], range_class: str) -> Losses:
    """Losses with what measurements say of each phase, and the range of one of them."""
    of = by_phase[range_class]
    result = replace(losses, correction=corrections(by_phase))
    if of.posterior.distance == FAR:
        return result
    low, high = of.relative_range
    return replace(result, low=low, high=high)


def _evidence() -> tuple[Base, Book, pl.DataFrame]:
    """Published and own rows; read again when the file of a user's own has changed."""
    return _evidence_with(evidence_files.own_version())


@lru_cache(maxsize=1)
def _evidence_with(version: OwnVersion) -> tuple[Base, Book, pl.DataFrame]:
    import polars as pl

    frame = evidence_files.published()
    if user_questions := own_questions():
        # Reading rows takes the room of validation, which answers without own rows do not need.
        from rackmath.validation.nearness import records
        from rackmath.validation.problem import evaluate

        values = evaluate(user_questions, constants_file.constants())[0]
        noise = np.full(len(user_questions), _OWN_NOISE)
        rows = records(user_questions, values, noise, evidence_files.FACTS)
        own_frame = pl.DataFrame(rows, schema=frame.schema).with_columns(at_source=pl.lit(evidence_files.OWN))
        frame = pl.concat([frame, own_frame])
    base, book = evidence_files.base_of(frame)
    return base, book, frame


def all_measurements() -> pl.DataFrame:
    """Published measurements and a user's own, with what each was of and its residual."""
    return _evidence()[2]


def own_questions() -> list[Question]:
    """A user's own measurements that can be predicted; what beats the ideal bound is no measurement."""
    rows = evidence_files.own_rows()
    if not rows:
        return []
    from rackmath.validation.calibrate import possible, usable

    return possible(usable(rows)[0])[0]


def corrections(by_phase: dict[str, NearMeasurements]) -> dict[str, float]:
    """Factors on times by phase, of those that something is near to."""
    return {phase: at.factor for phase, at in by_phase.items() if at.posterior.distance != FAR}
