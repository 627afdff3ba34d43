"""One process of a pipeline: its layers, its operations in order, its part of the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from rackmath.training.pipelines.order import BACKWARD, FORWARD, Op

LAYERS = 8
"""Of the whole model, in training and in decoding."""
_WIDTH, _TOKENS = 128, 64
_KV_HEADS, _HEAD, _CONTEXT, _SEQUENCES = 4, 64, 2048, 2
_PAGE = 4096


@dataclass(frozen=True)
class StageJob:
    """One schedule on all stages."""

    operations: tuple[tuple[Op, ...], ...]
    microbatches: int
    pace: float
    """Time that a forward pass of a stage takes at least; a backward one takes twice that. [s]"""
    repeats: int
    seed: int = 0


class Stage(nn.Module):
    """A stage's layers: residual blocks of two matrices, the same whatever the number of stages."""

    def __init__(self, first: int, layers: int, seed: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList()
        for layer in range(first, first + layers):
            generator = torch.Generator().manual_seed(seed + layer)
            self.weights.append(nn.Parameter(torch.randn(_WIDTH, _WIDTH, generator=generator) * _WIDTH**-0.5))

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, width) -> the same."""
        for weight in self.weights:
            x = x + torch.tanh(x @ weight.T)
        return x


def train(rank: int, ranks: int, jobs: Sequence[StageJob]) -> list[dict[str, Any]]:
    """Run one stage's part of several schedules; a worker.

    Returns
    -------
    list of dict
        By schedule: start and end of every operation of each repeat, from a common barrier; waiting activations at
        most; gradient of the first layer's weight; time of a hop to the next rank.
    """
    hop = _hop(rank)
    return [{**_trained(rank, ranks, job), "hop": hop} for job in jobs]


def _hop(rank: int) -> float:
    """Half of the way from the first rank to the second and back, of one micro-batch. [s]"""
    out = torch.zeros(_TOKENS, _WIDTH)
    spans: list[float] = []
    for number in range(20):
        dist.barrier()
        start = perf_counter()
        if rank == 0:
            dist.send(out, 1, tag=number)
            dist.recv(out, 1, tag=number)
        elif rank == 1:
            dist.recv(out, 0, tag=number)
            dist.send(out, 0, tag=number)
        spans.append((perf_counter() - start) / 2)
    return float(np.median(spans))


def _trained(rank: int, ranks: int, job: StageJob) -> dict[str, Any]:
    """Run one stage's operations in their order."""
    per_rank = LAYERS // ranks
    stage = Stage(rank * per_rank, per_rank, job.seed)
    spans: list[list[tuple[float, float]]] = []
    peak = 0
    for _ in range(job.repeats + 1):
        stage.zero_grad()
        waiting: dict[int, tuple[Tensor, Tensor]] = {}
        sends: list[Any] = []
        dist.barrier()
        begin = perf_counter()
        spans.append([])
        for kind, _, micro, _, _ in job.operations[rank]:
            if kind == FORWARD:
                x = batch_of(job.seed, micro) if rank == 0 else _received(rank - 1, micro)
                start = perf_counter()
                x.requires_grad_()
                y = stage(x)
                waiting[micro] = (x, y)
                peak = max(peak, len(waiting))
                out = y.detach()
            else:
                assert kind == BACKWARD, "these schedules run whole backward passes"
                gradient = None if rank == ranks - 1 else _received(rank + 1, micro)
                start = perf_counter()
                x, y = waiting.pop(micro)
                y.backward(2 * y.detach() if gradient is None else gradient)
                assert x.grad is not None, "inputs ask for gradients"
                out = x.grad
            _until(start + job.pace * (1 if kind == FORWARD else 2))
            spans[-1].append((start - begin, perf_counter() - begin))
            to = rank + 1 if kind == FORWARD else rank - 1
            if 0 <= to < ranks:
                sends.append((dist.isend(out, to, tag=micro), out))
        for request, _ in sends:
            request.wait()
    return {"spans": spans[1:], "peak": peak, "gradient": _array(stage.weights[0].grad)}


def _array(gradient: Tensor | None) -> NDArray[np.float32]:
    """Numbers that outlive the process that made them: a tensor would be shared memory of it."""
    assert gradient is not None, "the first layer was trained"
    return gradient.numpy().copy()


def decode(rank: int, ranks: int, pace: float) -> dict[str, float]:
    """Hold a stage's layers of the cache for as many micro-batches as stages, and pass tokens around; a worker."""
    layers = LAYERS // ranks
    before = _resident()
    stage = Stage(rank * layers, layers, 0)
    cache = [torch.randn(layers, 2, _SEQUENCES, _KV_HEADS, _CONTEXT, _HEAD).half() for _ in range(ranks)]
    growth = _resident() - before
    hidden = torch.zeros(_SEQUENCES, _WIDTH)
    sends: list[Any] = []
    passes = 4
    ends: list[float] = []
    dist.barrier()
    begin = perf_counter()
    for number in range(passes * ranks):
        if ranks > 1 and (rank or number >= ranks):
            hidden = _received((rank - 1) % ranks, number if rank else number - ranks, hidden.shape)
        start = perf_counter()
        with torch.no_grad():
            out = stage(hidden)
            # Attention of one token: every key and value of this micro-batch on this stage is read once.
            out = out + cache[number % ranks].float().mean() * 0
        # The whole model takes as long on one stage as on many together.
        _until(start + pace * LAYERS / ranks)
        ends.append(perf_counter() - begin)
        if ranks > 1 and not (rank == ranks - 1 and number >= (passes - 1) * ranks):
            sends.append((dist.isend(out, (rank + 1) % ranks, tag=number), out))
    for request, _ in sends:
        request.wait()
    return {
        "cache": float(sum(tensor.numel() * tensor.element_size() for tensor in cache)),
        "weights": float(sum(w.numel() * w.element_size() for w in stage.weights)),
        "resident": growth,
        "token": (ends[-1] - ends[-1 - ranks]) if len(ends) > ranks else ends[-1] / passes,
    }


def batch_of(seed: int, micro: int) -> Tensor:
    """Tokens of a micro-batch. (tokens, width)"""
    return torch.randn(_TOKENS, _WIDTH, generator=torch.Generator().manual_seed(10_000 + seed + micro))


def _received(source: int, tag: int, shape: Sequence[int] = (_TOKENS, _WIDTH)) -> Tensor:
    out = torch.empty(tuple(shape))
    dist.recv(out, source, tag=tag)
    return out


def _until(moment: float) -> None:
    pause = moment - perf_counter()
    if pause > 0:
        sleep(pause)


def _resident() -> float:
    """Resident memory of this process. [B] 0 where the system does not say."""
    facts = Path("/proc/self/statm")
    return float(facts.read_text(encoding="ascii").split()[1]) * _PAGE if facts.exists() else 0.0
