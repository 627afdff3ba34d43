"""Hyperparameters of the process over residuals, by gradients of what groups left out say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs

from rackmath.evidence.configurations import AMOUNTS, NAMES, Configurations
from rackmath.evidence.kernel import Part, covariance
from rackmath.evidence.posterior import Process

_LOADS = ("load", "input", "output", "gpus", "cached_prefix", "draft_tokens")
STRUCTURE: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "engine on a generation": (
        ("engine", "generation"), ("question", "kind", "chip", "bits"), ("year", "load", "input")
    ),
    "kind of model on a generation": (("generation", "kind"), ("question", "bits", "engine"), ("load", "input")),
    "model on a generation": (
        ("model", "generation"), ("question", "engine", "chip", "bits"), ("load", "input", "gpus")
    ),
    "deployment": (("model", "chip", "engine"), ("question", "bits", "layout"), ("year", *_LOADS)),
    "source": (("source",), ("question", "engine", "generation", "kind"), ("load", "input")),
    "model of a source": (("source", "model"), ("question", "engine", "chip", "bits"), ("load", "input", "gpus")),
    "deployment of a source": (
        ("source", "model", "chip", "engine"), ("question", "bits", "layout"), ("year", *_LOADS)
    ),
}  # fmt: skip
"""Parts: names that have to agree, names that may differ at a price, amounts that matter."""
_LENGTHS = {
    "year": 1.0,
    "load": 1.5,
    "input": 1.5,
    "output": 1.5,
    "gpus": 1.0,
    "cached_prefix": 0.5,
    "draft_tokens": 2.0,
}
_SHORTEST = {"year": 1.0}
"""Shortest lengths. Dates that tell within less than a year tell sources apart, which are dated as a whole."""
UNKNOWN_SOURCE_WEIGHT = 0.5
"""Part of an expected residual that is kept where the source is unknown: of 0, 1/4, 1/2, 3/4 and 1 the one of least
median error with sources left out, on the sources that choices may look at."""
_TARGETS, _ROWS = 64, 400
"""Rows of a group that are predicted in one step, and rows that they are predicted from."""
_STEPS = (900, 700)
_ABSOLUTE = 3.0
"""Weight of the absolute error beside the likelihood."""
_NOTHING = 1e-15
"""Covariance that is taken to be none."""
_FREEDOM, _MOST = 4.0, 400.0
"""Degrees of freedom of a row's noise, and how much larger than usual its variance may be."""

Array = NDArray[np.float64]
Ints = NDArray[np.intp]


class _Parameters:
    """Logarithms of all hyperparameters."""

    def __init__(self) -> None:
        def of(values: list[float]) -> torch.Tensor:
            return torch.tensor([math.log(v) for v in values], dtype=torch.float64, requires_grad=True)

        self.deviation = {name: of([0.15]) for name in STRUCTURE}
        self.differs = {name: of([0.7] * len(soft)) for name, (_, soft, _) in STRUCTURE.items()}
        self.length = {name: of([_LENGTHS[a] for a in amounts]) for name, (_, _, amounts) in STRUCTURE.items()}
        self.noise, self.unsure, self.freedom = of([0.08]), of([2.0]), of([3.0])

    def all(self) -> list[torch.Tensor]:
        """Everything that is learned."""
        return [
            *self.deviation.values(), *self.differs.values(), *self.length.values(), self.noise, self.unsure,
            self.freedom,
        ]  # fmt: skip

    def keep_within(self) -> None:
        """Hold hyperparameters where they mean something."""
        with torch.no_grad():
            for name in STRUCTURE:
                self.deviation[name].clamp_(math.log(0.01), 0.0)
                self.differs[name].clamp_(math.log(0.01), math.log(20.0))
                shortest = [math.log(_SHORTEST.get(amount, 0.15)) for amount in STRUCTURE[name][2]]
                least = torch.tensor(shortest, dtype=torch.float64)
                self.length[name].clamp_(min=least).clamp_(max=math.log(30.0))

    def parts(self) -> tuple[Part, ...]:
        """The same as records."""
        result: list[Part] = []
        for name, (must, soft, amounts) in STRUCTURE.items():
            weights = torch.exp(self.differs[name]).detach().tolist()
            lengths = torch.exp(self.length[name]).detach().tolist()
            result.append(
                Part(
                    name=name,
                    deviation=float(torch.exp(self.deviation[name]).detach()),
                    differs=dict.fromkeys(must, math.inf) | dict(zip(soft, weights, strict=True)),
                    length=dict(zip(amounts, lengths, strict=True)),
                )
            )
        return tuple(result)


def learned(
    columns: Configurations,
    groups: Mapping[str, Ints],
    residual: Mapping[str, Callable[[int], Array]],
    chosen: NDArray[np.bool_],
    sure: NDArray[np.bool_],
    in_sample: Array,
) -> tuple[Process, Array]:
    """Process without its quantiles, and the factor on the variance of each row's noise. (rows,)

    Parameters
    ----------
    groups, residual
        By way of leaving out: the group of each row, and residuals of all rows by constants that never saw a row.
    chosen
        Rows that learning may look at.
    sure
        Rows that are neither immature nor of low confidence.
    in_sample
        Residuals under the shipped constants, which decide who is an outlier.
    """
    torch.manual_seed(0)
    p = _Parameters()
    factor, noise = np.ones(len(columns)), math.nan
    for seed, steps in enumerate(_STEPS):
        _descend(p, columns, groups, residual, chosen, sure, factor, steps, seed)
        noise = float(torch.exp(p.noise).detach()[0])
        kind = np.where(sure, 1.0, 1 + float(torch.exp(p.unsure).detach()[0]))
        factor = kind * outliers(p.parts(), noise**2 * kind, columns, in_sample)
        print(f"round {seed + 1}: noise {noise:.3f}, {np.mean(factor > 4):.1%} of the rows are outliers", flush=True)
    return Process(parts=p.parts(), noise=noise, unknown_source_weight=UNKNOWN_SOURCE_WEIGHT, quantile={}), factor


def row_noise(noise: float, factor: Array) -> Array:
    """Standard deviation of each row's own noise. (rows,)"""
    return noise * np.sqrt(factor)


def _descend(
    p: _Parameters,
    columns: Configurations,
    groups: Mapping[str, Ints],
    residual: Mapping[str, Callable[[int], Array]],
    chosen: NDArray[np.bool_],
    sure: NDArray[np.bool_],
    factor: Array,
    steps: int,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(p.all(), lr=0.05 if not seed else 0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, 0.003)
    for step in range(steps):
        way = random.choice(list(groups))
        group = groups[way]
        names, sizes = np.unique(group[chosen], return_counts=True)
        left = (group == random.choice(names, p=np.sqrt(sizes) / np.sqrt(sizes).sum())) & chosen
        r = residual[way](int(np.flatnonzero(left)[0]))
        target = np.flatnonzero(left & np.isfinite(r))
        if len(target) < 3:
            continue
        target = random.choice(target, min(_TARGETS, len(target)), replace=False)
        others = np.flatnonzero(~left & chosen & np.isfinite(r))
        toward = covariance(p.parts(), columns.take(target), columns.take(others)).max(axis=0)
        near = others[np.argsort(-toward)[:_ROWS]]
        loss = _loss(p, columns, r, target, near, sure, factor)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.all(), 2.0)
        optimiser.step()
        schedule.step()
        p.keep_within()
        if step % 100 == 99:
            print(f"step {step + 1} of {steps}: loss {float(loss.detach()):.3f}", flush=True)


def _loss(
    p: _Parameters,
    columns: Configurations,
    r: Array,
    target: Ints,
    near: Ints,
    sure: NDArray[np.bool_],
    factor: Array,
) -> torch.Tensor:
    """Minus the likelihood of the left-out rows, and their absolute error."""

    def noise(rows: Ints) -> torch.Tensor:
        kind = 1 + torch.exp(p.unsure) * torch.as_tensor(~sure[rows])
        return torch.exp(2 * p.noise) * kind * torch.as_tensor(np.where(sure[rows], factor[rows], 1.0))

    among = _covariance(p, columns, near, near) + torch.diag(noise(near))
    toward = _covariance(p, columns, target, near)
    lower = torch.linalg.cholesky(among)
    expected = toward @ torch.cholesky_solve(torch.as_tensor(r[near])[:, None], lower)[:, 0]
    half = torch.linalg.solve_triangular(lower, toward.T, upper=False)
    prior = sum(torch.exp(2 * d) for d in p.deviation.values())
    square = prior - (half * half).sum(0) + noise(target)
    error = torch.as_tensor(r[target]) - expected
    n = torch.exp(p.freedom) + 1
    likelihood = (
        torch.lgamma((n + 1) / 2) - torch.lgamma(n / 2) - 0.5 * torch.log(n * math.pi * square)
        - (n + 1) / 2 * torch.log1p(error**2 / (n * square))
    )  # fmt: skip
    return -likelihood.mean() + _ABSOLUTE * error.abs().mean()


def _covariance(p: _Parameters, columns: Configurations, left: Ints, right: Ints) -> torch.Tensor:
    """The covariance of :mod:`rackmath.evidence.kernel`, with gradients."""
    a, b = columns.take(left), columns.take(right)
    differs = {
        name: torch.as_tensor((a.names[:, None, i] != b.names[None, :, i]) | (a.names[:, None, i] < 0)).double()
        for i, name in enumerate(NAMES)
    }
    square = {n: torch.as_tensor((a.amounts[:, None, i] - b.amounts[None, :, i]) ** 2) for i, n in enumerate(AMOUNTS)}
    total = torch.zeros(len(left), len(right), dtype=torch.float64)
    for name, (must, soft, amounts) in STRUCTURE.items():
        exponent = torch.zeros_like(total)
        same = torch.ones_like(total)
        for n in must:
            same = same * (1 - differs[n])
        for i, n in enumerate(soft):
            exponent = exponent + torch.exp(p.differs[name][i]) * differs[n]
        for i, n in enumerate(amounts):
            exponent = exponent + 0.5 * square[n] * torch.exp(-2 * p.length[name][i])
        total = total + torch.exp(2 * p.deviation[name]) * same * torch.exp(-exponent)
    return total


def outliers(parts: tuple[Part, ...], variance: Array, columns: Configurations, residual: Array) -> Array:
    """Factor on each row's variance under Student-t noise, by expectation and maximisation. (rows,)"""
    rows = np.flatnonzero(np.isfinite(residual))
    some, own = columns.take(rows), variance[rows]
    whole = np.concatenate(
        [covariance(parts, some.take(piece), some) for piece in np.array_split(np.arange(len(rows)), 16)]
    )
    # Numbers near the smallest that there are make arithmetic a hundred times slower, and say nothing here.
    whole[whole < _NOTHING] = 0.0
    factor = np.ones(len(rows))
    for _ in range(2):
        among = whole.copy()
        among[np.diag_indices_from(among)] += own * factor
        noise = own * factor
        lower = cholesky(among, lower=True, overwrite_a=True, check_finite=False)
        error = noise * cho_solve((lower, True), residual[rows], check_finite=False)
        # The diagonal of the inverse alone: columns of the inverted triangle, squared and added up.
        invert: Any = get_lapack_funcs("trtri", (lower,))
        half, _ = invert(lower, lower=1, overwrite_c=1)
        square = error**2 + np.maximum(noise - noise**2 * (half**2).sum(axis=0), 0.0)
        factor = np.clip((_FREEDOM + square / own) / (_FREEDOM + 1), 0.3, _MOST)
    result = np.ones(len(residual))
    result[rows] = factor
    return result
