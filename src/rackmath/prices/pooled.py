"""Pooled calibration over models and hosts, by Hamiltonian Monte Carlo: the optional extra ``bayes``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.prices.calibration import KnownModel
from rackmath.prices.decode import Interval
from rackmath.prices.market import RIDGE

Array = NDArray[np.float64]

COPIED = 0.015
"""Prices that differ by less than this from a model's list are copies of it."""
DIGITS = 2
"""Significant digits of the grid that providers round to."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OfferTable:
    """Offers as arrays: one row per host and model. (offers,)"""

    model: NDArray[np.int64]
    host: NDArray[np.int64]
    log_input: Array
    log_output: Array
    cell: Array
    """Half width of the rounding cell, of both prices together. [ln]"""
    listed: NDArray[np.bool_]
    """Whether it equals the model's list price, and is not the first that does."""
    active: Array
    """ln of billions. (models,)"""
    sparsity: Array
    """ln. (models,)"""
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPosterior:
    """Posterior of what models and hosts share."""

    quantities: Mapping[str, Interval]
    """level, economy, chunk and batch as in :class:`~rackmath.prices.market.Market`, not as logarithms; the spreads
    model_misfit, ratio_misfit, batch_spread, host_effect and offer_spread as natural logarithms; copying, the part
    of third hosts that take a list price over."""
    hosts: Mapping[str, float]
    """Median factor of each host on the price of a model."""
    divergences: int
    """Steps of the sampler that failed; a posterior is not to be trusted with more than a few."""
    effective_draws: float
    """Of the quantity that has fewest."""


def table(models: Sequence[KnownModel]) -> OfferTable:
    """Offers with both prices as arrays.

    The list price of a model is the one that most hosts ask, if at least two do. Errors: :class:`InputError` for
    fewer than two models or hosts.
    """
    rows: list[tuple[int, str, float, float, bool]] = []
    for place, model in enumerate(models):
        offer_prices = [(o.provider, o.input, o.output) for o in model.offers if o.input and o.output]
        pairs = Counter((i, o) for _, i, o in offer_prices)
        common = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        header_read = False
        for host, into, out in offer_prices:
            near = common is not None and max(abs(into / common[0] - 1), abs(out / common[1] - 1)) < COPIED
            copy = near and header_read
            header_read = header_read or near
            rows.append((place, host, float(into), float(out), copy))
    hosts = tuple(sorted({row[1] for row in rows}))
    if len(models) < 2 or len(hosts) < 2:
        raise InputError("models", len(models), f"pooling needs two models and two hosts; found {len(hosts)} hosts")
    index = {host: i for i, host in enumerate(hosts)}
    prices = np.array([row[2:4] for row in rows])
    cells = np.array([[_half_cell(price) for price in pair] for pair in prices.tolist()])
    return OfferTable(
        model=np.array([row[0] for row in rows]),
        host=np.array([index[row[1]] for row in rows]),
        log_input=np.log(prices[:, 0]),
        log_output=np.log(prices[:, 1]),
        cell=cells.sum(axis=1) / 2,
        listed=np.array([row[4] for row in rows]),
        active=np.log([model.active for model in models]),
        sparsity=np.log([max(model.total / model.active, 1.0) for model in models]),
        hosts=hosts,
    )


def fit_pooled(models: Sequence[KnownModel], draws: int = 1000, warmup: int = 1000, seed: int = 0) -> SharedPosterior:
    r"""Posterior of the market's constants with every model's misfit and every host's effect.

    .. math::
        \ln p_{in} = \ell_m + u_h + e + \ln(1 + r\rho/K), \qquad
        \ln p_{out} = \ell_m + u_h + e + q_m + f + \ln(1 + r\rho/B_m)

    with a model's level (Student-t, 4 degrees) and ratio, a host's effect u, and offers'
    residuals e and f. A third host copies the list price with a chance of its own, and
    then says nothing more. Prices are known to their rounding cell only: two significant digits.

    Errors: :class:`InputError` where the extra ``bayes`` is not installed.
    """
    jax, numpyro, infer, diagnostics = (_module(name) for name in _MODULES)
    data = table(models)
    kernel = infer.NUTS(_model, target_accept_prob=0.9)
    run = infer.MCMC(
        kernel, num_warmup=warmup, num_samples=draws, num_chains=2, chain_method="sequential", progress_bar=False
    )
    with numpyro.handlers.seed(rng_seed=seed):
        run.run(jax.random.PRNGKey(seed), data, extra_fields=("diverging",))
    samples: dict[str, Any] = run.get_samples(group_by_chain=True)
    arrays = {name: np.asarray(samples[name], dtype=float) for name in _QUANTITIES}
    effects = np.asarray(samples["host_raw"], dtype=float) * arrays["host_effect"][..., None]
    return SharedPosterior(
        quantities={name: _interval(_QUANTITIES[name](values).ravel()) for name, values in arrays.items()},
        hosts=dict(zip(data.hosts, np.exp(np.median(effects, axis=(0, 1))).tolist(), strict=True)),
        divergences=int(np.sum(np.asarray(run.get_extra_fields()["diverging"]))),
        effective_draws=min(float(diagnostics.effective_sample_size(values)) for values in arrays.values()),
    )


_MODULES = ("jax", "numpyro", "numpyro.infer", "numpyro.diagnostics")


def _module(name: str) -> Any:
    """A module of the extra, loaded when it is first used."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError("bayes", name, "is not installed: pip install 'rackmath[bayes]'") from error


def _same(values: Array) -> Array:
    return values


_QUANTITIES: Mapping[str, Any] = {
    "level": np.exp,
    "economy": _same,
    "chunk": np.exp,
    "batch": np.exp,
    "model_misfit": _same,
    "ratio_misfit": _same,
    "batch_spread": _same,
    "host_effect": _same,
    "offer_spread": _same,
    "copying": _same,
}
"""What is reported, and how it comes from the sampler's own scale."""


def _model(data: OfferTable) -> None:
    """The hierarchy, in NumPyro's terms."""
    jnp, numpyro, dist = (_module(name) for name in ("jax.numpy", "numpyro", "numpyro.distributions"))

    def scale(name: str, middle: float) -> Any:
        return numpyro.sample(name, dist.LogNormal(np.log(middle), 0.5))

    level = numpyro.sample("level", dist.Normal(np.log(0.02), 2.0))
    economy = numpyro.sample("economy", dist.Normal(0.2, 0.3))
    chunk = numpyro.sample("chunk", dist.Normal(np.log(8192.0), 1.0))
    batch = numpyro.sample("batch", dist.Normal(np.log(450.0), 1.0))
    misfit, ratio, spread = scale("model_misfit", 0.6), scale("ratio_misfit", 0.3), scale("batch_spread", 0.5)
    effect, residual, ratio_spread = scale("host_effect", 0.3), scale("offer_spread", 0.3), scale("ratio_spread", 0.3)
    copying = numpyro.sample("copying", dist.Beta(1.0, 1.0))
    models, hosts = len(data.active), len(data.hosts)
    with numpyro.plate("models", models):
        level_draw = numpyro.sample("level_raw", dist.StudentT(4.0))
        leaning = numpyro.sample("ratio_raw", dist.Normal())
        sharing = numpyro.sample("batch_raw", dist.Normal())
    with numpyro.plate("hosts", hosts):
        host = numpyro.sample("host_raw", dist.Normal()) * effect
    reads = np.log(RIDGE) + data.sparsity
    base = level + (1 - economy) * data.active + misfit * level_draw
    into = base + jnp.logaddexp(0.0, reads - chunk)
    out = base + ratio * leaning + jnp.logaddexp(0.0, reads - batch - spread * sharing)
    off_in = data.log_input - into[data.model] - host[data.host]
    off_out = data.log_output - out[data.model] - host[data.host]
    host_effect = dist.Normal(0.0, residual)
    middle = (off_in + off_out) / 2
    # The chance of a rounding cell: its width times the density where it is narrow, exact where it is not.
    inside = jnp.log(host_effect.cdf(middle + data.cell) - host_effect.cdf(middle - data.cell) + _LEAST)
    inside = inside + dist.Normal(0.0, ratio_spread).log_prob(off_out - off_in)
    fresh = jnp.log1p(-copying) + inside
    numpyro.factor("offers", jnp.where(data.listed, jnp.log(copying), fresh).sum())


_LEAST = 1e-30


def _half_cell(price: float) -> float:
    """Half of the step between neighbours on the grid of a price, relative to it."""
    return 10.0 ** (floor(log10(price)) - DIGITS + 1) / 2 / price


def _interval(values: Array) -> Interval:
    low90, low50, median, high50, high90 = (float(v) for v in np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
    return Interval(median=median, low50=low50, high50=high50, low90=low90, high90=high90)
