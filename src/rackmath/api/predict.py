"""Rows of a table of measurements -> predictions with ranges, scores by group, explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rackmath.api import options
from rackmath.api.fields import Option, read_fields
from rackmath.api.kinds import PATH, Kind
from rackmath.api.plain import to_plain
from rackmath.api.predicted_rows import predicted_rows
from rackmath.api.shown import Shown
from rackmath.api.simulated_rows import is_percentile
from rackmath.engine.constants import Constants
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.plotly import plotly_figure
from rackmath.io import constants_file, tables
from rackmath.validation.explain import Explanation, explain
from rackmath.validation.predict import Prediction
from rackmath.validation.questions import question
from rackmath.validation.rows import NEEDED, read_row
from rackmath.validation.score import Score, score, scores

if TYPE_CHECKING:
    import polars as pl

ADDED = ("predicted", "low", "high", "reason")
"""Columns that a prediction adds to a row."""
Rows = Sequence[Mapping[str, str]]


def _rows(value: Any, field: str) -> Path | Rows:
    """A path, or rows: mappings, or a table of Polars."""
    if isinstance(value, (str, Path)):
        return Path(value)
    rows: Any = value.to_dicts() if hasattr(value, "to_dicts") else value
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in cast("Sequence[Any]", rows)):
        raise InputError(field, type(value).__name__, "give a path, a list of mappings, or a table of Polars")
    entries = cast("Sequence[Mapping[str, Any]]", rows)
    return [{str(k): "" if v is None else str(v) for k, v in entry.items()} for entry in entries]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictRequest:
    """Rows to predict."""

    rows: Annotated[
        Path | Rows,
        Option(
            help="Table of measurements: any subset of the documented columns that says enough.",
            kind=Kind(name="path", read=_rows),
            metavar="IN.csv",
            argument=True,
        ),
    ]
    constants: Annotated[
        Path | None,
        Option(help="Constants that `rackmath calibrate` wrote.", kind=PATH),
    ] = None

    no_evidence: Annotated[bool, options.NO_EVIDENCE] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PredictResult(Shown):
    """Every row with its prediction and 90 % range, or the reason to decline it."""

    table: Rows
    """Rows as they were read."""
    predictions: Sequence[Prediction]
    """Corrected by measurements near each row, but for those of its own run."""
    computed: Sequence[Prediction]
    """By physics alone."""
    constants: Constants

    @property
    def score(self) -> Score:
        """Error and coverage over all rows that have a value."""
        return score("all", self.predictions)

    @property
    def groups(self) -> list[Score]:
        """The same by phase, hardware and engine."""
        return scores(self.predictions)

    @property
    def columns(self) -> list[str]:
        """Columns of the input, then :data:`ADDED`."""
        return [*self.table[0], *(name for name in ADDED if name not in self.table[0])]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Rows and predictions as a table of Polars; numbers that were predicted are numbers."""
        import polars as pl

        rows = [
            {**cells, "predicted": p.predicted, "low": p.low, "high": p.high, "reason": p.reason}
            for cells, p in zip(self.table, self.predictions, strict=True)
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def explain(self, row_id: str) -> Explanation:
        """One row down to its seconds: as read, the deployment, the constants in force, terms, commands.

        Errors: :class:`InputError` for an id that is not in the table, and for a row that is declined.
        """
        return explain_row(self.table, row_id, self.constants)

    def write(self, path: Path, field: str = "path") -> None:
        """Write the rows with their predictions as CSV."""

        def text(value: float | None) -> str:
            return "" if value is None else f"{value:.6g}"

        tables.write_csv(
            path,
            self.columns,
            (
                {**c, "predicted": text(p.predicted), "low": text(p.low), "high": text(p.high), "reason": p.reason}
                for c, p in zip(self.table, self.predictions, strict=True)
            ),
            field,
        )

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath predict --json`` prints."""
        facts = asdict(self.score)
        facts.pop("name")
        physics = asdict(score("physics alone", self.computed))
        physics.pop("name")
        return to_plain({**facts, "computed": physics, "groups": [asdict(group) for group in self.groups]})

    def picture(self) -> Figure:
        """Predicted against measured, as data."""
        pairs = [(p.row.value, p.predicted) for p in self.predictions if p.row and p.row.value and p.predicted]
        if not pairs:
            raise InputError("rows", len(self.table), "no row has both a measured value and a prediction to draw")
        measured, values = [m for m, _ in pairs], [v for _, v in pairs]
        ends = [min(measured), max(measured)]
        panel = Panel(
            across="measured, in each row's unit",
            up="predicted, in the same",
            log_across=True,
            log_up=True,
            series=[
                Series(name="rows", kind="points", x=measured, y=values),
                Series(name="equal", x=ends, y=ends, colour=5),
            ],
        )
        return Figure(title=f"{len(pairs):,} rows, predicted against measured", panels=[panel])

    def figure(self) -> Any:
        """Predicted against measured, as a figure of Plotly."""
        return plotly_figure(self.picture())

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        return [("predictions", self.to_dict())]


def predict(rows: str | Path | Rows | pl.DataFrame, constants: str | Path | None = None) -> PredictResult:
    """Predict every row of a table of measurements, as ``rackmath predict`` does.

    Parameters
    ----------
    rows
        Path of a CSV, a list of mappings, or a table of Polars; columns as of ``measured/rows.csv``.
    constants
        File that ``rackmath calibrate`` wrote; by default the shipped constants.

    Errors: :class:`~rackmath.errors.InputError` for what is no such table; single rows are declined with a reason.
    """
    fields: dict[str, Any] = {"rows": rows, "constants": constants}
    return run_prediction(PredictRequest(**fields))


def run_prediction(
    request: PredictRequest, progress: Callable[[str], None] = lambda _: None, workers: int = 1
) -> PredictResult:
    """Answer a request.

    Parameters
    ----------
    progress
        Told how many rows are predicted.
    workers
        Processes that share the rows of a large table.

    Errors: as of :func:`predict`.
    """
    table = table_of(request)
    if not table:
        table_name = str(request.rows) if isinstance(request.rows, Path) else 0
        raise InputError("IN.csv", table_name, "holds no rows")
    constants = constants_file.constants(request.constants)
    # A file of constants is the user's own physics: residuals of the shipped ones say nothing of it.
    own_constants = request.constants is not None
    physics, predictions = predicted_rows(
        table,
        constants,
        with_simulator=not own_constants,
        with_evidence=not (request.no_evidence or own_constants),
        progress=progress,
        workers=workers,
    )
    return PredictResult(table=table, predictions=predictions, computed=physics, constants=constants)


def table_of(request: PredictRequest) -> Rows:
    """Rows as they were read."""
    return tables.read_csv(request.rows, "IN.csv", NEEDED) if isinstance(request.rows, Path) else request.rows


def explain_row(table: Rows, row_id: str, constants: Constants) -> Explanation:
    """One row of a table, explained without predicting the others.

    Errors: as of :meth:`PredictResult.explain`.
    """
    place = next((i for i, cells in enumerate(table) if cells.get("id") == row_id), None)
    if place is None:
        raise InputError("--explain", row_id, "is no id in the table; `id` is a column of it")
    row = read_row(table[place], place + 2)
    if is_percentile(row):
        way_out = f"states {row.statistic}, which is simulated: explain a row of the same run that states a mean"
        raise InputError("--explain", row_id, way_out)
    return explain(question(row), constants)
