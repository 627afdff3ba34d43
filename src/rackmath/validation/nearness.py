"""Questions -> what they are of, for evidence to tell near rows from far ones; and their residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rackmath.evidence.configurations import Configuration
from rackmath.evidence.subjects import bits_of_model, kind_of_model, layout_text
from rackmath.validation.groups import Array
from rackmath.validation.kinds import TIMES
from rackmath.validation.questions import Question
from rackmath.validation.ranges import class_of

_FULL = 256.0
"""Sequences per accelerator that stand for as many as memory holds, where distances are measured."""
_HELD = 10.0
"""Seconds that a request stays, roughly, where distances of rates are measured."""


def configuration(question: Question) -> Configuration:
    """What a row was of."""
    row, gpus = question.row, float(question.row.gpus)
    load = question.rate * _HELD if question.kind == "open" else question.load
    prompt = question.context if question.kind == "decode" else question.input
    return Configuration(
        engine=row.family,
        generation=question.system.chip.generation,
        chip=question.system.chip.name,
        model=question.architecture.name,
        kind=kind_of_model(question.architecture),
        question=class_of(question),
        bits=bits_of_model(question.architecture),
        layout=layout_text(question.deployment.prefill, question.deployment.layout),
        source=question.row.publisher,
        year=row.when,
        load=load / gpus if np.isfinite(load) else _FULL,
        input=prompt,
        output=question.output,
        gpus=gpus,
        cached_prefix=question.cached_tokens / question.input if question.input else 0.0,
        draft_tokens=question.draft_tokens,
    )


def residuals(questions: Sequence[Question], computed_values: Array) -> Array:
    """Logarithm of measured over computed time of each row, whatever its unit. (questions,)"""
    measured = np.array([q.row.value for q in questions], dtype=float)
    return signs(questions) * np.log(measured / computed_values)


def signs(questions: Sequence[Question]) -> Array:
    """1 for times, -1 for rates. (questions,)"""
    return np.array([1.0 if q.quantity in TIMES else -1.0 for q in questions])


def unsure(question: Question) -> bool:
    """Whether a row is immature or of low confidence, so that its noise is larger."""
    return question.row.confidence == "low" or question.row.flag("immature")


def records(
    questions: Sequence[Question], computed_values: Array, noise: Array, facts: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of the table of evidence: facts, what each was of (``at_``), computed value, residual, noise."""
    return [
        {name: getattr(q.row, name) for name in facts}
        | {f"at_{name}": value for name, value in asdict(configuration(q)).items()}
        | {"computed": float(value), "residual": float(residual), "noise": float(row_noise)}
        for q, value, residual, row_noise in zip(
            questions, computed_values, residuals(questions, computed_values), noise, strict=True
        )
    ]
