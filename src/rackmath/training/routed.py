"""Routed language models: the dense size that a mixture of experts is worth.

Clark et al. 2022 fitted validation loss against active parameters N and experts E of one
layer in two, for three routers. Two models are worth the same where the law gives the
same loss; the dense one is the law at one expert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from rackmath.errors import InputError
from rackmath.models.numbers import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedLaw:
    r"""Coefficients of one router.

    .. math:: \log L = a \log N + b \log \hat E + c \log N \log \hat E + d

    with :math:`\hat E` saturating from ``start`` at one expert to ``most``; d cancels.
    """

    a: float
    b: float
    c: float
    start: float
    most: float


LAWS: Mapping[str, RoutedLaw] = MappingProxyType(
    {
        "s-base": RoutedLaw(a=-0.082, b=-0.108, c=0.009, start=1.847, most=314.478),
        "rl-r": RoutedLaw(a=-0.083, b=-0.126, c=0.012, start=1.88, most=469.982),
        "hash": RoutedLaw(a=-0.087, b=-0.136, c=0.012, start=4.175, most=477.741),
        "s-base-refit": RoutedLaw(a=-0.0830253, b=-0.118044, c=0.00992483, start=2.07457, most=238.675),
        "rl-r-refit": RoutedLaw(a=-0.0827295, b=-0.123417, c=0.0112326, start=1.72193, most=470.053),
        "hash-refit": RoutedLaw(a=-0.0873567, b=-0.138364, c=0.0126352, start=4.26877, most=427.323),
    }
)
"""By router. Source: Clark et al. 2022, arXiv:2202.01169, Table 3, three digits; the refits by ``tools/laws.py`` on
the released runs (58, 59 and 56, root mean square 0.003 in log10), which differ by up to a fifth in what they foretell.
"""

LARGEST_ACTIVE = 1.3e9
MOST_EXPERTS = 512
"""Range of the fit: active parameters and experts; 130 G tokens, one expert per token."""

ROUTED_PART = 0.306
"""Part of the active parameters that each further expert repeats: 64 experts at 370 M are 7.5 G in all."""


def effective_size(active: Number, experts: Number, law: RoutedLaw) -> Number:
    """Dense parameters of the same loss. [1]

    Errors: :class:`InputError` for sizes and numbers of experts that are none.
    """
    _check(active, experts)
    # 1 / E_hat = 1 / (E - 1 + 1 / (1 / start - 1 / most)) + 1 / most
    saturation = 1 / (1 / (experts - 1 + 1 / (1 / law.start - 1 / law.most)) + 1 / law.most)
    dense = law.a + law.c * np.log10(law.start)
    exponent = law.a + law.c * np.log10(saturation)
    return active ** (exponent / dense) * (saturation / law.start) ** (law.b / dense)


def equivalent_active(dense: Number, experts: Number, law: RoutedLaw) -> Number:
    """Active parameters of a mixture of ``experts`` that is worth ``dense`` parameters. [1]

    The inverse of :func:`effective_size`, in closed form.
    """
    _check(dense, experts)
    saturation = 1 / (1 / (experts - 1 + 1 / (1 / law.start - 1 / law.most)) + 1 / law.most)
    plain = law.a + law.c * np.log10(law.start)
    exponent = law.a + law.c * np.log10(saturation)
    return (dense / (saturation / law.start) ** (law.b / plain)) ** (plain / exponent)


def total_size(active: Number, experts: Number) -> Number:
    """All parameters of a mixture. [1]"""
    return active * (1 + (experts - 1) * ROUTED_PART)


def within_fit(active: Number, experts: Number) -> bool:
    """Whether the law was fitted there; beyond, it is an extrapolation."""
    return bool(np.all(np.asarray(active) <= LARGEST_ACTIVE) and np.all(np.asarray(experts) <= MOST_EXPERTS))


def _check(size: Number, experts: Number) -> None:
    if not float(np.min(size)) >= 1 or not np.all(np.isfinite(size)):
        raise InputError("parameters", float(np.min(size)), "write a finite number of at least 1")
    if not float(np.min(experts)) >= 1 or not np.all(np.isfinite(experts)):
        raise InputError("experts", float(np.min(experts)), "write a finite number of at least 1")
