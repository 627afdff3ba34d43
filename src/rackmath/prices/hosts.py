"""Cheap hosts and dear ones: what a host asks beside others for the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]

_SPREADS = np.arange(0.05, 1.5, 0.05)
"""Spreads among which the likelihood chooses. [ln]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One price of a model. [ln USD per million tokens]"""

    value: float
    hosts: tuple[str, ...]
    """Who asks it: a list price that others copy is one price of several hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host asks over what others ask for the same models. Natural logarithms."""

    effect: float
    error: float
    """Standard error of the effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """How prices of one model differ between hosts. Natural logarithms."""

    scale: float
    """Spread of hosts' effects: those of a host that nothing is known of."""
    offer_scale: float
    """Spread of single offers around their host's effect."""
    known: Mapping[str, Host]


def fit_hosts(models: Sequence[Sequence[Price]]) -> Hosts:
    r"""Effects of hosts on the prices of models.

    .. math:: y_{mh} = \mu_m + u_h + e, \qquad u_h \sim N(0, s^2), \quad e \sim N(0, t^2)

    with a free mean for every model; s and t have the highest restricted likelihood on a grid of 0.05, the effects are
    the best linear unbiased predictions. A copied price has the mean effect of those who ask it.

    Errors: :class:`InputError` if no model has two prices. Source: Henderson 1975 (mixed models).
    """
    if not any(len(prices) > 1 for prices in models):
        raise InputError("offers", len(models), "give at least one model with two different prices")
    rows = [(place, price) for place, prices in enumerate(models) for price in prices]
    names = sorted({host for _, price in rows for host in price.hosts})
    column = {name: place for place, name in enumerate(names)}
    values = np.array([price.value for _, price in rows])
    means, effects = np.zeros((len(rows), len(models))), np.zeros((len(rows), len(names)))
    for row, (place, price) in enumerate(rows):
        means[row, place] = 1.0
        for host in price.hosts:
            effects[row, column[host]] += 1 / len(price.hosts)
    # What is left once every model's mean is free: the prices, and the hosts' covariance, off the models' means.
    basis = means[:, means.any(axis=0)]
    centring = np.eye(len(rows)) - basis @ np.linalg.pinv(basis)
    eigenvalues, vectors = np.linalg.eigh(centring @ effects @ effects.T @ centring)
    spectrum = (vectors.T @ (centring @ values)) ** 2
    scores = [
        (_restricted_likelihood(spectrum, s**2 * np.maximum(eigenvalues, 0.0) + t**2, t, basis.shape[1]), s, t)
        for s in _SPREADS.tolist()
        for t in _SPREADS.tolist()
    ]
    _, scale, offer = max(scores)
    inverse = np.linalg.inv(scale**2 * effects @ effects.T + offer**2 * np.eye(len(values)))
    projection = inverse @ basis
    # P = V^-1 - V^-1 X (X' V^-1 X)^-1 X' V^-1: the precision that is left once the models' means are free.
    residual = inverse - projection @ np.linalg.solve(basis.T @ projection, projection.T)
    effect = scale**2 * effects.T @ residual @ values
    variance = scale**2 - scale**4 * np.einsum("rh,rs,sh->h", effects, residual, effects)
    shares = {
        name: Host(effect=float(effect[place]), error=float(np.sqrt(variance[place])))
        for place, name in enumerate(names)
    }
    return Hosts(scale=scale, offer_scale=offer, known=shares)


def typical_price(prices: Sequence[Price], hosts: Hosts) -> tuple[float, float]:
    """What a typical host would ask for a model of which some prices are known, and its variance. [ln, ln^2]

    Each price is corrected for its hosts' effects and weighs by its precision. ``prices`` must not be empty.
    """
    weighted_sum, precision = 0.0, 0.0
    for price in prices:
        sellers = [hosts.known.get(name, Host(effect=0.0, error=hosts.scale)) for name in price.hosts]
        effect = sum(host.effect for host in sellers) / len(sellers)
        # Who set a copied price is not known: it is as uncertain as one host's.
        variance = sum(host.error**2 for host in sellers) / len(sellers) + hosts.offer_scale**2
        weighted_sum += (price.value - effect) / variance
        precision += 1 / variance
    return weighted_sum / precision, 1 / precision


def _restricted_likelihood(squares: Array, variances: Array, offer: float, means: int) -> float:
    """Restricted log likelihood in the eigenvectors of the covariance, up to a constant.

    ``means`` directions of variance ``offer ** 2`` belong to the models' free means and do not count.
    """
    whole = float(np.sum(np.log(variances) + squares / variances))
    return -(whole - means * 2 * float(np.log(offer))) / 2
