"""Classes of lengths: a mixture of bivariate log-normals, by expectation and maximisation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.traffic.model import LengthClass

F = NDArray[np.float64]

_MOST = 8
"""Classes at most."""
_ROUNDS = 200
_SETTLED = 1e-5
"""Gain of the mean log-likelihood at which a fit ends."""
_NARROWEST = 0.01
"""Standard deviation of a logarithm of tokens below which no class is: one length repeated is no infinite density."""
_SAMPLE = 10_000
"""Requests that classes are fitted to."""
_PARAMETERS = 6
"""Of one class: its share, two means, three of its covariance."""


def length_classes(
    prompt: NDArray[np.int32], output: NDArray[np.int32], random: np.random.Generator
) -> list[LengthClass]:
    """Classes of requests, the most frequent first; their number is that of the least Bayesian information criterion.

    Of more than 10,000 requests as many are drawn.
    """
    logs = np.log(np.stack([prompt, output], axis=1).astype(float))
    if len(logs) > _SAMPLE:
        logs = logs[random.choice(len(logs), _SAMPLE, replace=False)]
    # Whole tokens are spread over their width: short answers would be classes of one length else.
    width = np.log1p(1 / np.exp(logs))
    logs = logs + width * (random.random(logs.shape) - 0.5)
    best, least = (np.ones(1), logs.mean(0)[None], _covariances(logs, np.ones((len(logs), 1)))), np.inf
    for count in range(1, min(_MOST, max(len(logs) // 50, 1)) + 1):
        classes, likelihood = _fitted(logs, count)
        criterion = (_PARAMETERS * count - 1) * np.log(len(logs)) - 2 * len(logs) * likelihood
        if criterion < least:
            best, least = classes, criterion
    shares, means, covariances = best
    order = np.argsort(-shares, kind="stable")
    return [_class(float(shares[k]), means[k], covariances[k]) for k in order]


def _class(share: float, mean: F, covariance: F) -> LengthClass:
    variance = np.diag(covariance)
    tokens, spread = np.exp(mean + variance / 2), np.sqrt(np.expm1(variance))
    return LengthClass(
        share=share,
        input=float(tokens[0]),
        input_spread=float(spread[0]),
        output=float(tokens[1]),
        output_spread=float(spread[1]),
        correlation=float(np.clip(covariance[0, 1] / np.sqrt(variance.prod()), -0.999, 0.999)),
    )


def _fitted(logs: F, count: int) -> tuple[tuple[F, F, F], float]:
    """Shares, means and covariances of so many classes, and the mean log-likelihood."""
    member, before = _begun(logs, count), -np.inf
    for _ in range(_ROUNDS):
        classes = _maximised(logs, member)
        member, likelihood = _expected(logs, *classes)
        if likelihood - before < _SETTLED:
            return classes, likelihood
        before = likelihood
    return _maximised(logs, member), before


def _maximised(logs: F, member: F) -> tuple[F, F, F]:
    """Shares, means and covariances of the greatest likelihood, given who is a member."""
    shares = np.maximum(member.mean(0), 1e-12)
    return shares / shares.sum(), (member.T @ logs) / member.sum(0)[:, None], _covariances(logs, member)


def _expected(logs: F, shares: F, means: F, covariances: F) -> tuple[F, float]:
    """Expected memberships, and the mean log-likelihood of the classes. (requests, classes)"""
    density = np.log(shares) + _log_density(logs, means, covariances)
    top = density.max(1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(density - top).sum(1))
    return np.exp(density - total[:, None]) + 1e-12, float(total.mean())


def _begun(logs: F, count: int) -> F:
    """Memberships to begin with: equal parts along the direction in which lengths vary most."""
    deviations = (logs - logs.mean(0)) / np.maximum(logs.std(0), 1e-9)
    direction = np.linalg.svd(deviations, full_matrices=False)[2][0]
    # Its sign is the library's choice: the larger part is positive here.
    along = deviations @ (direction * np.sign(direction[np.abs(direction).argmax()]))
    rank = np.argsort(np.argsort(along, kind="stable"), kind="stable")
    member = np.full((len(logs), count), 0.1 / count)
    member[np.arange(len(logs)), rank * count // len(logs)] += 0.9
    return member


def _covariances(logs: F, member: F) -> F:
    """(classes, 2, 2)"""
    weight = member.sum(0)
    means = (member.T @ logs) / weight[:, None]
    away = logs[:, None, :] - means
    covariances = np.einsum("nk,nki,nkj->kij", member, away, away) / weight[:, None, None]
    return covariances + _NARROWEST**2 * np.eye(2)


def _log_density(logs: F, means: F, covariances: F) -> F:
    """Of every request in every class. (requests, classes)"""
    away = logs[:, None, :] - means
    distance = np.einsum("nki,kij,nkj->nk", away, np.linalg.inv(covariances), away)
    return -0.5 * (distance + np.log(np.linalg.det(covariances))) - np.log(2 * np.pi)
