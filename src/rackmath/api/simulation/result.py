"""Traffic against a deployment, event by event: the result and the functions that make it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rackmath.api.deployment import Deployment
from rackmath.api.fields import field_named
from rackmath.api.plain import to_plain
from rackmath.api.shown import Shown
from rackmath.api.simulation.assumptions import assumptions
from rackmath.api.simulation.report import QUANTITIES, facts_of, range_ends, user_times
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import Setup, run, setup_of
from rackmath.api.simulation.tasks import tasks_of_run, with_task_range
from rackmath.api.summary import simulation_summary
from rackmath.figures import Figure
from rackmath.figures.plotly import plotly_figure
from rackmath.figures.simulation import simulation_figure
from rackmath.io.snapshots import Checkpoint
from rackmath.io.tables import write_table, write_text
from rackmath.serving.simulator.outcome import STATISTICS, RequestTimes, replay, series, timeline
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.tasks import Tasks
from rackmath.serving.simulator.workload import Arrivals

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1_000_000
"""Of the table of requests that are written at a time."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Requests that arrive by themselves, at a mean rate."""

    rate: float
    """[requests/s]"""
    input: float | None = None
    """Mean tokens of a prompt; None as the deployment is planned for. [tokens]"""
    output: float | None = None
    """Mean tokens of an answer; None as the deployment is planned for. [tokens]"""
    requests: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """What users see of one time, with the range that the steps' range makes of it. [s]"""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    mean_range: tuple[float, float] | None
    """None for the bound, and for runs of so many requests that their range is not simulated."""
    p50_range: tuple[float, float] | None
    p90_range: tuple[float, float] | None
    p95_range: tuple[float, float] | None
    p99_range: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SimulateResult(Shown):
    """A run of the simulator."""

    setup: Setup
    outcomes: tuple[Outcome, ...]
    """Of the one fleet, or of prefill and decode workers."""
    seconds: float
    """That the run took. [s]"""

    @property
    def request(self) -> SimulateRequest:
        """What was asked."""
        return self.setup.request

    @property
    def ttft(self) -> Percentiles | None:
        """Time to first token; None where no request ended."""
        return self._percentiles("time_to_first_token")

    @property
    def tpot(self) -> Percentiles | None:
        """Time per output token; None where answers have one token."""
        return self._percentiles("time_per_output_token")

    @property
    def latency(self) -> Percentiles | None:
        """Arrival to last token; None where no request ended."""
        return self._percentiles("latency")

    @property
    def throughput(self) -> float:
        """Tokens written while requests arrive. [tokens/s]"""
        return self._facts["throughput"]

    @property
    def goodput(self) -> float:
        """Requests served within both limits. [requests/s]"""
        return self._facts["goodput"]

    @property
    def steady(self) -> bool | None:
        """Whether the queue does not grow; None for a run too short to say."""
        return self._facts["steady"]

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Cost of tokens written; None without a price. [USD]"""
        return self._facts["usd_per_million_tokens"]

    @property
    def summary(self) -> list[str]:
        """The answer in sentences: cost and speed, load, whether it keeps up."""
        return simulation_summary(self._facts)

    @property
    def assumptions(self) -> list[str]:
        """What a reader has to know of the numbers."""
        return assumptions(self.setup)

    @cached_property
    def times(self) -> RequestTimes:
        """Times of every request as its user sees them."""
        return user_times(self.setup, self.outcomes)

    @cached_property
    def tasks(self) -> Tasks | None:
        """What became of every task of agents or of sessions; None for traffic without tasks."""
        return tasks_of_run(self.setup, self.outcomes)

    @cached_property
    def over_time(self) -> Mapping[str, Any]:
        """The fleet over time, as columns."""
        setup = self.setup
        return series(self.outcomes[-1], setup.work.output, self.outcomes[0], setup.work.block)

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath simulate --json`` prints."""
        return to_plain(self._facts | {"seconds": self.seconds, "assumptions": self.assumptions})

    def picture(self) -> Figure:
        """Load, queue and what users see, as data."""
        return simulation_figure(self.to_dict(), self.over_time, self.times, replay(self.outcomes), self.tasks)

    def figure(self) -> Any:
        """Load, queue and what users see, as a figure of Plotly."""
        return plotly_figure(self.picture())

    def write_requests(self, path: Path, field: str = "path") -> None:
        """Write one row per request as Parquet, made and written a million at a time."""
        import polars as pl
        from polars.io.plugins import register_io_source

        times, work = self.times, self.setup.work
        first, last = self.outcomes[0].requests, self.outcomes[-1].requests
        columns: dict[str, tuple[Any, Any]] = {
            "arrival": (first["arrival"], pl.Float64),
            "input": (work.prompt, pl.Int32),
            "output": (work.output, pl.Int32),
            "priority": (work.rank, pl.Int32),
            "replica": (last["place"], pl.Int32),
            "cached_tokens": (first["hit"], pl.Int32),
            "preempted": (last["dropped"], pl.Int32),
            "queueing": (times.queueing, pl.Float64),
            "time_to_first_token": (times.first, pl.Float64),
            "time_per_output_token": (times.per_token, pl.Float64),
            "latency": (times.whole, pl.Float64),
        }

        def pieces(*_: object) -> Iterator[pl.DataFrame]:
            for at in range(0, len(work), _ROWS):
                yield pl.DataFrame({name: values[at : at + _ROWS] for name, (values, _) in columns.items()})

        if work.task is not None:
            columns["task"] = work.task, pl.Int32
        schema = pl.Schema({name: kind for name, (_, kind) in columns.items()})
        write_table(path, register_io_source(pieces, schema=schema), field)

    def write_series(self, path: Path, field: str = "path") -> None:
        """Write the fleet over time as CSV or Parquet."""
        import polars as pl

        write_table(path, pl.DataFrame(dict(self.over_time)), field)

    def write_timeline(self, path: Path, field: str = "path") -> None:
        """Write a trace that Perfetto shows."""
        text = json.dumps({"traceEvents": timeline(self.outcomes[-1]), "displayTimeUnit": "ms"})
        write_text(path, text, field)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts = facts_of(self.setup, self.outcomes)
        span = facts["range"] = range_ends(self.setup)
        for key in QUANTITIES:
            if span is not None and facts[key] is not None and key in span["low"] and key in span["high"]:
                for name in STATISTICS:
                    facts[key][f"{name}_range"] = [span["low"][key][name], span["high"][key][name]]
        if span is not None and "tasks" in facts:
            with_task_range(facts["tasks"], span["low"].pop("tasks"), span["high"].pop("tasks"))
        return facts

    def _percentiles(self, key: str) -> Percentiles | None:
        values = self._facts[key]
        if values is None:
            return None
        fields: dict[str, Any] = {name: values[name] for name in STATISTICS}
        for name in STATISTICS:
            span = values.get(f"{name}_range")
            fields[f"{name}_range"] = None if span is None else tuple(span)
        return Percentiles(**fields)

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        facts = self.to_dict()
        times = {
            f"{key} {name}": facts[key][name]
            for key in QUANTITIES
            if facts[key] is not None
            for name in ("mean", "p50", "p99")
        }
        return [("simulation", facts | times)]


def read_trace(path: str | Path, *, repair: bool = False) -> Arrivals:
    """Read a trace of requests: Azure's, Mooncake's, BurstGPT's files, tables that name their columns alike, agents.

    Parameters
    ----------
    repair : bool
        Whether rows that cannot be used are left out instead of refused.

    Errors: :class:`~rackmath.errors.InputError` with the line.
    """
    from rackmath.io import traces

    return traces.read_trace(Path(path), repair=repair)[0]


def simulate(deployment: Deployment, traffic: Poisson | Arrivals | str | Path, **more: Any) -> SimulateResult:
    """Replay traffic against a deployment, as ``rackmath simulate`` does.

    Parameters
    ----------
    deployment
        A point of a plan, or a :class:`~rackmath.api.deployment.Deployment` of one's own.
    traffic
        Arrivals at a rate, what :func:`read_trace` returns, or the path of a trace.
    **more
        Other fields of :class:`~rackmath.api.simulation.request.SimulateRequest`; names that its options had before
        are taken as well.

    Errors: :class:`~rackmath.errors.InputError` and :class:`~rackmath.errors.DoesNotFit` for what cannot be run.
    """
    fields = deployment.simulated
    if isinstance(traffic, Poisson):
        fields |= {"poisson": traffic.rate, "requests": traffic.requests}
        fields |= {name: value for name in ("input", "output") if (value := getattr(traffic, name)) is not None}
    else:
        # Traces have prefixes of their own; what is no trace is refused by the request.
        fields["cached_prefix"], fields["trace"] = 0.0, traffic
    for name, value in more.items():
        field = field_named(SimulateRequest, name)
        fields[name if field is None else field.name] = value
    return run_simulation(SimulateRequest(**fields))


def run_simulation(
    request: SimulateRequest,
    progress: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> SimulateResult:
    """Answer a request.

    Parameters
    ----------
    progress
        Told how far a long run is.
    checkpoint
        Keeps a long run, which goes on from it.

    Errors: as of :func:`simulate`.
    """
    setup = setup_of(request)
    start = perf_counter()
    outcomes = run(setup, progress, checkpoint)
    return SimulateResult(setup=setup, outcomes=outcomes, seconds=perf_counter() - start)
