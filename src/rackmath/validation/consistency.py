"""Rows that contradict each other: of one run by Little's law, of two runs that print the same numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations

from rackmath.validation.questions import Question

TOLERANCE = 1.25
"""Sequences in decode over users, beyond which a time per token is none: some servers send several tokens at a time,
which load generators time per message. Runs that agree have at most 1.1. [1]"""
NUMBERS = 5
"""Equal numbers of two runs from which chance is no reason."""


def beyond_users(questions: Sequence[Question]) -> dict[str, float]:
    r"""Rows of mean time per token that need more sequences at once than there are users.

    .. math:: X \, t \leq C

    with X tokens of answers per second of the whole deployment, of the same run, and t the time per token: by Little's
    law their product is the number of sequences that decode. Where C users wait for their answers no more do.

    Returns
    -------
    dict of str to float
        Sequences that the rows imply over users, by id of the row.
    """
    runs: defaultdict[str, list[Question]] = defaultdict(list)
    for q in questions:
        if q.kind == "closed" and q.row.run_id:
            runs[q.row.run_id].append(q)
    result: dict[str, float] = {}
    for run in runs.values():
        rates = [rate for q in run if (rate := _tokens_per_second(q)) is not None]
        for q in run:
            per_token = q.quantity == "tpot" or (q.quantity == "itl" and not q.draft_tokens)
            if per_token and q.row.statistic in ("", "mean") and rates and q.row.value:
                share = max(rates) * q.row.value / q.load
                if share > TOLERANCE:
                    result[q.row.id] = share
    return result


def copies(questions: Sequence[Question]) -> dict[str, str]:
    """Rows of runs whose numbers are all those of a run on other accelerators: one of the two was copied.

    Two measurements do not agree in five numbers to the last digit; which of them is the wrong one nobody can tell.

    Returns
    -------
    dict of str to str
        The other run, by id of the row.
    """
    runs: defaultdict[str, list[Question]] = defaultdict(list)
    for q in questions:
        if q.row.run_id:
            runs[q.row.run_id].append(q)
    alike: defaultdict[tuple[tuple[str, str, float], ...], list[str]] = defaultdict(list)
    for run, rows in runs.items():
        numbers = sorted((q.row.metric, q.row.statistic, q.row.value) for q in rows if q.row.value is not None)
        if len(numbers) >= NUMBERS:
            alike[tuple(numbers)].append(run)
    chips = {run: rows[0].system.chip.name for run, rows in runs.items()}
    return {
        q.row.id: second_run
        for group in alike.values()
        for run, second_run in permutations(group, 2)
        if chips[run] != chips[second_run]
        for q in runs[run]
    }


def _tokens_per_second(question: Question) -> float | None:
    """Tokens of answers per second of the whole deployment, if a row says them."""
    part = {"output": 1.0, "total": question.output / max(question.input + question.output, 1.0)}.get(question.quantity)
    if part is None or not question.row.value or question.row.statistic not in ("", "mean"):
        return None
    return part * question.row.value / question.scale
