"""Seconds on a system -> dollars per million tokens."""

from __future__ import annotations

from rackmath.engine.step import Estimate
from rackmath.errors import InputError
from rackmath.models.numbers import Number


def usd_per_million_tokens(step: Estimate, price: float) -> Number:
    r"""Cost of a million tokens of a pass. [USD]

    .. math:: t \cdot G \cdot p / n \cdot 10^6

    with the time t of the pass, G accelerators at p dollars per second, n tokens.

    Parameters
    ----------
    step : Estimate
        The pass.
    price : float
        Of one accelerator. [USD/s]

    Errors: :class:`InputError` for a price that is not positive.
    Source: lecture chapter 1, "cost per token = t / B * price".
    """
    if not price > 0:
        raise InputError("price", price, "write a positive price per accelerator")
    return step.time * step.gpus * price / step.tokens * 1e6
