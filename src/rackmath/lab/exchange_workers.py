"""One process of an expert-parallel layer: routing, sending, summing, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from rackmath.lab.machine import Timing

HIDDEN, EXPERTS, CHOSEN = 1024, 32, 4
LAYERS = 8
"""Of the model whose reductions are compared."""
_CALIBRATED = (2**14, 2**24)
"""Payloads between which latency and bandwidth are read. [B]"""


@dataclass(frozen=True)
class ExchangeJob:
    """What every rank does."""

    tokens: tuple[int, ...]
    repeats: int
    slow: float
    """Bandwidth of the second network between the halves of the ranks; infinite for one rack. [B/s]"""
    seed: int = 0


def calibrate(rank: int, ranks: int, repeats: int) -> dict[str, list[tuple[int, float]]]:
    """Times of even exchanges and of reductions at two payloads; a worker."""
    exchange_points: list[tuple[int, float]] = []
    reduction_points: list[tuple[int, float]] = []
    for size in _CALIBRATED:
        payload = torch.zeros(size, dtype=torch.uint8)
        out = torch.empty_like(payload)
        exchange_points.append((size, _timed(lambda p=payload, o=out: dist.all_to_all_single(o, p), repeats).median))
        numbers = torch.zeros(size // 4)
        reduction_points.append((size, _timed(lambda n=numbers: dist.all_reduce(n), repeats).median))
    return {"exchange": exchange_points, "reduce": reduction_points}


def exchange(rank: int, ranks: int, job: ExchangeJob) -> list[dict[str, Any]]:
    """Route random tokens, send them to the ranks of their experts and the sums back; a worker."""
    rows: list[dict[str, Any]] = []
    for tokens in job.tokens:
        generator = torch.Generator().manual_seed(job.seed + 1000 * rank + tokens)
        experts = torch.rand(tokens, EXPERTS, generator=generator).topk(CHOSEN).indices
        owner = experts // (EXPERTS // ranks)
        # A token goes once to each rank that holds any of its experts.
        needs = torch.zeros(tokens, ranks, dtype=torch.bool).scatter_(1, owner, True)
        payload = torch.randint(0, 100, (tokens, HIDDEN), generator=generator, dtype=torch.uint8)
        going = [payload[needs[:, to]].reshape(-1) for to in range(ranks)]
        counts = torch.tensor([stream.numel() for stream in going])
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts)
        arrivals = [torch.empty(int(n), dtype=torch.uint8) for n in coming]
        dispatch = _timed(lambda g=going, a=arrivals: _send(rank, ranks, g, a, job.slow), job.repeats)
        back = [request.to(torch.int16) * 2 for request in arrivals]
        returns = [torch.empty(stream.numel(), dtype=torch.int16) for stream in going]
        combine = _timed(lambda b=back, r=returns: _send(rank, ranks, b, r, job.slow), job.repeats)
        sums = torch.zeros(tokens, HIDDEN, dtype=torch.int32)
        for to, part in enumerate(returns):
            sums[needs[:, to]] += part.view(-1, HIDDEN).int()
        # Every expert's rank doubled the token: the sum says how many ranks there were.
        right = bool((sums == 2 * payload.int() * needs.sum(1, keepdim=True).int()).all())
        bytes_out = sum(stream.numel() for to, stream in enumerate(going) if to != rank)
        rows.append({"tokens": tokens, "bytes": bytes_out, "dispatch": dispatch, "combine": combine, "right": right})
    return rows


def reduce_both(rank: int, ranks: int, job: ExchangeJob) -> dict[str, Any]:
    """Sum one step's gradients, and a forward pass's partial results of tensor parallelism; a worker."""
    per_layer = 12 * HIDDEN**2
    gradients = torch.zeros(LAYERS * per_layer // ranks)
    data = _timed(lambda: dist.all_reduce(gradients), job.repeats)
    tensor: list[Timing] = []
    sizes: list[int] = []
    for tokens in job.tokens:
        partial = torch.zeros(tokens, HIDDEN)

        def both(part: Tensor = partial) -> None:
            for _ in range(2 * LAYERS):
                dist.all_reduce(part)

        tensor.append(_timed(both, job.repeats))
        sizes.append(2 * LAYERS * partial.numel() * 4)
    return {"gradient_bytes": gradients.numel() * 4, "data": data, "tensor": tensor, "tensor_bytes": sizes}


def _send(rank: int, ranks: int, going: Sequence[Tensor], arrivals: Sequence[Tensor], slow: float) -> None:
    """Send to every rank; bytes for the other rack sleep first, as long as the slower network would take."""
    half = ranks // 2
    near = [to for to in range(ranks) if to != rank and (slow == float("inf") or to // half == rank // half)]
    far = [to for to in range(ranks) if to != rank and to not in near]
    arrivals[rank].copy_(going[rank])
    pending = [dist.irecv(arrivals[source], source) for source in (*near, *far)]
    start = perf_counter()
    pending += [dist.isend(going[to], to) for to in near]
    if far:
        crossing = sum(going[to].numel() * going[to].element_size() for to in far)
        sleep(max(crossing / slow - (perf_counter() - start), 0.0))
        pending += [dist.isend(going[to], to) for to in far]
    for work in pending:
        if work is not None:
            work.wait()


def _timed(work: Callable[[], object], repeats: int) -> Timing:
    """Repeats of a piece of work that all ranks begin together."""
    spans: list[float] = []
    for i in range(repeats + 1):
        dist.barrier()
        start = perf_counter()
        work()
        if i:
            spans.append(perf_counter() - start)
    low, median, high = np.quantile(spans, (0.1, 0.5, 0.9))
    return Timing(median=float(median), low=float(low), high=float(high))
