"""Sessions of growing context, as agents and conversations make them."""

from __future__ import annotations

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.graph import Graph, graph_of
from rackmath.serving.simulator.workload import I8, LONGEST, Arrivals, F, checked, lengths, no_blocks, thinking


def agents(
    sessions: F,
    turns: int,
    *,
    first: int,
    turn_tokens: int,
    output: int,
    think_time: float,
    block: int,
    random: np.random.Generator,
    spread: float = 0.0,
    users: int | None = None,
) -> Arrivals:
    """Sessions whose context grows turn by turn; each turn's prompt begins with the whole session so far.

    Parameters
    ----------
    sessions : array
        When each begins; not a number for sessions that follow an earlier one of their user. (sessions,) [s]
    first, turn_tokens, output : int
        Mean tokens of the first prompt, of what a user or tool adds each turn, and of an answer.
    think_time : float
        Mean time between an answer and the next turn, exponential. [s]
    spread : float
        Of these lengths, over their means; log-normal. [1]
    users : int, optional
        Users who take sessions in turn, one after another's end; by default each session is its own.
    """
    for name, value in (("turns", turns), ("first", first), ("output", output), ("block", block)):
        if not 1 <= value <= LONGEST:
            raise InputError(name, value, f"write 1 to {LONGEST:,}")
    count = len(sessions)
    outputs = lengths(output, spread, count * turns, random).reshape(count, turns)
    new_tokens = np.zeros_like(outputs)
    if turn_tokens:
        new_tokens = lengths(turn_tokens, spread, count * turns, random).reshape(count, turns)
    prefixes = lengths(first, spread, count, random)
    before = np.cumsum(outputs + new_tokens, axis=1)[:, :-1]
    prompt = prefixes[:, None] + np.concatenate([np.zeros((count, 1), outputs.dtype), before], axis=1)
    # The last token of an answer is written, not read: it is in no cache.
    whole, stored_blocks = prompt // block, (prompt + outputs - 1) // block
    start = np.concatenate(([0], np.cumsum(stored_blocks.reshape(-1))))
    most = int(stored_blocks.max())
    orders: list[I8] = [s * most + np.arange(int(n)) for s in range(count) for n in stored_blocks[s]]
    arrival = np.full((count, turns), np.nan)
    arrival[:, 0] = sessions
    work = Arrivals(
        arrival=arrival.reshape(-1),
        prompt=prompt.reshape(-1).astype(np.int32),
        output=outputs.reshape(-1).astype(np.int32),
        rank=np.zeros(count * turns, np.int32),
        start=start.astype(np.int64),
        blocks=np.concatenate(orders) if most else no_blocks(),
        answer_blocks=(stored_blocks - whole).reshape(-1).astype(np.int32),
        block=block,
        graph=_turns(count, turns, users or count, thinking(think_time, count * turns, random)),
        task=np.repeat(np.arange(count, dtype=np.int32), turns),
    )
    return checked(work)


def _turns(count: int, turns: int, users: int, pauses: F) -> Graph:
    """Each turn waits for the one before, each session for the end of an earlier one of its user."""
    first = np.arange(count) * turns
    within = (first[:, None] + np.arange(turns - 1)).reshape(-1)
    last = first[: max(count - users, 0)] + turns - 1
    source = np.concatenate((within, last))
    to = np.concatenate((within + 1, first[users:]))
    return graph_of(count * turns, source, to, pauses[source])
