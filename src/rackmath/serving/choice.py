"""Choosing among operating points: the frontier, the best under limits, and what the others lose by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Estimate, Layout, Losses, estimate
from rackmath.hardware import System
from rackmath.serving.engines import most_sequences
from rackmath.serving.load import Scheduling
from rackmath.serving.points import Ints, Points, undominated
from rackmath.serving.search import SearchResult
from rackmath.serving.startup.held import held_as_launched
from rackmath.serving.workload import Limits, PlanWorkload, Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a deployment is not run at a larger batch, or why another one is preferred."""

    stopped_by: str
    """What would be violated next: a limit, memory, or what the engine takes."""
    use: float
    """Part of it that is used. [1]"""


def within(points: Points, limits: Limits) -> np.ndarray:
    """Which points keep both limits. (points,)"""
    return (points.time_to_first_token <= limits.time_to_first_token) & (
        points.time_per_output_token <= limits.time_per_output_token
    )


def frontier(points: Points, limits: Limits) -> Ints:
    """Places of undominated points, throughput per accelerator against speed, fastest first.

    Only points that keep the limit on the first token are meant.
    """
    inside = np.flatnonzero(points.time_to_first_token <= limits.time_to_first_token)
    return inside[undominated(points.per_gpu[inside], points.time_per_output_token[inside])]


def best(points: Points, limits: Limits) -> int | None:
    """Place of the point with most requests per accelerator under both limits; the faster of equals."""
    inside = np.flatnonzero(within(points, limits))
    if not len(inside):
        return None
    order = np.lexsort((points.time_per_output_token[inside], -points.per_gpu[inside]))
    return int(inside[order[0]])


def runners_up(points: Points, limits: Limits, winner: int, count: int) -> list[int]:
    """Best points of other deployments: another layout, pools, or formats; best first.

    Of the same layouts only the better number formats are listed.
    """
    inside = np.flatnonzero(within(points, limits))
    order = inside[np.argsort(-points.per_gpu[inside], kind="stable")]
    families = {_family(points, winner)}
    places: list[int] = []
    for place in order:
        family = _family(points, int(place))
        if family not in families:
            families.add(family)
            places.append(int(place))
        if len(places) == count:
            break
    return places


def _family(points: Points, place: int) -> tuple[int, int, bool, bool]:
    return (
        int(points.layout[place]),
        int(points.prefill[place]),
        bool(points.draft_tokens[place] > 0),
        bool(points.encoders[place] > 0),
    )


def losses_at(search: SearchResult, place: int, losses: Losses | None) -> Losses | None:
    """Losses with what measurements near a point say of it."""
    if losses is None or search.corrections is None:
        return losses
    c = search.corrections
    return replace(losses, correction={"decode": float(c.decode[place]), "prefill": float(c.prefill[place])})


def gpu_seconds(
    system: System,
    work: PlanWorkload,
    space: Space,
    search: SearchResult,
    place: int,
    losses: Losses | None,
    s: Scheduling,
) -> Mapping[str, float]:
    """Accelerator-seconds per output token by what they go to; they add up to gpus / (rate x output). [s]

    The step's terms and losses as in :class:`~rackmath.engine.Estimate`, prompts that
    interrupt it or have a pool of their own, and accelerators that wait.
    """
    p = search.points
    step, share = decode_step(system, work, space, search, place, losses, s)
    parts = {name: float(v) * share for name, v in step.terms.items()}
    parts |= {name: float(v) * share for name, v in step.lost.items()}
    total = float(p.gpus[place] / (p.rate[place] * work.output))
    parts["prompts and waiting"] = max(total - sum(parts.values()), 0.0)
    return parts


def decode_step(
    system: System,
    work: PlanWorkload,
    space: Space,
    search: SearchResult,
    place: int,
    losses: Losses | None,
    s: Scheduling,
) -> tuple[Estimate, float]:
    """The decode step of a point, and accelerators over the tokens that it yields: a time by it is per output token."""
    p = search.points
    layout = search.layouts[int(p.layout[place])]
    draft_tokens, batch = float(p.draft_tokens[place]), float(p.batch[place])
    step = estimate(
        space.variants[int(p.variant[place])].architecture,
        system,
        layout,
        batch=batch,
        context=work.input + work.output / 2,
        draft_tokens=draft_tokens,
        draft=space.draft,
        losses=losses_at(search, place, losses),
    )
    return step, float(layout.gpus) / (batch * float(s.accepted(draft_tokens)))


def loses_by(winner: Mapping[str, float], loser: Mapping[str, float], count: int = 2) -> str:
    """Write what a deployment spends more accelerator time on than the winner, largest first."""
    total = sum(winner.values())
    more = {name: (loser[name] - winner[name]) / total for name in winner}
    largest = sorted(more.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {extra:+.0%}" for name, extra in largest if extra > 0.005) or "nothing stands out"


def ending(
    system: System, work: PlanWorkload, limits: Limits, space: Space, search: SearchResult, place: int
) -> Ending:
    """What stops a point from a larger batch: the limit, memory, engine's own number or pool that is used most."""
    p, room = search.points, _room(system, work, space, search, place)
    is_pooled = bool(p.prefill[place] >= 0)
    sequences = float(p.batch[place]) if is_pooled else float(p.concurrency[place])
    shares = {
        "time to first token": float(p.time_to_first_token[place]) / limits.time_to_first_token,
        "time per output token": float(p.time_per_output_token[place]) / limits.time_per_output_token,
        "memory": sequences / max(room, 1.0),
        "number of sequences that the engine takes": sequences / most_sequences(space.engine),
        "capacity of the prefill workers": float(p.reading[place]),
    }
    name = max(shares, key=lambda n: shares[n])
    return Ending(stopped_by=name, use=shares[name])


def launched_sequences(system: System, work: PlanWorkload, space: Space, search: SearchResult, place: int) -> float:
    r"""Sequences that the engine of a worker that writes is launched with places for. [sequences]

    .. math:: N + 2 \sqrt{N}

    of N in the mean, as requests that arrive at random have them: they are fewer in all but one moment of forty-four.
    No more than the memory holds and the engine takes. Source: the number in a server without a queue (M/G/infinity)
    is Poisson distributed.
    """
    mean = float(search.points.sequences[place])
    most = min(_room(system, work, space, search, place), most_sequences(space.engine))
    return max(min(mean + 2 * mean**0.5, most), mean)


def _room(system: System, work: PlanWorkload, space: Space, search: SearchResult, place: int) -> float:
    """Sequences that the memory of a worker that writes holds. [sequences]"""
    p = search.points
    architecture, layout = space.variants[int(p.variant[place])].architecture, search.layouts[int(p.layout[place])]
    chunks, context = [float(p.decode_chunk[place])], work.input + work.output
    return float(held_as_launched(architecture, system, [layout], chunks, space.server, context)[0, 0])


def describe(layouts: Sequence[Layout], points: Points, place: int) -> str:
    """Write a deployment in one line."""
    text = layouts[int(points.layout[place])].text()
    if points.prefill[place] < 0:
        return text
    prefill = layouts[int(points.prefill[place])].text()
    return f"{points.prefill_workers[place]:g} x {prefill} read, {points.workers[place]:g} x {text} write"
