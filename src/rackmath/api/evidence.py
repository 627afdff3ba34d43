"""Published and own measurements: which there are, which lie near a question, and how to add more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.near import all_measurements, configuration_of, near
from rackmath.api.predict import predict
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.io import constants_file, evidence_files, tables
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.serving.variants import as_read
from rackmath.validation import measured_files, prometheus
from rackmath.validation.calibrate import possible, usable
from rackmath.validation.misses import Cause, causes
from rackmath.validation.predict import Prediction
from rackmath.validation.rows import COLUMNS

if TYPE_CHECKING:
    import polars as pl

    from rackmath.validation.questions import Question

QUESTIONS = (
    "time per token", "first token", "latency", "throughput", "at once", "full load", "server", "decode pass",
    "prompt pass", "training",
)  # fmt: skip
"""What measurements are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRequest:
    """Measurements by model, system, engine, kind and source, or those nearest to a question."""

    model: Annotated[
        str | Architecture | None,
        options.MODEL.but(argument=False, metavar=None, names=("--model",), help="Only of this model."),
    ] = None
    on: Annotated[str | System | None, options.SYSTEM.but(help="Only on this system's chip.")] = None
    engine: Annotated[str | None, Option(help="Only of this engine.")] = None
    question: Annotated[str | None, Option(help="Only measurements of one kind.", kind=kinds.choice(*QUESTIONS))] = None
    source: Annotated[str | None, Option(help="Only of sources whose name contains this.")] = None
    near: Annotated[
        bool,
        Option(
            help="The measurements nearest to --model on --on, nearest first; the other filters do not apply.",
            kind=kinds.FLAG,
        ),
    ] = False
    weights: Annotated[str | None, options.WEIGHTS.but(help="With --near: format of the weights.")] = None
    gpus: Annotated[int, options.GPUS.but(help="With --near: accelerators.")] = 8
    batch: Annotated[float, Option(help="With --near: sequences at once.", kind=kinds.NUMBER)] = 64.0
    input: Annotated[float, Option(help="With --near: tokens of a prompt.", kind=kinds.NUMBER)] = 1024.0
    output: Annotated[float, Option(help="With --near: tokens of an answer.", kind=kinds.NUMBER)] = 256.0
    limit: Annotated[int, Option(help="Rows to list at most.", kind=kinds.whole(1, 100_000))] = 20

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_evidence(request: EvidenceRequest) -> Result:
    """List measurements, filtered or by nearness.

    Errors: :class:`~rackmath.errors.InputError` for unknown names, and for --near without a model and a system.
    """
    r = request
    frame = _nearby(r) if r.near else _filtered(r)
    first_rows = frame.head(r.limit)
    facts = [_facts(row) for row in first_rows.to_dicts()]
    return Result(request=r, facts=facts, draw=lambda: _figure(frame), details=frame)


def counts(frame: pl.DataFrame) -> dict[str, list[tuple[str, int]]]:
    """Rows by engine, generation, question and source, the largest first."""
    return {
        name: Counter(frame[evidence_files.PREFIX + name].to_list()).most_common(8)
        for name in ("engine", "generation", "question", "source")
    }


def _filtered(r: EvidenceRequest) -> pl.DataFrame:
    import polars as pl

    frame = all_measurements()
    filters = {
        "model": load_model(r.model).name if r.model else None,
        "chip": system_of(r.on).chip.name if r.on else None,
        "engine": r.engine,
        "question": r.question,
    }
    for name, value in filters.items():
        if value is not None:
            frame = frame.filter(pl.col(evidence_files.PREFIX + name) == value)
    if r.source is not None:
        frame = frame.filter(pl.col("source").str.to_lowercase().str.contains(r.source.lower(), literal=True))
    return frame.sort("date", "id", descending=[True, False])


def _nearby(r: EvidenceRequest) -> pl.DataFrame:
    if r.model is None or r.on is None:
        raise InputError("--near", "", "needs --model and --on: nearness is that to a model on a system")
    system, engine = system_of(r.on), r.engine or DEFAULT_ENGINE
    model, _ = as_read(load_model(r.model), engine, r.weights)
    return near(
        configuration_of(
            model,
            system,
            engine=engine,
            year=NOW,
            question=r.question or "time per token",
            layout="",
            gpus=float(r.gpus),
            load=r.batch,
            input=r.input,
            output=r.output,
        )
    ).rows


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """One measurement as it is printed: facts, and what is computed for it."""
    facts = {name: row[name] for name in evidence_files.FACTS}
    facts["measured"] = facts.pop("value")
    facts["predicted"] = row["computed"]
    facts["source"] = "your own" if row["at_source"] == evidence_files.OWN else row["source"]
    facts["measured_over_computed_time"] = row["residual"]
    if "correlation" in row:
        facts["correlation"] = row["correlation"]
    return facts


def _figure(frame: pl.DataFrame) -> Figure:
    """Residuals by date, one colour per engine."""
    if frame.is_empty():
        raise InputError("evidence", 0, "no measurement is like that: nothing to draw")
    series = [
        Series(
            name=engine,
            kind="points",
            x=part["at_year"].to_list(),
            y=part["residual"].exp().to_list(),
            colour=colour,
        )
        for colour, (engine, _) in enumerate(Counter(frame["at_engine"].to_list()).most_common(6))
        for part in [frame.filter(frame["at_engine"] == engine)]
    ]
    panel = Panel(across="date of the run [years]", up="measured over computed time", log_up=True, series=series)
    return Figure(title=f"{len(frame):,} measurements", panels=[panel])


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRequest:
    """Own measurements to keep."""

    file: Annotated[
        str,
        Option(
            help="CSV in the columns of `rackmath predict`, or JSON of a serving benchmark.",
            metavar="FILE",
            argument=True,
        ),
    ]
    prometheus: Annotated[
        bool,
        Option(
            help="FILE, or an address that begins with http, holds the metrics of a running vLLM or SGLang.",
            kind=kinds.FLAG,
        ),
    ] = False
    columns: Annotated[
        tuple[str, ...],
        Option(
            help="What a benchmark or a server does not say, such as hardware=h100-sxm; engine=sglang where "
            "vllm bench serve asked it.",
            kind=kinds.TEXTS,
            names=("--set",),
            metavar="COLUMN=VALUE",
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_add(request: AddRequest) -> Result:
    """Keep own measurements; each is predicted from now on beside what was published.

    Rows of an id that is there already take its place. Errors: :class:`~rackmath.errors.InputError` where none of the
    rows can be used, with the reason of the first; nothing is kept then.
    """
    rows = _rows_of(request)
    # Rows of one file say nothing of each other when they are set beside what was expected of them.
    run = {"run_id": f"own-{_number(*rows)}"}
    named_rows = [
        {"id": f"own-{_number(row)}", **run, **{k: v for k, v in row.items() if k in COLUMNS and v}} for row in rows
    ]
    questions, refusals = usable(named_rows)
    questions, impossible = possible(questions)
    refusals += impossible
    if not questions:
        why = refusals[0][1] if refusals else "it is empty"
        raise InputError("FILE", request.file, f"holds no measurement that can be used: {why}")
    usable_ids = {q.row.id for q in questions}
    by_id = {row["id"]: row for row in evidence_files.own_rows()}
    before = len(by_id)
    by_id |= {row["id"]: row for row in named_rows if row["id"] in usable_ids}
    path = evidence_files.write_own(list(by_id.values()))
    facts = {
        "added": len(by_id) - before,
        "replaced": len(usable_ids) - (len(by_id) - before),
        "kept": len(by_id),
        "path": str(path),
        "refused": [{"row": name, "reason": reason} for name, reason in refusals],
        "rows": _verdicts(questions),
    }
    return Result(request=request, facts=facts)


def _number(*rows: Mapping[str, str]) -> str:
    return sha256(repr([sorted(row.items()) for row in rows]).encode()).hexdigest()[:12]


def _rows_of(request: AddRequest) -> list[dict[str, str]]:
    """Rows of a file, or of the metrics of a server, with the columns that it leaves out."""
    if request.prometheus:
        text = tables.read_metrics(request.file, "FILE")
        return prometheus.rows_of(text, measured_files.columns_of(request.columns))
    rows = measured_files.rows_of(Path(request.file), request.columns, "FILE")
    return [{**row, **measured_files.columns_of(request.columns)} for row in rows]


def _verdicts(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Measurements beside what was expected of them, and whether they lie inside."""
    cells = [
        {name: str(value) for name in COLUMNS if (value := getattr(q.row, name, None)) not in (None, "")}
        for q in questions
    ]
    predictions = predict(cells).predictions
    outside = [
        place for place, p in enumerate(predictions) if p.inside is False and p.predicted and questions[place].row.value
    ]
    explanations = causes(
        [questions[place] for place in outside],
        constants_file.constants(),
        [float(predictions[place].predicted or 0.0) for place in outside],
        [float(questions[place].row.value or 0.0) for place in outside],
    )
    by_place = dict(zip(outside, explanations, strict=True))
    return [
        _verdict(q, p, by_place.get(place, [])) for place, (q, p) in enumerate(zip(questions, predictions, strict=True))
    ]


def _verdict(question: Question, expected: Prediction, explained_by: Sequence[Cause]) -> dict[str, Any]:
    """One measurement beside what was expected; where it lies outside, which constants would explain it."""
    row = question.row
    likely = [
        {
            "term": cause.term.name, "meaning": cause.term.meaning, "unit": cause.term.unit, "part": cause.part,
            "value": cause.value, "needed": cause.needed,
        }
        for cause in explained_by
    ]  # fmt: skip
    return {
        "id": row.id, "metric": row.metric, "statistic": row.statistic, "measured": row.value,
        "predicted": expected.predicted,
        "low": expected.low, "high": expected.high, "inside": expected.inside, "explained_by": likely,
    }  # fmt: skip
