"""Experts that a small batch touches on the fullest rank, where chance deals them."""

from __future__ import annotations

import numpy as np

from rackmath.engine.roofline import OperatorTime
from rackmath.models.numbers import Number, ceiling, maximum, minimum

_LARGEST = (0.0, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5940, 2.8251, 3.0404, 3.2424)
"""Expected largest of 1, 2, 4, ... 1,024 standard normal numbers. Source: Harter 1961, table 1, and Monte Carlo."""


def fullest_rank(experts: int, touched: Number, ranks: Number) -> Number:
    r"""Distinct experts that the fullest rank reads, over those of a mean one. [1]

    Parameters
    ----------
    experts : int
        Experts of a layer, dealt evenly to ``ranks``.
    touched : Number
        Part of them that the batch touches. [1]
    ranks : Number
        Ranks that wait for each other after every layer. [ranks]

    Each of the :math:`n = E/R` experts of a rank is touched with chance p, so a rank reads :math:`\mu = np` of them in
    the mean, with a deviation :math:`\sigma = \sqrt{np (1 - p) (E - n)/(E - 1)}` and a skew
    :math:`\gamma = (1 - 2p)/\sigma`. The largest of R such numbers lies

    .. math:: \sigma \left( z_R + \frac{\gamma}{6} (z_R^2 - 1) \right)

    above the mean (Cornish and Fisher's expansion of what :math:`z_R` is for normal numbers), but no rank reads more
    than it holds, or than are touched at all. It is 1 on one rank and where a batch touches all.
    """
    held = ceiling(experts / ranks)
    mean = maximum(held * touched, 1e-9)
    deviation = np.sqrt(maximum(mean * (1 - touched) * (experts - held) / max(experts - 1, 1), 1e-12))
    z = np.interp(np.log2(maximum(ranks, 1.0)), range(len(_LARGEST)), _LARGEST)
    skew = maximum(1 - 2 * touched, 0.0) / deviation * maximum(z**2 - 1, 0.0) / 6
    most = minimum(held, experts * touched)
    return maximum(minimum(mean + deviation * (z + skew), most) / mean, 1.0)


def crowded(op: OperatorTime, ranks: Number) -> Number:
    """Seconds that the fullest of ``ranks`` reads weights beyond the mean one; none but for experts. [s]"""
    parts = op.operator.parts
    if op.operator.kind != "experts" or parts is None:
        return 0.0
    return op.weights * (fullest_rank(parts, op.operator.touched, ranks) - 1)
