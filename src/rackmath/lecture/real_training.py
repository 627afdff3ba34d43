"""What training's own laws, schedules and memory say: the right-hand column of chapters 3, 4 and 6."""

from __future__ import annotations

from rackmath.io import law_files
from rackmath.training.budget import at_equal_cost, split
from rackmath.training.depth import OVERHEAD, memory_with_depth
from rackmath.training.pipelines import StageTimes, execute, round_robin, run
from rackmath.training.scaling_laws import law

LAW = law("besiroglu")
"""The corrected refit of Chinchilla's runs."""
_PER_PARAM = 20.0
"""Tokens per parameter that the lecture's over-training counts from."""


def bubble(stages: int, microbatches: int) -> float:
    """Part of a flushed schedule that stages wait, forward and both gradients of one length. [1]"""
    return run(
        "gpipe", stages, microbatches, StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0)
    ).bubble_makespan


def token_time(stage: float, stages: int, hop: float) -> float:
    """Time between two tokens of one sequence, as many micro-batches as stages going around. [s]"""
    order = round_robin(stages, stages, 3)
    timeline = execute(order, StageTimes(forward=stage, backward_input=0.0, backward_weight=0.0, send_time=hop))
    return timeline.end[-1][-1] - timeline.end[-1][-1 - stages]


def tokens_at_optimum(params: float) -> float:
    """Tokens at which a model is compute-optimal. [tokens]"""
    return LAW.optimal_tokens(params)


def overtraining() -> tuple[float, float]:
    """Least and most over-trained of the known models, against 20 tokens per active parameter. [1]"""
    values = [run.tokens / run.active / _PER_PARAM for run in law_files.trained()]
    return min(values), max(values)


def inference_over_pretraining() -> tuple[float, float]:
    """Cost ratio at the optimum of models that are 10 and 100 times over-trained. [1]"""
    return split(LAW, 10.0), split(LAW, 100.0)


def overtraining_of_equal_costs() -> float:
    """Over-training at which inference costs as much as pre-training. [1]"""
    return at_equal_cost(LAW)


def reversible_growth() -> str:
    """How activation memory of reversible layers grows from 4 to 32 of them."""
    few, many = (memory_with_depth(34.0, 2.0, layers, "reversible") for layers in (4, 32))
    return "constant" if few == many else f"{many / few:.1f}x"


def reversible_compute() -> float:
    """Step of reversible layers over a standard one. [1]"""
    return 1 + OVERHEAD["reversible"]
