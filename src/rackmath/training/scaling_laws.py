"""Scaling laws as records: loss against parameters and tokens, where it was fitted, and who fitted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, isfinite, log
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLaw:
    r"""Loss of a dense model, in nats per token.

    .. math:: L(N, D) = E + A N^{-\alpha} + B D^{-\beta}

    Losses of different laws are of different data and tokenisers: they must not be compared or mixed.
    """

    name: str
    floor: float
    """E. [nats]"""
    size: float
    """A."""
    data: float
    """B."""
    alpha: float
    beta: float
    source: str
    params: tuple[float, float]
    """Parameters of the runs that were fitted."""
    per_param: tuple[float, float]
    """Tokens per parameter of those runs."""
    warning: str = ""
    repeats: float | None = None
    """Epochs after which repeated data is worth little; None where the law says nothing of it."""

    def loss(self, params: float | Array, tokens: float | Array) -> float | Array:
        """Loss after training. [nats per token]"""
        return self.floor + self.size * params ** (-self.alpha) + self.data * tokens ** (-self.beta)

    def tokens_for(self, params: float, loss: float) -> float:
        """Tokens that a size needs for a loss; infinite where none suffice."""
        remainder = loss - self.floor - self.size * params ** (-self.alpha)
        return (self.data / remainder) ** (1 / self.beta) if remainder > 0 else float("inf")

    def balance(self, params: float, tokens: float) -> float:
        """Gain of more parameters over that of more tokens, both by the same part: 1 at the compute optimum."""
        gain = self.alpha * self.size * params ** (-self.alpha)
        return gain / (self.beta * self.data * tokens ** (-self.beta))

    def optimal_tokens(self, params: float) -> float:
        """Tokens at which a size is compute-optimal."""
        gain = self.alpha * self.size * params ** (-self.alpha)
        return (gain / (self.beta * self.data)) ** (-1 / self.beta)

    def optimal(self, flops: float) -> tuple[float, float]:
        r"""Parameters and tokens of least loss for a compute of :math:`6 N D`.

        .. math:: N = G (C/6)^{\beta/(\alpha+\beta)}, \quad G = (\alpha A / \beta B)^{1/(\alpha+\beta)}

        Source: Hoffmann et al. 2022, equation 4.
        """
        if not 0 < flops < 1e40:
            raise InputError("flops", flops, "write a positive number of FLOPs")
        powers = self.alpha + self.beta
        balance = (self.alpha * self.size / (self.beta * self.data)) ** (1 / powers)
        params = balance * (flops / 6) ** (self.beta / powers)
        return params, flops / 6 / params

    def repeated(self, unique: float, epochs: float) -> float:
        r"""Fresh tokens that repeated ones are worth: :math:`U (1 + R (1 - e^{-(e-1)/R}))`. [tokens]

        Source: Muennighoff et al. 2023. Errors: :class:`InputError` for a law that was not fitted on repeated data.
        """
        if self.repeats is None:
            raise InputError("--law", self.name, "says nothing of repeated data: muennighoff does")
        if not (unique > 0 and epochs >= 1):
            raise InputError("epochs", epochs, "write at least one epoch of a positive number of tokens")
        return unique * (1 + self.repeats * (1 - exp(-(epochs - 1) / self.repeats)))

    def outside(self, params: float, tokens: float) -> tuple[str, ...]:
        """What lies beyond the runs that were fitted, in words; nothing where the law interpolates."""
        reasons: list[str] = []
        for quantity, value, (low, high) in (
            ("parameters", params, self.params),
            ("tokens per parameter", tokens / params, self.per_param),
        ):
            if not low <= value <= high:
                reasons.append(
                    f"{quantity}: {value:.3g} is outside of {low:.3g} to {high:.3g}, where {self.name} was fitted"
                )
        return tuple(reasons)


_HOFFMANN_PARAMS, _HOFFMANN_PER = (5.7e7, 1.62e10), (0.04, 340.0)
_SARDANA_PARAMS = (1.5e8, 6e9)

LAWS: Mapping[str, LossLaw] = MappingProxyType(
    {
        law.name: law
        for law in (
            LossLaw(
                name="hoffmann", floor=1.6934, size=406.4, data=410.7, alpha=0.3392, beta=0.2849,
                source="Hoffmann et al. 2022, arXiv:2203.15556, approach 3, as in its TeX source",
                warning="the optimiser stopped early: 59 to 85 tokens per parameter",
                params=_HOFFMANN_PARAMS, per_param=_HOFFMANN_PER,
            ),
            LossLaw(
                name="hoffmann-rounded", floor=1.69, size=406.4, data=410.7, alpha=0.34, beta=0.28,
                source="Hoffmann et al. 2022, equation 10, as printed",
                warning="rounding of beta alone moves the data term by 13 %",
                params=_HOFFMANN_PARAMS, per_param=_HOFFMANN_PER,
            ),
            LossLaw(
                name="besiroglu", floor=1.8172, size=482.01, data=2085.43, alpha=0.3478, beta=0.3658,
                source="Besiroglu et al. 2024, arXiv:2404.10102, a refit of Hoffmann's runs",
                params=_HOFFMANN_PARAMS, per_param=_HOFFMANN_PER,
            ),
            LossLaw(
                name="muennighoff", floor=1.87, size=521.0, data=1488.0, alpha=0.3526596, beta=0.3526596,
                source="Muennighoff et al. 2023, arXiv:2305.16264", params=(7e6, 8.7e9), per_param=(0.5, 900.0),
                repeats=15.387756,
            ),
            LossLaw(
                name="sardana", floor=1.69, size=406.4, data=410.7, alpha=0.336, beta=0.283,
                source="Sardana et al. 2024, arXiv:2401.00448, the coefficients of their code",
                params=_HOFFMANN_PARAMS, per_param=_HOFFMANN_PER,
            ),
            LossLaw(
                name="sardana-100", floor=0.17, size=7.199, data=25.97, alpha=0.08, beta=0.13, per_param=(10.0, 100.0),
                source="Sardana et al. 2024, Table 1, runs of at most 100 tokens per parameter", params=_SARDANA_PARAMS,
                warning="exponents depend on the range that was fitted",
            ),
            LossLaw(
                name="sardana-500", floor=0.95, size=17.07, data=35.8, alpha=0.13, beta=0.16, per_param=(10.0, 500.0),
                source="Sardana et al. 2024, Table 1, runs of at most 500 tokens per parameter", params=_SARDANA_PARAMS,
                warning="exponents depend on the range that was fitted",
            ),
            LossLaw(
                name="sardana-all", floor=1.45, size=33.66, data=138.9, alpha=0.18, beta=0.24, per_param=(10.0, 1e4),
                source="Sardana et al. 2024, Table 1, all runs", params=_SARDANA_PARAMS,
                warning="puts the compute optimum at 1 to 4 tokens per parameter: do not extrapolate it",
            ),
        )
    }
)  # fmt: skip
"""By name."""


def law(name: str) -> LossLaw:
    """A law by name. Errors: :class:`InputError` for an unknown one."""
    if name not in LAWS:
        raise InputError("--law", name, f"known are {', '.join(LAWS)}")
    return LAWS[name]


def kaplan_loss(params: float, tokens: float) -> float:
    r"""Loss by Kaplan et al. 2020, for parameters without embeddings. [nats per token]

    .. math:: \left((N_c/N)^{a_N/a_D} + D_c/D\right)^{a_D}

    Source: arXiv:2001.08361, equation 1.5 and Table 2.
    """
    _positive(params=params, tokens=tokens)
    return ((6.4e13 / params) ** (0.076 / 0.103) + 1.8e13 / tokens) ** 0.103


def llama_tokens(flops: float) -> float:
    """Tokens that Llama 3's law takes for a compute. Source: arXiv:2407.21783, the label of Figure 3."""
    _positive(flops=flops)
    return 0.299 * flops**0.537


def deepseek_optimum(flops: float) -> tuple[float, float]:
    """FLOPs per token, attention included, and tokens. Source: DeepSeek LLM, arXiv:2401.02954."""
    _positive(flops=flops)
    return 0.1715 * flops**0.5243, 5.8316 * flops**0.4757


def krajewski_loss(params: float, tokens: float, granularity: float) -> float:
    r"""Loss of a mixture of 64 experts of a granularity: :math:`c + (g/G^\gamma + a)/N^\alpha + b/D^\beta`.

    Source: Krajewski et al. 2024, arXiv:2402.07871, Table 1.
    """
    _positive(params=params, tokens=tokens, granularity=granularity)
    return 0.47 + (2.1 / granularity**0.58 + 18.1) / params**0.115 + 30.8 / tokens**0.147


def efficiency_leverage(active: float, granularity: float, flops: float) -> float:
    r"""Compute of a dense model over that of a mixture of the same loss.

    .. math:: \hat A^{a + d \log_{10} C + \gamma \log_2^2 G + \beta \log_2 G}

    with the saturating part of parameters that are active. Source: Tian et al. 2025,
    arXiv:2507.17702; the bases of the logarithms are those that meet both of its statements.
    """
    _positive(active=active, granularity=granularity, flops=flops)
    if active > 1:
        raise InputError("active", active, "write the part of parameters that a token uses, at most 1")
    saturation = 1 / (1 / (active + 1 / (1 / 0.0163 - 1 / 5.28e16)) + 1 / 5.28e16)
    fine = log(granularity) / log(2)
    return saturation ** (1.23 - 0.0761 * log(flops) / log(10) + 0.0167 * fine**2 - 0.117 * fine)


def critical_overhead(law: LossLaw, flops: float, part: float) -> float:
    r"""Compute that a model of a part of the optimal size needs beyond the optimum's, as a part of it.

    .. math:: k_N \left(1 - (k_N^{-\alpha} - 1) \frac{A N^{-\alpha}}{B D^{-\beta}}\right)^{-1/\beta} - 1

    Infinite below the smallest part, :math:`(1 + \alpha/\beta)^{-1/\alpha}`. Source: de Vries 2023.
    """
    if not 0 < part <= 1:
        raise InputError("part", part, "write a part of the optimal size, above 0 and at most 1")
    params, tokens = law.optimal(flops)
    ratio = law.size * params ** (-law.alpha) / (law.data * tokens ** (-law.beta))
    remainder = 1 - (part ** (-law.alpha) - 1) * ratio
    return part * remainder ** (-1 / law.beta) - 1 if remainder > 0 else float("inf")


def _positive(**numbers: float) -> None:
    for field, value in numbers.items():
        if not (isfinite(value) and value > 0):
            raise InputError(field, value, "write a positive finite number")
