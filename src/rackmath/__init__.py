"""The arithmetic of how large language models are trained, served and priced.

>>> import rackmath
>>> measured = rackmath.estimate("llama-3.1-8b", "h100-sxm", batch=8, context=4000, gpus=1)
>>> bound = rackmath.estimate("llama-3.1-8b", "h100-sxm", batch=8, context=4000, gpus=1, ideal=True)
>>> measured.time > bound.time
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackmath.version import __version__

if TYPE_CHECKING:
    from rackmath.api.agent import AgentRequest
    from rackmath.api.answers import answer
    from rackmath.api.budget import BudgetRequest
    from rackmath.api.cache import CacheRequest
    from rackmath.api.context import ContextRequest
    from rackmath.api.decode import PriceRequest, PriceResult, decode_prices
    from rackmath.api.deployment import Deployment
    from rackmath.api.depth import DepthRequest
    from rackmath.api.estimate import estimate
    from rackmath.api.estimate_request import EstimateRequest
    from rackmath.api.estimate_result import EstimateResult
    from rackmath.api.evidence import AddRequest, EvidenceRequest
    from rackmath.api.experts import ExpertsRequest
    from rackmath.api.explore import explore
    from rackmath.api.fit_request import FitRequest
    from rackmath.api.fleet import FleetRequest
    from rackmath.api.memory import MemoryRequest
    from rackmath.api.model import ModelRequest
    from rackmath.api.pipeline import PipelineRequest
    from rackmath.api.plan import PlanResult, plan
    from rackmath.api.plan_question import PlanRequest
    from rackmath.api.predict import PredictRequest, PredictResult, predict
    from rackmath.api.price_page import PageRequest
    from rackmath.api.quiz import QuizRequest
    from rackmath.api.racks import RacksRequest
    from rackmath.api.result import Result
    from rackmath.api.rl import RlRequest
    from rackmath.api.simulation.request import SimulateRequest
    from rackmath.api.simulation.result import Percentiles, Poisson, SimulateResult, read_trace, simulate
    from rackmath.api.size import size
    from rackmath.api.solve import ClaimsRequest, SolveRequest
    from rackmath.api.sparsity import SparsityRequest
    from rackmath.api.subjects import Cluster, Engine, Workload, load_model, load_system
    from rackmath.api.token_costs import CostRequest
    from rackmath.api.traffic import TrafficFitRequest
    from rackmath.api.train import TrainResult, train
    from rackmath.api.train_request import TrainRequest
    from rackmath.engine.layout import Layout
    from rackmath.errors import DoesNotFit, InputError, NotUnderstood, RackmathError
    from rackmath.sweeps.comparison import CompareRequest
    from rackmath.sweeps.grid_request import SweepRequest
    from rackmath.web.widget import widget

_MODULES = {
    "AddRequest": "rackmath.api.evidence",
    "AgentRequest": "rackmath.api.agent",
    "BudgetRequest": "rackmath.api.budget",
    "CacheRequest": "rackmath.api.cache",
    "ClaimsRequest": "rackmath.api.solve",
    "Cluster": "rackmath.api.subjects",
    "CompareRequest": "rackmath.sweeps.comparison",
    "ContextRequest": "rackmath.api.context",
    "CostRequest": "rackmath.api.token_costs",
    "Deployment": "rackmath.api.deployment",
    "DepthRequest": "rackmath.api.depth",
    "DoesNotFit": "rackmath.errors",
    "Engine": "rackmath.api.subjects",
    "EstimateRequest": "rackmath.api.estimate_request",
    "EstimateResult": "rackmath.api.estimate_result",
    "EvidenceRequest": "rackmath.api.evidence",
    "ExpertsRequest": "rackmath.api.experts",
    "FitRequest": "rackmath.api.fit_request",
    "FleetRequest": "rackmath.api.fleet",
    "InputError": "rackmath.errors",
    "Layout": "rackmath.engine.layout",
    "MemoryRequest": "rackmath.api.memory",
    "ModelRequest": "rackmath.api.model",
    "NotUnderstood": "rackmath.errors",
    "PageRequest": "rackmath.api.price_page",
    "Percentiles": "rackmath.api.simulation.result",
    "PipelineRequest": "rackmath.api.pipeline",
    "PlanRequest": "rackmath.api.plan_question",
    "PlanResult": "rackmath.api.plan",
    "Poisson": "rackmath.api.simulation.result",
    "PredictRequest": "rackmath.api.predict",
    "PredictResult": "rackmath.api.predict",
    "PriceRequest": "rackmath.api.decode",
    "PriceResult": "rackmath.api.decode",
    "RackmathError": "rackmath.errors",
    "QuizRequest": "rackmath.api.quiz",
    "RacksRequest": "rackmath.api.racks",
    "Result": "rackmath.api.result",
    "RlRequest": "rackmath.api.rl",
    "SimulateRequest": "rackmath.api.simulation.request",
    "SimulateResult": "rackmath.api.simulation.result",
    "SolveRequest": "rackmath.api.solve",
    "SparsityRequest": "rackmath.api.sparsity",
    "SweepRequest": "rackmath.sweeps.grid_request",
    "TrafficFitRequest": "rackmath.api.traffic",
    "TrainRequest": "rackmath.api.train_request",
    "TrainResult": "rackmath.api.train",
    "Workload": "rackmath.api.subjects",
    "answer": "rackmath.api.answers",
    "decode_prices": "rackmath.api.decode",
    "estimate": "rackmath.api.estimate",
    "explore": "rackmath.api.explore",
    "load_model": "rackmath.api.subjects",
    "load_system": "rackmath.api.subjects",
    "plan": "rackmath.api.plan",
    "predict": "rackmath.api.predict",
    "read_trace": "rackmath.api.simulation.result",
    "simulate": "rackmath.api.simulation.result",
    "size": "rackmath.api.size",
    "train": "rackmath.api.train",
    "widget": "rackmath.web.widget",
}
"""Public names and the modules that define them."""

__all__ = [
    "AddRequest",
    "AgentRequest",
    "BudgetRequest",
    "CacheRequest",
    "ClaimsRequest",
    "Cluster",
    "CompareRequest",
    "ContextRequest",
    "CostRequest",
    "Deployment",
    "DepthRequest",
    "DoesNotFit",
    "Engine",
    "EstimateRequest",
    "EstimateResult",
    "EvidenceRequest",
    "ExpertsRequest",
    "FitRequest",
    "FleetRequest",
    "InputError",
    "Layout",
    "MemoryRequest",
    "ModelRequest",
    "NotUnderstood",
    "PageRequest",
    "Percentiles",
    "PipelineRequest",
    "PlanRequest",
    "PlanResult",
    "Poisson",
    "PredictRequest",
    "PredictResult",
    "PriceRequest",
    "PriceResult",
    "QuizRequest",
    "RackmathError",
    "RacksRequest",
    "Result",
    "RlRequest",
    "SimulateRequest",
    "SimulateResult",
    "SolveRequest",
    "SparsityRequest",
    "SweepRequest",
    "TrafficFitRequest",
    "TrainRequest",
    "TrainResult",
    "Workload",
    "__version__",
    "answer",
    "decode_prices",
    "estimate",
    "explore",
    "load_model",
    "load_system",
    "plan",
    "predict",
    "read_trace",
    "simulate",
    "size",
    "train",
    "widget",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the package itself stays light."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
