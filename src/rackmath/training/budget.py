"""Size and tokens of least cost over a model's life: the true optimum beside the lecture's equal costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite, log

from rackmath.errors import InputError
from rackmath.training.scaling_laws import LossLaw

TRAIN, READ = 6.0, 2.0
"""FLOPs per parameter and token: forward and backward; forward only."""
_LARGEST, _MOST = 1e20, 1e30
"""Parameters and tokens that are still looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a model does beside pre-training. Costs are in the unit of ``price``."""

    prompt_tokens: float = 0.0
    """That users send. [tokens]"""
    answer_tokens: float = 0.0
    """That it writes. [tokens]"""
    decode_efficiency: float = 1.0
    """Utilisation in writing over that in training. [1]"""
    prefill_efficiency: float = 1.0
    """The same in reading prompts. [1]"""
    rl_share: float = 0.0
    """Cost of reinforcement learning over that of pre-training. [1]"""
    success: float = 1.0
    """Chance that the model is used at all. [1]"""

    def __post_init__(self) -> None:
        for field, value, low, high in (
            ("--inference-tokens", self.prompt_tokens, 0.0, 1e25),
            ("--inference-tokens", self.answer_tokens, 0.0, 1e25),
            ("--decode-efficiency", self.decode_efficiency, 1e-4, 100.0),
            ("--prefill-efficiency", self.prefill_efficiency, 1e-4, 100.0),
            ("--rl-share", self.rl_share, 0.0, 1e3),
            ("--success", self.success, 0.0, 1.0),
        ):
            if not (isfinite(value) and low <= value <= high):
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")

    @property
    def read(self) -> float:
        """Expected inference, as tokens read at the cost of training's FLOPs. [tokens]"""
        prompt_work = self.prompt_tokens / self.prefill_efficiency + self.answer_tokens / self.decode_efficiency
        return self.success * prompt_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A size, its tokens, and what its life costs. FLOPs at training's utilisation."""

    params: float
    tokens: float
    loss: float
    overtraining: float
    """Tokens over those at which the size is compute-optimal."""
    cost_pretrain: float
    cost_rl: float
    cost_inference: float
    outside: tuple[str, ...]
    """Where the law extrapolates."""

    @property
    def total(self) -> float:
        """Cost of the whole life."""
        return self.cost_pretrain + self.cost_rl + self.cost_inference


def budget(law: LossLaw, params: float, tokens: float, life: Life) -> Budget:
    """Costs of a size and its tokens. Errors: :class:`InputError` for numbers that are not positive."""
    for field, value in (("--params", params), ("--tokens", tokens)):
        if not (isfinite(value) and 0 < value < 1e25):
            raise InputError(field, value, "write a positive number")
    pretrain = TRAIN * params * tokens
    return Budget(
        params=params,
        tokens=tokens,
        loss=float(law.loss(params, tokens)),
        overtraining=tokens / law.optimal_tokens(params),
        cost_pretrain=pretrain,
        cost_rl=life.rl_share * pretrain,
        cost_inference=READ * params * life.read,
        outside=law.outside(params, tokens),
    )


def cheapest(law: LossLaw, loss: float, life: Life) -> Budget:
    r"""Size and tokens of least cost at a fixed loss.

    The cost :math:`N (6 (1+\rho) D + 2 D_{inf})` at fixed loss is least where

    .. math:: \frac{\alpha A N^{-\alpha}}{\beta B D^{-\beta}} = 1 + \frac{c_{inf}}{c_{train}}

    the left side is the over-training to the power beta. Bisection in the size, to rounding.

    Errors: :class:`InputError` for a loss that the law cannot reach.
    """
    smallest = _smallest(law, loss)
    low, high = log(smallest), log(_LARGEST)
    train = TRAIN * (1 + life.rl_share)
    while low < (middle := (low + high) / 2) < high:
        params = exp(middle)
        tokens = law.tokens_for(params, loss)
        # Where no tokens suffice the size is too small.
        steep = (
            law.balance(params, tokens) * train * tokens / (train * tokens + READ * life.read) if tokens < 1e30 else 2.0
        )
        low, high = (middle, high) if steep > 1 else (low, middle)
    params = exp(high)
    return budget(law, params, law.tokens_for(params, loss), life)


def equal_costs(law: LossLaw, loss: float, life: Life) -> Budget:
    """The lecture's heuristic at a fixed loss: as much spent on pre-training as on inference.

    Errors: :class:`InputError` where nothing is served, or where so few tokens cannot reach the loss.
    """
    if life.read <= 0:
        raise InputError("--inference-tokens", 0, "equal costs need inference")
    tokens = READ * life.read / TRAIN
    remainder = loss - law.floor - law.data * tokens ** (-law.beta)
    if remainder <= 0:
        raise InputError("--inference-tokens", life.read, "equal costs cannot reach this loss at any size")
    return budget(law, (law.size / remainder) ** (1 / law.alpha), tokens, life)


def split(law: LossLaw, overtraining: float) -> float:
    """Inference over pre-training cost at an optimum that is so much over-trained: x^beta - 1; no RL. [1]"""
    if not (isfinite(overtraining) and overtraining > 0):
        raise InputError("overtraining", overtraining, "write a positive number")
    return overtraining**law.beta - 1


def at_equal_cost(law: LossLaw, costs: float = 1.0) -> float:
    """Over-training at which everything after pre-training costs ``costs`` times as much as it. [1]"""
    return (1 + costs) ** (1 / law.beta)


def _smallest(law: LossLaw, loss: float) -> float:
    """Size below which no tokens reach a loss."""
    if not (isfinite(loss) and loss > law.floor):
        raise InputError("--loss", loss, f"{law.name} cannot go below {law.floor:g}, not with any model or data")
    params = (law.size / (loss - law.floor)) ** (1 / law.alpha)
    if not 1 <= params < _LARGEST:
        raise InputError("--loss", loss, f"is of no model that {law.name} could know")
    return params
