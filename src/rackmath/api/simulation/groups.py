"""Kinds of replicas of one run: which model they serve on which accelerators, in what layout, with what software."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rackmath.api.apart import apart_range
from rackmath.api.drafts import draft_model_of, drafting
from rackmath.api.fields import field_named
from rackmath.api.images import served_model
from rackmath.api.near_service import Service, service_near
from rackmath.api.simulation.batching import batching_of, max_num_batched_tokens_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.subjects import system_of
from rackmath.engine import Losses
from rackmath.engine.layout import Layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.evidence.subjects import layout_text
from rackmath.hardware import Chip, System
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Architecture
from rackmath.serving.engine_limits import draft_notes
from rackmath.serving.engines import engine_layout, micro_batch_tokens
from rackmath.serving.simulator.deployment import SimulatedLayout, deploy, smallest_layout
from rackmath.serving.simulator.kinds import ReplicaKind
from rackmath.serving.simulator.settings import Batching
from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.startup.memory import EngineStart
from rackmath.serving.startup.rules import is_known
from rackmath.serving.variants import as_read

_OPTIONS = ("model", "on", "gpus", "layout", "max_num_seqs", "max_num_batched_tokens", "weights", "kv")
"""Fields of the request that a group may set otherwise."""
_WHOSE = ("share", "for")
"""Which requests a group serves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicaGroup:
    """Equal replicas, deployed."""

    architecture: Architecture
    system: System
    software: constants_file.EngineVersion | None
    """Whose losses steps have; None for the bound."""
    losses: Losses | None
    """Those losses, as measurements near it correct them."""
    deployment: SimulatedLayout
    batching: Batching
    replicas: int
    service: int
    price: float | None
    """Of one accelerator. [USD/s]"""
    near: Service | None = None
    """What measurements near it say, where they were asked."""
    notes: tuple[str, ...] = ()
    """What a report has to say of its model."""

    @property
    def span(self) -> tuple[float, float]:
        """90 % range of measured over simulated time of a step; (1, 1) of the bound."""
        if self.software is None:
            return 1.0, 1.0
        computed_range = constants_file.range_of(self.system, self.software, "time per token")
        computed_range = apart_range(self.deployment.layout, "time per token", computed_range)
        return computed_range if self.near is None else self.near.range("time per token", computed_range)

    @property
    def gpus_each(self) -> float:
        """Accelerators of one replica: of a layout with several groups or stages its part."""
        return float(self.deployment.layout.gpus) / self.deployment.groups

    @property
    def kind(self) -> ReplicaKind:
        """The same as the simulator takes it."""
        return ReplicaKind(
            times=self.deployment.times, batching=self.batching, replicas=self.replicas,
            kv_bytes=self.deployment.kv_bytes, service=self.service,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """What a report calls it."""
        return f"{self.architecture.name} on {self.system.name} in {self.deployment.layout.text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroupText:
    """What ``--add-replicas`` asks for."""

    options: Mapping[str, Any]
    """Options of the command that differ."""
    share: float | None
    """Of the requests that are for these replicas alone. [1]"""
    service: str | None
    """Name in the trace of what they serve."""

    @property
    def alone(self) -> bool:
        """Whether they have requests of their own."""
        return self.share is not None or self.service is not None


def replica_groups_of(texts: Sequence[str]) -> list[ReplicaGroupText]:
    """Read ``gpus=8 layout=tp8,ep8 max-num-seqs=16 share=0.2`` and the like.

    Errors: :class:`InputError` for keys that are unknown and values that cannot be meant.
    """
    groups: list[ReplicaGroupText] = []
    for text in texts:
        parts = dict(_pair(text, part) for part in text.split())
        share = parts.pop("share", None)
        service = parts.pop("for", None)
        if "gpus" not in parts:
            raise InputError("--add-replicas", text, "say how many: gpus=8")
        if parts.get("model") and share is None and service is None:
            raise InputError("--add-replicas", text, "another model needs requests of its own: share=0.2, or for=NAME")
        if share is not None and service is not None:
            raise InputError("--add-replicas", text, "give share or for, not both")
        numbers = {
            key: _whole(text, parts[key]) for key in ("gpus", "max_num_seqs", "max_num_batched_tokens") if key in parts
        }
        part = None if share is None else _share(text, share)
        groups.append(ReplicaGroupText(options=parts | numbers, share=part, service=service))
    return groups


def _pair(text: str, part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    field = field_named(SimulateRequest, key)
    name = field.name if field is not None else key
    if name not in (*_OPTIONS, *_WHOSE) or not value:
        keys = ", ".join((*_OPTIONS, *_WHOSE)).replace("_", "-")
        raise InputError("--add-replicas", text, f"write key=value with spaces between, of {keys}")
    return name, value


def _whole(text: str, value: str) -> int:
    if not value.isdigit() or not int(value):
        raise InputError("--add-replicas", text, f"{value} is no count")
    return int(value)


def _share(text: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError as error:
        raise InputError("--add-replicas", text, f"{value} is no share") from error
    if not 0 < share < 1:
        raise InputError("--add-replicas", text, "a share is between 0 and 1")
    return share


def services(work: Arrivals, beside: Sequence[ReplicaGroupText], seed: int) -> tuple[Arrivals, list[int]]:
    """Deal requests to those whom they are for; returns what each of ``beside`` serves, 0 being the others' service.

    Errors: :class:`InputError` for names that the trace has not, shares that leave nothing.
    """
    service = np.zeros(len(work), np.int32)
    numbers: list[int] = []
    for group in beside:
        if group.service is not None:
            if group.service not in work.names:
                names = ", ".join(work.names) or "none: it has no column model"
                raise InputError("--add-replicas for", group.service, f"the trace names {names}")
            assert work.service is not None, "names come with numbers"
            numbers.append(len(set(numbers) - {0}) + 1)
            service[work.service == work.names.index(group.service)] = numbers[-1]
        elif group.share is not None:
            numbers.append(len(set(numbers) - {0}) + 1)
        else:
            numbers.append(0)
    shares = [group.share or 0.0 for group in beside]
    if sum(shares) >= 1:
        raise InputError("--add-replicas share", sum(shares), "leave some requests to the others")
    if any(shares):
        free = np.flatnonzero(service == 0)
        random = np.random.default_rng([seed, 2])
        # Turns of a session go where its first one went.
        head = _heads(work)[free]
        service_of = random.choice(len(beside) + 1, len(work), p=[*shares, 1 - sum(shares)])[head]
        for k, number in enumerate(numbers):
            if shares[k]:
                service[free[service_of == k]] = number
    return replace(work, service=service if service.any() else None, names=()), numbers


def _heads(work: Arrivals) -> np.ndarray:
    """First request of everybody's session."""
    heads = np.arange(len(work))
    if work.task is not None:
        return np.unique(work.task, return_index=True)[1][work.task]
    if work.graph is not None:
        for i, after in zip(work.graph.source.tolist(), work.graph.to.tolist(), strict=True):
            heads[after] = heads[i]
    return heads


def group_of(r: SimulateRequest, work: Arrivals, service: int) -> ReplicaGroup:
    """Choose a layout, fill its tables.

    Parameters
    ----------
    r : SimulateRequest
        With the model, the system and the accelerators of these replicas alone.
    work : Arrivals
        Requests that they are deployed for.
    service : int
        What they serve.

    Errors: :class:`InputError` and :class:`DoesNotFit` for what cannot be run.
    """
    system, gpus = system_of(r.on), r.gpus
    family = "" if r.ideal else r.engine
    architecture, file_note = as_read(served_model(r, r.model, system), family, r.weights, r.kv)
    engine = constants_file.engine_of(system, r.engine, r.year, r.enforce_eager)
    software = None if r.ideal else engine
    losses = None if software is None else constants_file.losses_of(system, software, "time per token")
    context = float((work.prompt + work.output).mean())
    draft = draft_model_of(r.draft_model, architecture)
    server = _server(r, system.chip, draft)
    layout = _layout(architecture, system, gpus, context, r.layout, server)
    if server.fraction is not None and (layout.ffn or not is_known(server.family)):
        way_out = f"leave it out: how {server.family} as {layout.text()} shares out memory is not known"
        raise InputError("--gpu-memory-utilization", server.fraction, way_out)
    at = None
    if losses is not None and not (r.no_evidence or r.enforce_eager or layout.ffn):
        at = service_near(
            architecture,
            system,
            engine=r.engine,
            year=r.year,
            gpus=float(gpus),
            input=float(work.prompt.mean()),
            output=float(work.output.mean()),
            cached_prefix=r.cached_prefix,
            layout=layout_text(None, layout),
        )
        losses = at.corrected(losses)
    timer = engine_timer(architecture, system, losses, draft=draft, piece=micro_batch_tokens(family))
    system.require_network(gpus)
    scheduling = None if software is None else constants_file.scheduling_of(software)
    drafts = drafting(architecture, engine, r.draft_tokens, r.acceptance, draft)
    batching = batching_of(r, architecture, system, layout, scheduling, drafts)
    deployment = deploy(architecture, system, layout, timer, batching, work, server)
    return ReplicaGroup(
        architecture=architecture,
        system=system,
        software=software,
        losses=losses,
        deployment=deployment,
        batching=replace(batching, memory=deployment.memory),
        replicas=gpus // int(layout.gpus) * deployment.groups,
        service=service,
        price=catalogue.price_of(system, r.usd_per_gpu_hour),
        near=at,
        notes=(*file_note, *draft_notes(family, layout, r.draft_tokens)),
    )


def _server(r: SimulateRequest, chip: Chip, draft: Architecture | None) -> EngineStart:
    """How engines are started, by whose account of memory requests find a place; the bound's is of bytes alone.

    Where the engine's part of the memory is said, its account counts under the bound as well.
    """
    return EngineStart(
        family="" if r.ideal and r.gpu_memory_utilization is None else r.engine,
        fraction=r.gpu_memory_utilization,
        tokens=float(max_num_batched_tokens_of(r, chip)),
        sequences=r.max_num_seqs,
        graphs=not r.enforce_eager,
        speculative=draft is None and r.draft_tokens > 0,
        draft=draft,
    )


def _layout(
    architecture: Architecture, system: System, gpus: int, context: float, text: str | None, server: EngineStart
) -> Layout:
    if text is None:
        return smallest_layout(architecture, system, gpus, context, server)
    layout = engine_layout(text, None, architecture, server.family)
    if gpus % int(layout.gpus):
        raise InputError("--layout", text, f"{gpus} accelerators do not divide by its {layout.gpus:g}")
    return layout
