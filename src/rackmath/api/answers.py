"""Any request -> its result: for those who hold requests of many kinds, as pages do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FUNCTIONS = {
    "AddRequest": "rackmath.api.evidence:run_add",
    "AgentRequest": "rackmath.api.agent:run_agent",
    "BudgetRequest": "rackmath.api.budget:run_budget",
    "CacheRequest": "rackmath.api.cache:run_cache",
    "ClaimsRequest": "rackmath.api.solve:run_claims",
    "CompareRequest": "rackmath.sweeps.comparison:run_compare",
    "ContextRequest": "rackmath.api.context:run_context",
    "CostRequest": "rackmath.api.token_costs:run_cost",
    "DepthRequest": "rackmath.api.depth:run_depth",
    "EstimateRequest": "rackmath.api.estimate:run_estimate",
    "EvidenceRequest": "rackmath.api.evidence:run_evidence",
    "ExpertsRequest": "rackmath.api.experts:run_experts",
    "FitRequest": "rackmath.api.fit:run_fit",
    "FleetRequest": "rackmath.api.fleet:run_fleet",
    "MemoryRequest": "rackmath.api.memory:run_memory",
    "ModelRequest": "rackmath.api.model:run_model",
    "PageRequest": "rackmath.api.price_page:run_page",
    "PipelineRequest": "rackmath.api.pipeline:run_pipeline",
    "PlanRequest": "rackmath.api.size:run_planning",
    "PredictRequest": "rackmath.api.predict:run_prediction",
    "PriceRequest": "rackmath.api.decode:run_decoding",
    "QuizRequest": "rackmath.api.quiz:run_quiz",
    "RacksRequest": "rackmath.api.racks:run_racks",
    "RlRequest": "rackmath.api.rl:run_rl",
    "SimulateRequest": "rackmath.api.simulation.result:run_simulation",
    "SolveRequest": "rackmath.api.solve:run_solve",
    "SparsityRequest": "rackmath.api.sparsity:run_sparsity",
    "SweepRequest": "rackmath.sweeps.grid_request:run_sweep",
    "TrafficFitRequest": "rackmath.api.traffic:run_traffic_fit",
    "TrainRequest": "rackmath.api.train:run_training",
}
"""Requests by name, and the functions that answer them; those of higher rooms are imported when they are asked."""


def answer(request: Any) -> Any:
    """Answer a request of any kind: ``answer(CacheRequest(model="deepseek-v3", on="h200-sxm")).figure()``.

    Returns the result of its kind, with ``to_dict()`` (what the command prints with ``--json``) and ``figure()``.
    Errors: those of the request; :class:`TypeError` for what is no request.

    >>> from rackmath import CacheRequest
    >>> answer(CacheRequest(model="llama-3.1-70b", on="h200-sxm", tiers="ddr5")).to_dict()["cheapest"][0]["tier"]
    'hbm'
    """
    name = type(request).__name__
    if name not in _FUNCTIONS:
        raise TypeError(f"{name} is no request: one of {', '.join(_FUNCTIONS)}")
    module, _, function = _FUNCTIONS[name].partition(":")
    return getattr(import_module(module), function)(request)
