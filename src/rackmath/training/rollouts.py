"""Reinforcement learning: rollouts at serving's efficiency, training on a share of them, at some lag."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What one step of reinforcement learning does."""

    rollouts: float
    """Answers that are written for a step."""
    answer: float
    """Mean tokens of an answer. [tokens]"""
    prompt: float
    """Mean tokens of a prompt. [tokens]"""
    trained: float = 1.0
    """Part of the rollouts that is trained on. [1]"""
    lag: int = 0
    """Steps by which rollouts may be older than the weights they train: 0 alternates, more runs both side by side."""
    straggle: float = 1.0
    """Longest answer of a step over the mean one, which a step without lag waits for. [1]"""

    def __post_init__(self) -> None:
        for field, value, low, high in (
            ("--rollouts", self.rollouts, 1.0, 1e9),
            ("--answer", self.answer, 1.0, 1e9),
            ("--prompt", self.prompt, 1.0, 1e9),
            ("--trained", self.trained, 1e-6, 1.0),
            ("--lag", float(self.lag), 0.0, 1e4),
            ("--straggle", self.straggle, 1.0, 1e3),
        ):
            if not (isfinite(value) and low <= value <= high):
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCost:
    """One step of the loop. Accelerator seconds unless said."""

    reading: float
    writing: float
    training: float
    refreshing: float
    """Servers that wait for new weights."""
    time: float
    """Of a step on all accelerators. [s]"""
    writers: float
    """Part of the accelerators that write, where both run side by side; 1 where they alternate. [1]"""
    writing_share: float
    """Part of the accelerator time that goes into rollouts. [1]"""
    decode_efficiency: float
    """FLOP/s of writing over those of training: what the lecture calls about 0.3. [1]"""


def loop_cost(
    loop: Loop,
    gpus: float,
    *,
    read: float,
    write: float,
    train: float,
    refresh: float = 0.0,
    flops_read: float,
    flops_train: float,
) -> LoopCost:
    r"""Cost of a step.

    Rollouts cost :math:`R (P c_r + A c_w)`, training :math:`f R (P + A) c_t`. Alternating, a
    step takes both after each other, rollouts as long as their longest; with lag, accelerators are
    divided so that both take the same time t, and nobody waits for the longest. Servers stand still for
    :math:`s` while new weights arrive: with W and T the accelerator seconds of both, n accelerators,

    .. math:: \frac{W}{t - s} + \frac{T}{t} = n

    Parameters
    ----------
    gpus : float
        Accelerators.
    read, write, train : float
        Accelerator time of a token of a prompt, of an answer, and trained on. [GPU s]
    refresh : float
        In which new weights reach all servers. [s]
    flops_read, flops_train : float
        FLOPs of a token in a forward pass, and in training. [FLOP]

    Errors: :class:`InputError` for times that are not positive.
    """
    for field, value in (("read", read), ("write", write), ("train", train), ("gpus", gpus)):
        if not (isfinite(value) and value > 0):
            raise InputError(field, value, "write a positive finite number")
    reading = loop.rollouts * loop.prompt * read
    writing = loop.rollouts * loop.answer * write
    training = loop.trained * loop.rollouts * (loop.prompt + loop.answer) * train
    if not (isfinite(refresh) and refresh >= 0):
        raise InputError("refresh", refresh, "write a time that is not negative")
    rolled = reading + writing
    if loop.lag:
        waits = gpus * refresh
        both = rolled + training + waits
        time = (both + sqrt(both**2 - 4 * training * waits)) / (2 * gpus)
        writers = 1 - training / (gpus * time)
    else:
        time, writers = (reading + writing * loop.straggle + training) / gpus + refresh, 1.0
    return LoopCost(
        reading=reading,
        writing=writing,
        training=training,
        refreshing=writers * gpus * refresh,
        time=time,
        writers=writers,
        writing_share=rolled / (rolled + training),
        decode_efficiency=(flops_read / write) / (flops_train / train),
    )
