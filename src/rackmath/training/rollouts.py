"""Reinforcement learning: answers written token after token on servers, training on a share of them, at some lag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]

StepTime = Callable[[Array, Array], Array]
"""Time of a decode step by sequences and their mean context: (parts,), (parts,) -> (layouts, parts) [s]"""

_EVEN, _LATE = 33, 64
"""Parts of a step's answers: evenly by number, and geometrically towards the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What one step of reinforcement learning does."""

    rollouts: float
    """Answers that are written for a step."""
    answer: float
    """Mean tokens of an answer. [tokens]"""
    prompt: float
    """Mean tokens of a prompt. [tokens]"""
    training_share: float = 1.0
    """Part of the rollouts that is trained on. [1]"""
    lag: int = 0
    """Steps by which rollouts may be older than the weights they train: 0 alternates, more runs both side by side."""
    straggler_ratio: float = 1.0
    """Longest answer of a step over the mean one. [1]"""

    def __post_init__(self) -> None:
        for field, value, low, high in (
            ("--rollouts", self.rollouts, 1.0, 1e9),
            ("--answer", self.answer, 1.0, 1e9),
            ("--prompt", self.prompt, 1.0, 1e9),
            ("--training-share", self.training_share, 1e-6, 1.0),
            ("--lag", float(self.lag), 0.0, 1e4),
            ("--straggler-ratio", self.straggler_ratio, 1.0, 1e3),
        ):
            if not (isfinite(value) and low <= value <= high):
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Servers:
    """How fast one server writes and reads, in each of its layouts."""

    gpus: int
    """Accelerators of one server."""
    step: StepTime
    sequences: Array
    """Answers that each layout runs at once. (layouts,) [sequences]"""
    read: float
    """Time in which a server reads one token of prompts, in filled passes. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCost:
    """One step of the loop."""

    time: float
    """From one update of the weights to the next. [s]"""
    reading_time: float
    """Prompts of a step, on the servers that write. [s]"""
    writing_time: float
    """Answers of a step, the longest one included; per step where several are in flight. [s]"""
    training_time: float
    """Of one step, on the accelerators that train. [s]"""
    refresh_time: float
    """Servers wait for new weights. [s]"""
    servers: int
    """Servers that write."""
    rollouts_per_server: float
    """Answers of a step on the fullest server. [sequences]"""
    at_once: float
    """Answers that a server runs at once, at most. [sequences]"""
    layout: int
    """Which layout of a server writes soonest."""
    trainers: float
    """Accelerators that train: all where both alternate."""
    writing_share: float
    """Part of the accelerator time that servers take, of servers and training together. [1]"""
    decode_efficiency: float
    """FLOP/s of an accelerator that writes over those of one that trains: what the lecture calls about 0.3. [1]"""

    @property
    def generation_time(self) -> float:
        """Prompts and answers of a step. [s]"""
        return self.reading_time + self.writing_time


def writing_time(sequences: float, loop: Loop, at_once: Array, step: StepTime) -> Array:
    r"""Time in which one server writes some answers, each one token after the other, in each layout. (layouts,) [s]

    The part u of the answers has at most :math:`q(u) = s A u^{s-1}` tokens: A in the mean and s A at most. Of n
    answers that start together :math:`n (1 - u)` still run at token q(u), so that

    .. math:: T = \int_0^{sA} \tau(n (1 - u), P + q) \, dq \ge s A \, \tau(1)

    with the time of a step at the batch that is left. Where a server runs no more than K at once, the n - K others
    take the places of those that end, K at a time, and the last K end as above.

    Parameters
    ----------
    sequences : float
        Answers of this server, all of one step or of all steps in flight. [sequences]
    at_once : array
        Answers that run at once in each layout, 0 where none does: its time is infinite. (layouts,)
    """
    spread, mean = loop.straggler_ratio, loop.answer
    shares = np.concatenate([np.linspace(1, 0, _EVEN), np.geomspace(1, 0.1 / max(sequences, 1.0), _LATE)])
    shares = np.unique(shares)[::-1]
    ends = spread * mean * (1 - shares) ** (spread - 1)
    tokens = np.diff(np.concatenate([[0.0], ends]))
    running = np.concatenate([[1.0], (shares[1:] + shares[:-1]) / 2])
    context = loop.prompt + ends - tokens / 2
    most = np.minimum(np.maximum(at_once, 1.0), sequences)[:, None]
    ending = (tokens * step(np.maximum(most * running, 1.0), context[None, :])).sum(axis=1)
    # A token of a running answer has as many before it, in the mean, as E[q^2] / 2 E[q].
    age = spread**2 * mean / (2 * (2 * spread - 1))
    steady = step(most, np.full((1, 1), loop.prompt + age))[:, 0]
    refill_time = (sequences / most[:, 0] - 1) * mean * steady
    return np.where(at_once >= 1, refill_time + ending, np.inf)


def loop_cost(
    loop: Loop,
    gpus: int,
    servers: Servers,
    *,
    train: float,
    refresh: float = 0.0,
    flops_read: float,
    flops_train: float,
) -> LoopCost:
    r"""Time of a step, and what it is spent on.

    Alternating, all accelerators write, take the new weights' place, and train:
    :math:`t = T_{gen} + T_{train} + t_{refresh}`. With a lag of l steps some write and the others train:
    :math:`t = \max(T_{gen} + t_{refresh}, T_{train})` at the best whole number of servers. The answers of l steps are
    then in flight together, :math:`T_{gen}(R) = T(l R) / l`: one step off waits for its longest answer as before,
    and more of a lag hides it.

    Parameters
    ----------
    gpus : int
        Accelerators.
    train : float
        Accelerator time of a token that is trained on. [GPU s]
    refresh : float
        In which new weights reach all servers. [s]
    flops_read, flops_train : float
        FLOPs of a token in a forward pass, and in training. [FLOP]

    Errors: :class:`InputError` for times that are not positive, and for fewer accelerators than servers need.
    """
    if not (isfinite(train) and train > 0):
        raise InputError("train", train, "write a positive finite number")
    if not (isfinite(refresh) and refresh >= 0):
        raise InputError("refresh", refresh, "write a time that is not negative")
    beside = 1 if loop.lag else 0
    room = (gpus - beside) // servers.gpus
    if room < 1:
        raise InputError("--gpus", gpus, f"take more: a server has {servers.gpus} and training needs some of its own")
    training = loop.training_share * loop.rollouts * (loop.prompt + loop.answer) * train
    flight = max(loop.lag, 1)

    def at(many: int) -> LoopCost:
        per_replica = ceil(loop.rollouts / many)
        writing = writing_time(float(per_replica * flight), loop, servers.sequences, servers.step) / flight
        layout = int(writing.argmin())
        trainers = float(gpus - many * servers.gpus) if loop.lag else float(gpus)
        reading = per_replica * loop.prompt * servers.read
        generation, training_time = reading + float(writing[layout]), training / trainers
        time = max(generation + refresh, training_time) if loop.lag else generation + refresh + training_time
        writing_seconds = many * servers.gpus * float(writing[layout])
        gpu_seconds = writing_seconds + many * servers.gpus * reading
        return LoopCost(
            time=time,
            reading_time=reading,
            writing_time=float(writing[layout]),
            training_time=training_time,
            refresh_time=refresh,
            servers=many,
            rollouts_per_server=float(per_replica),
            at_once=float(min(servers.sequences[layout], per_replica * flight)),
            layout=layout,
            trainers=trainers,
            writing_share=gpu_seconds / (gpu_seconds + training),
            decode_efficiency=(loop.rollouts * loop.answer * flops_read / writing_seconds) / (flops_train / train),
        )

    if not loop.lag:
        return at(room)
    # More servers write sooner and leave less for training: the best number stands where both meet.
    low, high = 1, room
    while low < high:
        middle = (low + high) // 2
        state = at(middle)
        if state.generation_time + refresh > state.training_time:
            low = middle + 1
        else:
            high = middle
    return min((at(n) for n in {max(low - 1, 1), low}), key=lambda state: state.time)
