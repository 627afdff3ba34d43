"""Rows of one run that contradict each other, by Little's law."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rackmath.validation.questions import Question

TOLERANCE = 1.25
"""Sequences in decode over users, beyond which a time per token is none: tokens that come several at a time, as drafts
do, are timed per message by some load generators. Runs that agree have at most 1.1. [1]"""


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
            if q.quantity == "tpot" and q.row.statistic in ("", "mean") and rates and q.row.value:
                share = max(rates) * q.row.value / q.load
                if share > TOLERANCE:
                    result[q.row.id] = share
    return result


def _tokens_per_second(question: Question) -> float | None:
    """Tokens of answers per second of the whole deployment, if a row says them."""
    part = {"output": 1.0, "total": question.output / max(question.input + question.output, 1.0)}.get(question.quantity)
    if part is None or not question.row.value or question.row.statistic not in ("", "mean"):
        return None
    return part * question.row.value / question.scale
