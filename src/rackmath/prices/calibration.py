"""How open-weight models of known size are priced: the market's constants, fitted on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.prices.decode import Offer
from rackmath.prices.importance import draw
from rackmath.prices.market import RIDGE, Kind, Market, log_prices, normal_log, student_log

Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_START = np.array([np.log(0.02), 0.2, np.log(8192.0), np.log(450.0), np.log(0.5), np.log(0.6), np.log(0.3)])
"""Level, economy, chunk, batch, and the logarithms of the scales of batch, level and ratio."""
_WIDTH = np.array([2.0, 0.3, 1.0, 1.0, 0.5, 0.5, 0.5])
"""Weak priors around them."""
_DENSE = 1.05
"""Total over active parameters below which a model is dense."""
_LEAST_MODELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A model of known size and what hosts ask for it."""

    model: str
    group: str
    """Models that share an architecture; a group counts once."""
    active: float
    """Parameters, in billions."""
    total: float
    """Parameters, in billions."""
    cache: float
    """Stored bytes per token at 16 bit."""
    read: float
    """Bytes read per token of context in a step, at 16 bit; fewer than stored where attention is sparse."""
    offers: tuple[Offer, ...]


def fit_market(
    known: Sequence[Known],
    year: float,
    basis: str,
    speeds: Sequence[tuple[float, float]],
    attention: Sequence[float],
    streams: Sequence[float],
) -> Market:
    """Constants of the market that known models show.

    Parameters
    ----------
    known : sequence of Known
        Models, of which all offers have an input and an output price.
    speeds : sequence of (active parameters in billions, tokens per second)
        Measured, one per model.
    attention : sequence of float
        Contexts at which attention takes as many FLOPs as the weights, one per architecture. [tokens]

    streams : sequence of float
        Logarithm of a model's active parameters per second over those of others on the same chips, one per model.

    Errors: :class:`InputError` for fewer than four dense or four sparse models.
    Notes: the batch of each model is integrated out; a group of models of one architecture weighs as one.
    """
    active = np.log([model.active for model in known])
    sparsity = np.log([model.total / model.active for model in known])
    sparse = sparsity > np.log(_DENSE)
    if min(sparse.sum(), (~sparse).sum()) < _LEAST_MODELS:
        raise InputError("models", len(known), f"give at least {_LEAST_MODELS} dense and {_LEAST_MODELS} sparse ones")
    groups = [model.group for model in known]
    weights = np.array([1 / groups.count(group) for group in groups])
    pairs = [_pairs(model) for model in known]
    middles = np.array([np.median(pair, axis=0) for pair in pairs])
    level, ratio = _between_hosts(pairs)
    counts = np.array([len(pair) for pair in pairs], dtype=float)

    def log_density(points: Array) -> Array:
        start, economy, chunk, batch, *scales = (column[:, None, None] for column in points.T)
        batch_scale, level_scale, ratio_scale = (np.exp(scale) for scale in scales)
        size, many = active[:, None], np.where(sparse, sparsity, 0.0)[:, None]
        inputs, outputs = log_prices(size, many, batch + batch_scale * _NODES, start, economy, chunk)
        off_in, off_out = middles[:, :1] - inputs, middles[:, 1:] - outputs
        found = student_log((off_in + off_out) / 2, level_scale**2 + (level**2 / counts)[:, None])
        found = found + normal_log(off_out - off_in, ratio_scale**2 + (ratio**2 / counts)[:, None])
        found = found + np.log(_NODE_WEIGHTS / _NODE_WEIGHTS.sum())
        top = found.max(axis=2, keepdims=True)
        each = top[..., 0] + np.log(np.exp(found - top).sum(axis=2))
        return each @ weights - (((points - _START) / _WIDTH) ** 2).sum(axis=1) / 2

    draws = draw(log_density, _START, _WIDTH / 3, effective=3000)
    start, economy, chunk, batch, *scales = (float(value) for value in draws.weights @ draws.points)
    speed = np.log(np.array(speeds))
    slope = np.polyfit(speed[:, 0], speed[:, 1], 1)
    cache = np.log([model.cache for model in known])
    # Known at 16 bit, read at 8.
    read = np.log([model.read / 2 for model in known])
    crossover = active + np.log(1e9) - np.log(RIDGE) - read
    center, cross = (float(np.average(logs, weights=weights)) for logs in (cache, crossover))
    contexts = np.log(attention)
    return Market(
        dense=_kind(active[~sparse], sparsity[~sparse], weights[~sparse], weights.sum(), dense=True),
        sparse=_kind(active[sparse], sparsity[sparse], weights[sparse], weights.sum(), dense=False),
        level=start,
        level_scale=float(np.exp(scales[1])),
        economy=economy,
        chunk=chunk,
        batch=batch,
        batch_scale=float(np.exp(scales[0])),
        ratio_scale=float(np.exp(scales[2])),
        host_level=level,
        host_ratio=ratio,
        cache=center,
        cache_scale=float(np.sqrt(np.average((cache - center) ** 2, weights=weights))),
        crossover=cross,
        crossover_scale=float(np.sqrt(np.average((crossover - cross) ** 2, weights=weights))),
        attention=float(np.mean(contexts)),
        attention_scale=float(np.std(contexts, ddof=1)),
        speed=float(slope[1]),
        speed_slope=-float(slope[0]),
        speed_scale=float(np.std(speed[:, 1] - np.polyval(slope, speed[:, 0]), ddof=2)),
        stream_scale=float(np.sqrt(np.mean(np.square(streams)))),
        year=year,
        basis=basis,
    )


def _pairs(model: Known) -> Array:
    """Logarithms of the different (input, output) prices. (offers, 2)"""
    asked = sorted({(o.input, o.output) for o in model.offers if o.input is not None and o.output is not None})
    if not asked:
        raise InputError("offers", model.model, "needs an offer with an input and an output price")
    return np.log(np.array(asked, dtype=float))


def _between_hosts(pairs: Sequence[Array]) -> tuple[float, float]:
    """Spread between hosts of one model: of the mean of both prices, and of their ratio."""
    many = [pair - pair.mean(axis=0) for pair in pairs if len(pair) > 1]
    free = sum(len(pair) - 1 for pair in many)
    off = np.concatenate(many)
    level, ratio = off.mean(axis=1), off[:, 1] - off[:, 0]
    return float(np.sqrt(np.sum(level**2) / free)), float(np.sqrt(np.sum(ratio**2) / free))


def _kind(active: Array, sparsity: Array, weights: Array, everything: float, *, dense: bool) -> Kind:
    """Mean and spread of the models of a kind, widened for how few they are."""
    part = weights / weights.sum()
    worth = 1 / float(np.sum(part**2))
    wider = worth / (worth - 1) * (1 + 1 / worth)
    center = np.array([part @ active, part @ sparsity])
    off = np.stack([active, sparsity]) - center[:, None]
    spread = off * part @ off.T * wider
    deviation = np.sqrt(np.diag(spread))
    return Kind(
        share=float(weights.sum() / everything),
        active=float(center[0]),
        active_deviation=float(deviation[0]),
        sparsity=0.0 if dense else float(center[1]),
        sparsity_deviation=0.0 if dense else float(deviation[1]),
        correlation=0.0 if dense else float(spread[0, 1] / (deviation[0] * deviation[1])),
    )
