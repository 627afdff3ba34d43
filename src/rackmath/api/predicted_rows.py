"""A table of measurements -> predictions, a part of its rows at a time, in this process or in several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from rackmath.api.near_rows import corrected_rows
from rackmath.api.simulated_rows import with_simulated
from rackmath.engine.constants import Constants
from rackmath.errors import RackmathError
from rackmath.io.processes import ProcessPool
from rackmath.validation.predict import Prediction, predict

_ROWS = 500
"""Rows of a part: enough to answer many with one broadcast, few enough to share a table out evenly."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    table: Sequence[Mapping[str, str]]
    first_line: int
    constants: Constants
    simulated: bool
    corrected: bool

    def predictions(self) -> tuple[list[Prediction], list[Prediction]]:
        """By physics alone; and corrected by measurements near each row."""
        physics = predict(self.table, self.constants, self.first_line)
        if self.simulated:
            physics = with_simulated(self.table, physics, self.constants, self.first_line)
        return physics, corrected_rows(physics) if self.corrected else physics


def predicted_rows(
    table: Sequence[Mapping[str, str]],
    constants: Constants,
    *,
    with_simulator: bool,
    with_evidence: bool,
    progress: Callable[[str], None],
    workers: int,
) -> tuple[list[Prediction], list[Prediction]]:
    """Predictions of every row by physics alone, and corrected by measurements near it.

    Parameters
    ----------
    with_simulator, with_evidence
        Whether rows that no steady state answers are simulated, and whether measurements near a row correct it.
    progress
        Told how many rows are predicted.
    workers
        Processes that may share the parts of the table; each gets two or more of them.

    Errors: :class:`RackmathError` where one of them is killed.
    """
    parts = [
        _Part(
            table=table[start : start + _ROWS],
            first_line=start + 2,
            constants=constants,
            simulated=with_simulator,
            corrected=with_evidence,
        )
        for start in range(0, len(table), _ROWS)
    ]
    physics: list[Prediction] = []
    predictions: list[Prediction] = []
    # A process takes as long to start as a part does.
    for alone, near in _answered(parts, max(min(workers, len(parts) // 2), 1)):
        physics += alone
        predictions += near
        progress(f"{len(physics):,} of {len(table):,} rows predicted")
    return physics, predictions


def _answered(parts: Sequence[_Part], workers: int) -> Iterator[tuple[list[Prediction], list[Prediction]]]:
    if workers == 1:
        yield from map(_Part.predictions, parts)
        return
    # Forks of a process whose libraries run threads may hang.
    try:
        with ProcessPool(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(_Part.predictions, parts)
    except BrokenProcessPool as error:
        raise RackmathError(
            "a process that predicts rows was killed, as systems do where memory is short: predict fewer rows at once"
        ) from error
