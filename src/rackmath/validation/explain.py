"""One row, explained: as it was read, what runs it, which constants, and where its seconds go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from rackmath.engine.constants import Constants, engine_key
from rackmath.engine.step import Estimate, estimate
from rackmath.engine.terms import TERMS
from rackmath.io import constants_file, kernel_files
from rackmath.validation.kinds import SERVICE
from rackmath.validation.problem import evaluate
from rackmath.validation.question_constants import engine_of
from rackmath.validation.questions import Question
from rackmath.validation.ranges import class_of, phase_of, row_range
from rackmath.validation.rows import Row
from rackmath.validation.simulated import command, simulation_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What stands behind a prediction: titled pairs of a name and a text."""

    parts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def explain(question: Question, constants: Constants) -> Explanation:
    """Explain the prediction of one row."""
    values, running = evaluate([question], constants)
    batch = float(running[0])
    parts = [
        ("row as read", tuple(_read(question.row))),
        ("deployment", tuple(_deployment(question))),
        ("prediction", tuple(_prediction(question, constants, float(values[0])))),
        ("constants in force", tuple(_constants(question, constants))),
    ]
    parts += [(title, tuple(_seconds(e))) for title, e in _passes(question, constants, batch)]
    parts.append(("the same by command", tuple(_commands(question, batch))))
    return Explanation(parts=tuple(parts))


def _read(row: Row) -> Iterator[tuple[str, str]]:
    for f in fields(Row):
        value = getattr(row, f.name)
        if value not in ("", None):
            yield f.name, f"{value:g}" if isinstance(value, float) else str(value)


def _deployment(q: Question) -> Iterator[tuple[str, str]]:
    d = q.deployment
    yield "model", q.architecture.name
    yield "system", q.system.name
    if d.prefill is not None:
        yield "prefill workers", f"{d.prefill_workers:g} of {d.prefill.text()}"
    yield "workers", f"{d.workers:g} of {d.layout.text()}"
    yield "asked as", f"{q.quantity}, {q.kind}"
    for note in q.assumed:
        yield "assumed", note


def _prediction(q: Question, constants: Constants, value: float) -> Iterator[tuple[str, str]]:
    low, high = row_range(q, constants)
    yield "predicted", f"{value:.5g}, 90 % range {value * low:.4g} to {value * high:.4g}"
    if q.row.value:
        yield "measured", f"{q.row.value:.5g}: {value / q.row.value - 1:+.1%}"
    engine = engine_of(q)
    near = constants.nearness(engine, q.system.chip.name, phase_of(q))
    meaning = {
        "chip": "rows of this engine on this chip's generation, and of this chip",
        "pair": "rows of this engine on this generation, none of this chip",
        "member": "no rows of this engine on this generation, of each apart only",
        "none": "no rows of this engine or generation",
    }[near]
    yield "range", f"of {class_of(q)}; {meaning}"


def _constants(q: Question, constants: Constants) -> Iterator[tuple[str, str]]:
    engine = engine_of(q)
    yield "kernels", kernel_files.basis(q.system.chip)
    of_engine = [e for e in constants.evidence if (e.family, e.generation) == engine_key(engine)]
    dates = f", {min(e.first for e in of_engine):.1f} to {max(e.last for e in of_engine):.1f}" if of_engine else ""
    yield "rows", f"{constants.rows(engine)} of {engine.family} on {engine.generation}{dates}"
    for term in TERMS:
        value = constants.value(term.name, engine)
        behind = ", ".join(m for m in engine.members if m in constants.moves.get(term.name, {})) or "base alone"
        unit = "" if term.unit == "1" else f" {term.unit}"
        yield term.name, f"{value:.4g}{unit} ({behind})"


def _passes(q: Question, constants: Constants, batch: float) -> Iterator[tuple[str, Estimate]]:
    losses = constants.losses(engine_of(q), kernel_files.kernels(q.system.chip, q.row.family))
    layout = q.deployment.layout
    if q.kind != "prefill" and q.kind != "train":
        context = q.context if q.kind == "decode" else q.input + q.output / 2
        at = max(batch, 1.0) / (q.deployment.workers if q.kind == "pools" else 1.0)
        step = estimate(
            q.architecture,
            q.system,
            layout,
            batch=max(at, 1.0),
            context=context,
            draft_tokens=q.draft_tokens,
            draft=q.draft,
            losses=losses,
        )
        yield f"decode step at batch {at:.3g}", step
    if (q.kind in SERVICE or q.kind in ("prefill", "static")) and q.input >= 1:
        reader = q.deployment.prefill or layout
        alone = float(reader.data)
        prompt = estimate(
            q.architecture,
            q.system,
            reader,
            batch=alone,
            context=q.input,
            cached_tokens=q.cached_tokens,
            phase="prefill",
            draft=q.draft,
            losses=losses,
        )
        yield f"a prompt of {q.input:g} tokens", prompt


def _seconds(e: Estimate) -> Iterator[tuple[str, str]]:
    yield "time", f"{float(np.asarray(e.time)) * 1e3:.4g} ms"
    for name, value in {**e.terms, **e.lost}.items():
        yield name, f"{float(np.asarray(value)) * 1e3:.4g} ms"


def _commands(q: Question, batch: float) -> Iterator[tuple[str, str]]:
    row = q.row
    engine = "" if row.family not in constants_file.FAMILIES else f" --engine {row.family}"
    layout = q.deployment.layout.text()
    common = f"{row.model or row.model_hf} --on {row.hardware} --gpus {row.gpus} --layout {layout}{engine}"
    if q.kind in ("prefill", "static"):
        yield "estimate", f"rackmath estimate {common} --phase prefill --batch {q.load:g} --context {q.input:g}"
    elif q.kind != "train":
        context = q.context if q.kind == "decode" else q.input + q.output / 2
        yield "estimate", f"rackmath estimate {common} --batch {max(round(batch), 1)} --context {context:g}"
    fields = simulation_fields(q)
    if fields is not None:
        yield "simulate", command(row.model or row.model_hf, fields)
