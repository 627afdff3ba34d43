"""How open-weight models of known size are priced: the market's constants, fitted on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.prices.decode import Offer, different_prices
from rackmath.prices.hosts import fit_hosts, typical_price
from rackmath.prices.importance import draw
from rackmath.prices.market import METERED, RIDGE, KindPrior, Market, log_prices, normal_log, student_log

Array = NDArray[np.float64]

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_START = np.array([np.log(0.02), 0.2, np.log(8192.0), np.log(0.6)])
"""Level, economy, chunk, and the logarithm of the level's scale."""
_WIDTH = np.array([2.0, 0.3, 1.0, 0.5])
"""Weak priors around them."""
_READS_START = np.array([np.log(450.0), np.log(0.5), np.log(0.3)])
"""Batch, and the logarithms of its scale and of the ratio's misfit."""
_READS_WIDTH = np.array([1.0, 0.5, 0.5])
_DENSE = 1.05
"""Total over active parameters below which a model is dense."""
_LEAST_MODELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
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
    models: Sequence[KnownModel],
    year: float,
    basis: str,
    speeds: Sequence[tuple[float, float]],
    attention: Sequence[float],
    streams: Sequence[float],
) -> Market:
    """Constants of the market that known models show.

    Parameters
    ----------
    models : sequence of KnownModel
        Models, each with an offer that has an input price.
    speeds : sequence of (active parameters in billions, tokens per second)
        Measured, one per model.
    attention : sequence of float
        Contexts at which attention takes as many FLOPs as the weights, one per architecture. [tokens]

    streams : sequence of float
        Logarithm of a model's active parameters per second over those of others on the same chips, one per model.

    Errors: :class:`InputError` for fewer than four dense or four sparse models.
    Notes: sizes are fitted on input prices alone, for output over input says nothing of them
    (``docs/commands/prices.md``); a group of models of one architecture weighs as one.
    """
    active = np.log([model.active for model in models])
    sparsity = np.log([model.total / model.active for model in models])
    sparse = sparsity > np.log(_DENSE)
    if min(sparse.sum(), (~sparse).sum()) < _LEAST_MODELS:
        raise InputError("models", len(models), f"give at least {_LEAST_MODELS} dense and {_LEAST_MODELS} sparse ones")
    groups = [model.group for model in models]
    weights = np.array([1 / groups.count(group) for group in groups])
    many = np.where(sparse, sparsity, 0.0)
    offer_lists = [different_prices(model.offers, 0.0) for model in models]
    hosts = fit_hosts(offer_lists)
    middles, variances = np.array([typical_price(prices, hosts) for prices in offer_lists]).T

    def log_density(points: Array) -> Array:
        start, economy, chunk, scale = (column[:, None] for column in points.T)
        # The batch moves only the output price.
        inputs, _ = log_prices(active, many, np.asarray(0.0), start, economy, chunk)
        densities = student_log(middles - inputs, np.exp(2 * scale) + variances)
        return densities @ weights - (((points - _START) / _WIDTH) ** 2).sum(axis=1) / 2

    draws = draw(log_density, _START, _WIDTH / 3, effective=3000)
    start, economy, chunk, scale = (float(value) for value in draws.weights @ draws.points)
    ratios = [metered_ratios(model) for model in models]
    ratio, ratio_scale = _spread(ratios, weights)
    batch, batch_scale = _batch(ratios, many, weights, chunk)
    speed = np.log(np.array(speeds))
    slope = np.polyfit(speed[:, 0], speed[:, 1], 1)
    cache = np.log([model.cache for model in models])
    # Known at 16 bit, read at 8.
    read_bytes = np.log([model.read / 2 for model in models])
    crossover = active + np.log(1e9) - np.log(RIDGE) - read_bytes
    center, cross = (float(np.average(logs, weights=weights)) for logs in (cache, crossover))
    contexts = np.log(attention)
    return Market(
        dense=_kind(active[~sparse], sparsity[~sparse], weights[~sparse], weights.sum(), dense=True),
        sparse=_kind(active[sparse], sparsity[sparse], weights[sparse], weights.sum(), dense=False),
        hosts=hosts,
        level=start,
        level_scale=float(np.exp(scale)),
        economy=economy,
        chunk=chunk,
        batch=batch,
        batch_scale=batch_scale,
        ratio=ratio,
        ratio_scale=ratio_scale,
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


def metered_ratios(model: KnownModel) -> Array:
    """Logarithm of output over input of a model's different offers that are metered by kind. (offers,)"""
    pairs = {(o.input, o.output) for o in model.offers if o.input is not None and o.output is not None}
    ratios = [log(output / into) for into, output in sorted(pairs)]
    return np.array([ratio for ratio in ratios if abs(ratio) > METERED])


def _spread(ratios: Sequence[Array], weights: Array) -> tuple[float, float]:
    """Mean and spread of single offers' ratios; each model has its weight, whatever the number of its offers."""
    values = np.concatenate(ratios)
    parts = np.concatenate(
        [
            np.full(len(model_ratios), weight / max(len(model_ratios), 1))
            for model_ratios, weight in zip(ratios, weights, strict=True)
        ]
    )
    center = float(np.average(values, weights=parts))
    return center, float(np.sqrt(np.average((values - center) ** 2, weights=parts)))


def _batch(ratios: Sequence[Array], sparsity: Array, weights: Array, chunk: float) -> tuple[float, float]:
    """Logarithm of the batch that metered ratios imply if weight reads set them, and its spread between models."""
    has_ratios = np.array([len(model_ratios) > 0 for model_ratios in ratios])
    middles = np.array([np.median(model_ratios) for model_ratios in ratios if len(model_ratios)])[:, None]
    deviations = np.concatenate(
        [model_ratios - model_ratios.mean() for model_ratios in ratios if len(model_ratios) > 1]
    )
    between = float(deviations @ deviations) / sum(
        len(model_ratios) - 1 for model_ratios in ratios if len(model_ratios) > 1
    )
    noise = (between / np.array([len(model_ratios) for model_ratios in ratios if len(model_ratios)]))[:, None]
    reads, weight = sparsity[has_ratios][:, None], weights[has_ratios]

    def log_density(points: Array) -> Array:
        batch, scale, misfit = (column[:, None, None] for column in points.T)
        level = np.asarray(0.0)
        inputs, outputs = log_prices(level, reads, batch + np.exp(scale) * _NODES, level, level, np.asarray(chunk))
        densities = normal_log(middles - (outputs - inputs), np.exp(2 * misfit) + noise)
        densities = densities + np.log(_NODE_WEIGHTS / _NODE_WEIGHTS.sum())
        top = densities.max(axis=2, keepdims=True)
        whole = top[..., 0] + np.log(np.exp(densities - top).sum(axis=2))
        return whole @ weight - (((points - _READS_START) / _READS_WIDTH) ** 2).sum(axis=1) / 2

    draws = draw(log_density, _READS_START, _READS_WIDTH / 3, effective=3000)
    batch, scale, _ = (float(value) for value in draws.weights @ draws.points)
    return batch, float(np.exp(scale))


def _kind(active: Array, sparsity: Array, weights: Array, everything: float, *, dense: bool) -> KindPrior:
    """Mean and spread of the models of a kind, widened for how few they are."""
    part = weights / weights.sum()
    worth = 1 / float(np.sum(part**2))
    wider = worth / (worth - 1) * (1 + 1 / worth)
    center = np.array([part @ active, part @ sparsity])
    off = np.stack([active, sparsity]) - center[:, None]
    spread = off * part @ off.T * wider
    deviation = np.sqrt(np.diag(spread))
    return KindPrior(
        share=float(weights.sum() / everything),
        active=float(center[0]),
        active_deviation=float(deviation[0]),
        sparsity=0.0 if dense else float(center[1]),
        sparsity_deviation=0.0 if dense else float(deviation[1]),
        correlation=0.0 if dense else float(spread[0, 1] / (deviation[0] * deviation[1])),
    )
