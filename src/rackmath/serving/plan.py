"""A plan: the frontier of a search, the best point under limits, and why others lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackmath.engine import Losses
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.choice import Ending, best, ending, frontier, gpu_seconds, loses_by, runners_up, within
from rackmath.serving.corrections import Corrector, searched
from rackmath.serving.load import Scheduling
from rackmath.serving.points import Ints
from rackmath.serving.search import SearchResult
from rackmath.serving.variants import supported
from rackmath.serving.workload import Limits, PlanWorkload, Space

_RUNNERS_UP = 6
_MTP_DRAFTS = (0.0, 1.0, 2.0, 3.0)
"""Drafts that are tried where a model brings layers that speculate."""
_MODEL_DRAFTS = (1.0, 2.0, 3.0, 4.0, 5.0)
"""Drafts that are tried where another model speculates; it is loaded for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """Another deployment under the same limits."""

    place: int
    behind: float
    """Requests per accelerator that it lacks, as a part of the best. [1]"""
    spends: str
    """What it spends more accelerator time on."""
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Result of :func:`plan`."""

    search: SearchResult
    space: Space
    frontier: Ints
    """Places of undominated points that keep the limit on the first token, fastest first."""
    best: int | None
    """Place of the best point under both limits; None where none keeps them."""
    ending: Ending | None
    """What stops the best point from a larger batch."""
    seconds_by_use: Mapping[str, float]
    """Accelerator-seconds per output token of the best point, by what they go to. [s]"""
    losers: tuple[Alternative, ...]


def space_of(
    architecture: Architecture,
    system: System,
    gpus: int,
    *,
    weights: Sequence[str] = (),
    kv: Sequence[str] = (),
    draft_tokens: Sequence[float] = (),
    draft: Architecture | None = None,
    pools: bool = True,
    afd: bool = False,
    box: int = 1,
    engine: str = "",
    graphs: bool = True,
) -> Space:
    """Choices for a model on a system; what is not given is everything that is supported.

    ``engine`` is the family of the engine whose account of memory counts, none for the bound; ``graphs`` whether it
    replays its decode steps as graphs.
    """
    usual = _MODEL_DRAFTS if draft is not None else _MTP_DRAFTS if architecture.mtp else (0.0,)
    return Space(
        gpus=gpus,
        variants=supported(architecture, system.chip, weights, kv, engine),
        draft_tokens=tuple(draft_tokens) or usual,
        engine=engine,
        graphs=graphs,
        draft=draft,
        pools=pools,
        afd=afd,
        box=box,
    )


def plan(
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    losses: Losses | None,
    scheduling: Scheduling,
    correct: Corrector | None = None,
) -> Plan:
    """Search all deployments and choose.

    Arguments as of :func:`~rackmath.serving.search.search`; ``correct`` says what measurements near each point say.
    Errors: :class:`~rackmath.errors.DoesNotFit` where nothing fits.
    """
    search_result = searched(system, work, limits, space, losses, scheduling, correct)
    winner = best(search_result.points, limits)
    if winner is None:
        return Plan(
            search=search_result,
            space=space,
            frontier=frontier(search_result.points, limits),
            best=None,
            ending=None,
            seconds_by_use={},
            losers=(),
        )
    winner_seconds = gpu_seconds(system, work, space, search_result, winner, losses, scheduling)
    losers = tuple(
        Alternative(
            place=place,
            behind=1 - float(search_result.points.per_gpu[place] / search_result.points.per_gpu[winner]),
            spends=loses_by(winner_seconds, gpu_seconds(system, work, space, search_result, place, losses, scheduling)),
            ending=ending(system, work, limits, space, search_result, place),
        )
        for place in _others_to_show(search_result, limits, winner)
    )
    return Plan(
        search=search_result,
        space=space,
        frontier=frontier(search_result.points, limits),
        best=winner,
        ending=ending(system, work, limits, space, search_result, winner),
        seconds_by_use=winner_seconds,
        losers=losers,
    )


def _others_to_show(result: SearchResult, limits: Limits, winner: int) -> list[int]:
    """Places of the best of other deployments, and of the best whose routed experts stand apart where none is it."""
    apart = np.array([bool(x.ffn) for x in result.layouts])[result.points.layout]
    places = runners_up(result.points, limits, winner, _RUNNERS_UP)
    if not apart.any() or apart[[winner, *places]].any():
        return places
    inside = np.flatnonzero(within(result.points, limits) & apart)
    return [*places, *inside[np.argsort(-result.points.per_gpu[inside], kind="stable")][:1].tolist()]
