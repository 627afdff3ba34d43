"""A deployment: one model on accelerators in one way. What launch commands start and what a simulation runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackmath.api.images import served_fields
from rackmath.api.plan_question import PlanRequest
from rackmath.api.shown import Shown
from rackmath.api.subjects import Engine, Workload
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.launch_boxes import COMMANDS
from rackmath.serving.schedulers import LAUNCHED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Deployment(Shown):
    """A model served on accelerators in one way."""

    model: str | Architecture
    system: str | System
    gpus: int
    """Accelerators together. [accelerators]"""
    layout: str | None = None
    """Of one copy; of two pools of those that decode. By default the fewest accelerators that hold the model."""
    prefill_gpus: int | None = None
    """Of them, those that prefill only; None of one pool. [accelerators]"""
    prefill_layout: str | None = None
    """Of one copy that prefills."""
    encoder_gpus: int | None = None
    """Of them, those that encode images only; None where servers do. [accelerators]"""
    max_num_seqs: int | None = None
    """Sequences of a data-parallel group at most, in the engine's own terms; None as it does by default. [sequences]"""
    max_num_batched_tokens: int | None = None
    """Tokens of a step; of two pools of those that decode; None as the engine does by default. [tokens]"""
    prefill_max_num_batched_tokens: int | None = None
    """Tokens of a step of those that prefill; None as those that decode. [tokens]"""
    policy: str | None = None
    """Order of prompts and answers in its steps; None as the engine does by default."""
    preemption: str | None = None
    """What happens when the cache is full; None as the engine does by default."""
    gpu_memory_utilization: float | None = None
    """Part of the memory that the engine may take, in its own terms; None as the engine does by default."""
    weights: str | None = None
    """Format of the linear layers; None as the config says."""
    kv: str | None = None
    """Format of the cache; None as the config says."""
    draft_tokens: int = 0
    """Tokens speculated with each step. [tokens]"""
    acceptance: str | None = None
    """Chance that a draft is accepted; None as measured."""
    draft_model: str | Architecture | None = None
    served: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of requests that say what adapters it serves, how tokens choose experts, what images prompts hold."""
    engine: Engine = field(default_factory=Engine)
    usd_per_gpu_hour: float | None = None
    workload: Workload | None = None
    """Requests that it is planned for."""
    planned: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Speed, cost and their ranges, where it is a point of a plan: the keys of ``rackmath plan --json``."""
    commands: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Launch commands by engine, where it is a point of a plan."""

    def launch(self, engine: str = "vllm") -> str:
        """Commands that start it: vllm, sglang, trtllm, or ``kubernetes`` for the resource of two pools under Dynamo.

        A point of a plan for ``llama.cpp`` has the command of its server alone.

        Errors: :class:`~rackmath.errors.InputError` for an engine that no commands are written for.
        """
        engines = [name for name in (*COMMANDS, "kubernetes") if name in self.commands]
        if engine not in engines:
            way_out = f"use one of {', '.join(engines)}" if engines else "only points of a plan have commands"
            raise InputError("engine", engine, way_out)
        return str(self.commands[engine])

    @property
    def simulated(self) -> dict[str, Any]:
        """Fields of a :class:`~rackmath.api.simulation.request.SimulateRequest`, without traffic."""
        fields: dict[str, Any] = {
            "model": self.model,
            "on": self.system,
            "gpus": self.gpus,
            "layout": self.layout,
            "prefill_gpus": self.prefill_gpus,
            "prefill_layout": self.prefill_layout,
            "encoder_gpus": self.encoder_gpus,
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "prefill_max_num_batched_tokens": self.prefill_max_num_batched_tokens,
            "policy": self.policy,
            "preemption": self.preemption,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "weights": self.weights,
            "kv": self.kv,
            "usd_per_gpu_hour": self.usd_per_gpu_hour,
            **self.served,
            **self.engine.options,
        }
        if self.draft_tokens:
            fields |= {
                "draft_tokens": self.draft_tokens,
                "acceptance": self.acceptance,
                "draft_model": self.draft_model,
            }
        if self.workload is not None:
            w = self.workload
            fields |= {
                "input": w.input,
                "output": w.output,
                "length_cv": 0.0,
                "cached_prefix": w.cached_prefix,
                "ttft": w.ttft,
                "tpot": w.tpot,
            }
        return fields

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        subjects = {"model": self.model, "on": self.system}
        names = {key: x if isinstance(x, str) else x.name for key, x in subjects.items()}
        return [("deployment", dict(self.planned) | self.simulated | names)]


def deployment_of(request: PlanRequest, point: Mapping[str, Any], commands: Mapping[str, Any]) -> Deployment:
    """A point of a plan as a deployment.

    Parameters
    ----------
    request
        What was planned.
    point
        Numbers of the point, as of ``rackmath plan --json``.
    commands
        Its launch commands.
    """
    r, pools, draft_tokens = request, point["pools"], int(point["draft_tokens"])
    max_num_seqs = int(point["max_num_seqs"])
    policy, preemption = LAUNCHED.get(r.engine, (None, None))
    return Deployment(
        model=r.model,
        system=r.on,
        gpus=int(point["gpus"]),
        layout=pools["write"] if pools else point["layout"],
        prefill_gpus=round(pools["reading_gpus"]) if pools else None,
        prefill_layout=pools["read"] if pools else None,
        encoder_gpus=int(point.get("encoders", 0)) or None,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max(int(point["decode_chunk"]), max_num_seqs * (1 + draft_tokens)),
        prefill_max_num_batched_tokens=int(point["chunk"]) if pools else None,
        policy=policy,
        preemption=preemption,
        gpu_memory_utilization=point["memory_fraction"],
        weights=point["weights"],
        kv=point["kv"],
        draft_tokens=draft_tokens,
        acceptance=r.acceptance,
        draft_model=r.draft_model,
        served=served_fields(r),
        engine=Engine(r.engine, r.year, r.ideal),
        usd_per_gpu_hour=r.usd_per_gpu_hour,
        workload=Workload(
            input=r.input, output=r.output, ttft=r.ttft, tpot=r.tpot, rate=r.rate, cached_prefix=r.cached_prefix
        ),
        planned=dict(point),
        commands=dict(commands),
    )
