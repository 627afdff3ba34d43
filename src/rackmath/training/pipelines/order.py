"""What a schedule is: operations of every rank in their order, and where every stage stands."""

from __future__ import annotations

from dataclasses import dataclass

FORWARD, INPUT, WEIGHT, BACKWARD, BOTH = range(5)
"""Kinds of operations: forward pass; gradient of inputs, of weights, of both at once; a forward pass overlapped with
the whole backward pass of another micro-batch."""
LETTERS = "FIWBO"

Op = tuple[int, int, int, int, int]
"""Kind, stage and micro-batch; for BOTH then the stage and micro-batch that go backward, else -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Operations of every rank in the order in which it does them."""

    name: str
    ranks: int
    microbatches: int
    """That a rank works on in one iteration."""
    place: tuple[int, ...]
    """Rank of each stage; a model that goes through twice has its stages twice."""
    starts: frozenset[int]
    """Stages that take their input from the data."""
    part: float
    """Of a rank's layers, and of its times, that one stage has."""
    operations: tuple[tuple[Op, ...], ...]
    """By rank."""
    returns: int = 0
    """Decoding: the first stage takes the token that the last made this many micro-batches before; 0 for training."""

    @property
    def last(self) -> frozenset[int]:
        """Stages whose output is the loss, or the token."""
        return frozenset({*(start - 1 for start in self.starts if start), len(self.place) - 1})


def forward(stage: int, micro: int) -> Op:
    """One forward pass."""
    return FORWARD, stage, micro, -1, -1


def inputs(stage: int, micro: int) -> Op:
    """Gradient of the inputs."""
    return INPUT, stage, micro, -1, -1


def weights(stage: int, micro: int) -> Op:
    """Gradient of the weights."""
    return WEIGHT, stage, micro, -1, -1


def backward(stage: int, micro: int) -> Op:
    """Both gradients, sent on when both are done."""
    return BACKWARD, stage, micro, -1, -1
