"""A trace -> the model of its traffic, and how far requests drawn from it are from the trace."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields
from rackmath.api.plain import to_plain
from rackmath.api.shown import Shown
from rackmath.api.simulation.request import TRACE
from rackmath.io.tables import write_text
from rackmath.io.traces import read_trace
from rackmath.io.traffic_files import traffic_text
from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.traffic import Closeness, TrafficModel, closeness, draw, fit_traffic
from rackmath.serving.traffic.fit import reuse_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficFitRequest:
    """A trace that is to be made a small model."""

    trace: Annotated[Path | Arrivals, Option(help="Trace, as simulate reads it.", kind=TRACE, argument=True)]
    repair: Annotated[bool, Option(help="Mend a trace instead of refusing it, and say how.", kind=kinds.FLAG)] = False
    prefix_block: Annotated[
        int, Option(help="Tokens of a prefix block, where the trace names blocks.", kind=kinds.whole(1, 10**6))
    ] = 512
    seed: Annotated[int, Option(help="Seed of all draws.", kind=kinds.whole(0, 2**63 - 1))] = 0

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TrafficFitResult(Shown):
    """A model of traffic beside the trace that it was fitted to."""

    title: str
    model: TrafficModel
    notes: tuple[str, ...]
    trace: Arrivals
    drawn: Arrivals
    """As many requests, drawn from the model."""
    closeness: tuple[Closeness, ...]

    known_share: tuple[float, float] | None
    """Part of the prefix blocks that an unbounded cache has, of the trace and as drawn; None without any. [1]"""

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath traffic fit --json`` prints."""
        return to_plain(
            {
                "trace": self.title,
                "requests": len(self.trace),
                "span": self.trace.span,
                "notes": list(self.notes),
                "model": asdict(self.model),
                "closeness": [asdict(entry) for entry in self.closeness],
                "known_share": self.known_share,
            }
        )

    def write(self, path: Path, field: str = "path") -> None:
        """Write the model as TOML, which ``rackmath simulate --trace`` takes."""
        write_text(path, traffic_text(self.model, self.title), field)

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        return [("traffic", self.to_dict())]


def run_traffic_fit(r: TrafficFitRequest) -> TrafficFitResult:
    """Fit a trace, and draw as many requests from the model to see how close they are.

    Errors: :class:`~rackmath.errors.InputError` for traces that cannot be read or fitted.
    """
    notes: list[str] = []
    if isinstance(r.trace, Arrivals):
        work, title = r.trace, "requests in memory"
    else:
        work, notes = read_trace(r.trace, block=r.prefix_block, repair=r.repair)
        title = r.trace.name
    model = fit_traffic(work, seed=r.seed)
    sample = draw(model, len(work), np.random.default_rng(r.seed))
    return TrafficFitResult(
        title=title,
        model=model,
        notes=tuple(notes),
        trace=work,
        drawn=sample,
        closeness=tuple(closeness(work, sample)),
        known_share=None if model.prefixes is None else (_known_share(work), _known_share(sample)),
    )


def _known_share(work: Arrivals) -> float:
    count, shared_blocks, _ = reuse_of(work)
    return float(shared_blocks.sum() / max(count.sum(), 1))
