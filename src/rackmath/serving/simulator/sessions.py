"""Sessions of growing context, as agents and conversations make them."""

from __future__ import annotations

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import I8, LONGEST, NONE, F, Workload, checked, lengths, no_blocks, thinking


def agents(
    sessions: F,
    turns: int,
    *,
    first: int,
    grows: int,
    output: int,
    think: float,
    block: int,
    random: np.random.Generator,
    spread: float = 0.0,
    users: int | None = None,
) -> Workload:
    """Sessions whose context grows turn by turn; each turn's prompt begins with the whole session so far.

    Parameters
    ----------
    sessions : array
        When each begins; not a number for sessions that follow an earlier one of their user. (sessions,) [s]
    first, grows, output : int
        Mean tokens of the first prompt, of what a user or tool adds each turn, and of an answer.
    think : float
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
    made = lengths(output, spread, count * turns, random).reshape(count, turns)
    added = lengths(grows, spread, count * turns, random).reshape(count, turns) if grows else np.zeros_like(made)
    begun = lengths(first, spread, count, random)
    before = np.cumsum(made + added, axis=1)[:, :-1]
    prompt = begun[:, None] + np.concatenate([np.zeros((count, 1), made.dtype), before], axis=1)
    whole = prompt // block
    start = np.concatenate(([0], np.cumsum(whole.reshape(-1))))
    most = int(whole.max())
    orders: list[I8] = [s * most + np.arange(int(n)) for s in range(count) for n in whole[s]]
    ids = np.concatenate(orders) if most else no_blocks()
    arrival = np.full((count, turns), np.nan)
    arrival[:, 0] = sessions
    then = np.arange(count * turns, dtype=np.int32).reshape(count, turns) + 1
    following = np.arange(count) + (users or count)
    then[:, -1] = np.where(following < count, following * turns, NONE)
    work = Workload(
        arrival=arrival.reshape(-1),
        prompt=prompt.reshape(-1).astype(np.int32),
        output=made.reshape(-1).astype(np.int32),
        rank=np.zeros(count * turns, np.int32),
        start=start.astype(np.int64),
        blocks=ids.astype(np.int64),
        block=block,
        then=then.reshape(-1),
        think=thinking(think, count * turns, random),
    )
    return checked(work)
