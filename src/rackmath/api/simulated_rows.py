"""Rows that no steady state answers, predicted by simulating the run that they describe.

Percentiles of what users saw; and first tokens of closed loops of equal lengths, whose users begin together and stay
together: they end in one step, send in one step, and wait for one another's prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.engine.constants import Constants
from rackmath.errors import NotUnderstood, RackmathError
from rackmath.io import constants_file
from rackmath.serving.simulator.outcome import STATISTICS
from rackmath.validation.predict import Prediction
from rackmath.validation.questions import Question, question
from rackmath.validation.ranges import row_range
from rackmath.validation.rows import Row, read_row
from rackmath.validation.simulated import simulation_fields

KEYS = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "e2e": "latency"}
"""Metrics of rows -> where a simulation has their percentiles."""

USUAL = 1_000
"""Requests that are simulated where a row does not say how many there were."""

MOST = 20_000
"""Requests of a run that is simulated, in about a second: a table may name any number."""

Facts = Mapping[str, Any] | str
"""What a simulation answers, or why it is refused."""


def with_simulated(
    table: Sequence[Mapping[str, str]],
    predictions: Sequence[Prediction],
    constants: Constants,
    first_line: int,
) -> list[Prediction]:
    """Predictions, with those that no steady state answers simulated by the shipped constants.

    Rows of one run are simulated once. No measurement corrects them: those of the run itself may stand among them.

    Parameters
    ----------
    table : sequence of mappings
        Cells of the rows.
    predictions : sequence of Prediction
        What equations say of them: rows of percentiles are declined there; first tokens of users who stay together
        keep it where their run cannot be simulated.
    constants : Constants
        The shipped ones, with their ranges.
    first_line : int
        Line of the first row in its file.
    """
    runs: dict[object, Facts] = {}
    result = list(predictions)
    for i, (cells, prediction) in enumerate(zip(table, predictions, strict=True)):
        row = prediction.row
        if row is None or not (is_percentile(row) or (prediction.predicted is not None and stays_together(row))):
            continue
        try:
            result[i] = _simulated(row, mean_of(cells, first_line + i), constants, runs)
        except RackmathError as error:
            # First tokens that cannot be simulated keep what was assumed of their steady state.
            reason = prediction.reason if prediction.predicted is not None else ""
            result[i] = replace(prediction, reason="; ".join(filter(None, (reason, str(error)))))
    return result


def is_percentile(row: Row) -> bool:
    """Whether a row of a service states a percentile other than the median."""
    passes = ("decode", "prefill", "training")
    return row.statistic.startswith("p") and row.statistic != "p50" and row.phase not in passes


def stays_together(row: Row) -> bool:
    """Whether a row is of first tokens of users who began together and whose requests are all as long."""
    is_closed = row.arrivals == "closed" and row.length_cv == 0 and row.num_requests is not None
    return is_closed and row.metric == "ttft" and row.statistic in ("mean", "p50")


def mean_of(cells: Mapping[str, str], line: int) -> Question:
    """The question of a row as if it stated a mean: what runs does not depend on what is read from it.

    Errors: any :class:`~rackmath.errors.RackmathError` is the reason to decline the row.
    """
    return question(read_row({**cells, "statistic": "mean"}, line))


def _simulated(row: Row, query: Question, constants: Constants, runs: dict[object, Facts]) -> Prediction:
    """One row from the simulation of its run; a run is simulated where ``runs`` lacks it."""
    if row.statistic not in STATISTICS:
        raise NotUnderstood("statistic", row.statistic, f"write one of {', '.join(STATISTICS)}")
    if row.metric not in KEYS:
        raise NotUnderstood("metric", row.metric, f"percentiles are simulated of {', '.join(KEYS)}")
    fields = simulation_fields(query)
    if fields is None:
        way_out = "services are simulated of one pool whose requests come at a rate, all at once or from users"
        raise NotUnderstood("statistic", row.statistic, way_out)
    if row.family not in constants_file.FAMILIES:
        way_out = f"services are simulated of {', '.join(constants_file.FAMILIES)}"
        raise NotUnderstood("engine", row.engine, way_out)
    fields = {"requests": USUAL, **fields}
    if max(fields["requests"], fields.get("users", 0)) > MOST:
        raise NotUnderstood("num_requests", row.num_requests, f"services are simulated of at most {MOST:,} requests")
    key = (query.architecture.name, row.weights, row.kv, row.expert_weights, *fields.items())
    if key not in runs:
        runs[key] = _run(query, fields)
    facts = runs[key]
    if isinstance(facts, str):
        return Prediction(row=row, predicted=None, low=None, high=None, reason=facts)
    spread = facts[KEYS[row.metric]]
    if spread is None:
        raise NotUnderstood("metric", row.metric, "no request of the simulated run has it")
    value = spread[row.statistic]
    # A simulated range is that of the engine's steps; rows say how far off means of such services are.
    below, above = row_range(query, constants)
    low, high = spread.get(f"{row.statistic}_range", (value, value))
    note = f"simulated: {facts['requests']:,} requests"
    reason = "; ".join((note, *query.assumed))
    return Prediction(
        row=row, predicted=value, low=min(low, value * below), high=max(high, value * above), reason=reason
    )


def request_of(query: Question, fields: Mapping[str, Any]) -> SimulateRequest:
    """The simulation of a row's run by physics alone; ``fields`` as :func:`simulation_fields` returns them."""
    values: dict[str, Any] = {"model": query.architecture, **fields, "on": query.system, "no_evidence": True}
    return SimulateRequest(**values)


def _run(query: Question, fields: Mapping[str, Any]) -> Facts:
    try:
        return run_simulation(request_of(query, fields)).to_dict()
    except RackmathError as error:
        return str(error)
