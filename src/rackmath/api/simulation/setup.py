"""A request -> one run of the simulator: what is simulated, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.api.simulation.fleet import fleet_of
from rackmath.api.simulation.groups import ReplicaGroup, group_of, replica_groups_of, services
from rackmath.api.simulation.images import with_image_traffic
from rackmath.api.simulation.refusals import check_limit
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.tiers import tiers_of
from rackmath.api.simulation.traffic import traffic
from rackmath.errors import InputError
from rackmath.io.machine_code import code_for
from rackmath.io.snapshots import Checkpoint
from rackmath.serving.simulator.deployment import transfer_of, two_pools
from rackmath.serving.simulator.encoders import Encoders
from rackmath.serving.simulator.pools_in_loop import in_loop
from rackmath.serving.simulator.run import Keep, Outcome, simulate
from rackmath.serving.simulator.settings import Fleet, PrefixCache, Tier
from rackmath.serving.simulator.upgrade import LOOKS
from rackmath.serving.simulator.workload import Arrivals

Array = NDArray[np.float64]


_BLOCK, _PLACE = 0.06, 0.006
"""Time of a block of a prefix, and of each place that it may have, over that of a request, where the loop is
interpreted."""
_RUNS_OF_USERS = 3
_CHANGE = 0.01
"""Time of reading all requests, once more for each call of the loop, over that of serving them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setup:
    """Everything that one run of the simulator needs, and what its report says beside."""

    request: SimulateRequest
    notes: tuple[str, ...]
    work: Arrivals
    cache: PrefixCache
    groups: tuple[ReplicaGroup, ...]
    """Kinds of replicas of one fleet, or prefill and decode workers."""
    transfer: Callable[[Array], Array] | None
    """Tokens of prompts -> seconds between two pools; None for one fleet."""
    encoders: Encoders | None = None
    """Accelerators that encode images only."""

    @property
    def served_work(self) -> Arrivals:
        """Requests as they reach the servers: after their images are encoded."""
        return self.work if self.encoders is None else self.encoders.encoded(self.work)

    @property
    def pools(self) -> list[tuple[ReplicaGroup, ...]]:
        """Groups of each fleet, in the order of the outcomes of :func:`run`."""
        return [self.groups] if self.transfer is None else [(group,) for group in self.groups]

    def fleet(self, group: ReplicaGroup) -> Fleet:
        """How the fleet of a group is run."""
        tokens = float((self.work.prompt + self.work.output).mean())
        return fleet_of(self.request, group, tokens, self.request.tpot, self.request.seed)


def setup_of(r: SimulateRequest) -> Setup:
    """Read the model, the system and the traffic, choose layouts, fill tables.

    Errors: :class:`InputError` and :class:`DoesNotFit` for what cannot be run.
    """
    work, notes = traffic(r.traffic)
    check_limit(r, work)
    beside = replica_groups_of(r.add_replicas)
    work, numbers = services(work, beside, r.seed)
    request, images = r, with_image_traffic(r, work)
    work, r = images.work, images.servers
    prefilling = r.prefill_gpus or 0
    if prefilling >= r.gpus:
        raise InputError("--prefill-gpus", prefilling, f"leave some of the {r.gpus} accelerators to decode")
    if prefilling and beside:
        raise InputError(
            "--add-replicas", r.add_replicas[0], "two pools are of one kind each: leave --prefill-gpus out"
        )
    if prefilling:
        prefill = replace(
            r,
            on=r.prefill_on or r.on,
            gpus=prefilling,
            layout=r.prefill_layout or r.layout,
            max_num_batched_tokens=r.prefill_max_num_batched_tokens or r.max_num_batched_tokens,
        )
        groups = [group_of(part, work, 0) for part in (prefill, replace(r, gpus=r.gpus - prefilling))]
    else:
        for field, value in (
            ("--prefill-layout", r.prefill_layout),
            ("--prefill-on", r.prefill_on),
            ("--prefill-max-num-batched-tokens", r.prefill_max_num_batched_tokens),
        ):
            if value:
                raise InputError(field, value, "say how many accelerators prefill: --prefill-gpus")
        groups = [group_of(r, work, 0)]
        for part, number in zip(beside, numbers, strict=True):
            # Another system has its own price.
            price = r.usd_per_gpu_hour if "on" not in part.options else None
            extra: SimulateRequest = replace(r, **({"layout": None, "usd_per_gpu_hour": price} | dict(part.options)))
            groups.append(group_of(extra, work, number))
    first, last = groups[0], groups[-1]
    return Setup(
        request=request,
        notes=(*notes, *images.notes),
        work=work,
        cache=PrefixCache(
            # As engines do by default: what requests leave of the cache keeps prefixes.
            tiers=(Tier(name="hbm", capacity=float("inf"), shared=True),)
            if r.tiers is None and len(work.start)
            else tiers_of(r.tiers),
            eviction=r.eviction,
            lifetime=r.ttl,
            through=r.write_through,
            overlapped=not r.wait_for_loads,
        ),
        groups=tuple(groups),
        encoders=images.encoders,
        transfer=transfer_of(
            first.architecture, (first.system, last.system), first.deployment.layout, last.deployment.layout, r.gpus
        )
        if prefilling
        else None,
    )


def run(
    setup: Setup, progress: Callable[[str], None] | None = None, checkpoint: Checkpoint | None = None
) -> tuple[Outcome, ...]:
    """One fleet, or readers and writers; long runs are kept in a checkpoint and go on from it."""
    tell: Callable[[str], None] = progress or (lambda text: None)

    def say(count: int, of: int) -> None:
        tell(f"{count:,} of {of:,} requests")

    code = code_for(_size(setup), len(setup.pools[0]), tell)
    keep: Keep = checkpoint.keep if checkpoint else lambda snapshot: None
    resume = checkpoint.snapshot if checkpoint else None
    first = setup.groups[0]
    if setup.transfer is None:
        return (
            simulate(
                setup.served_work,
                first.deployment.times,
                batching=first.batching,
                cache=setup.cache,
                fleet=setup.fleet(first),
                kv_bytes=first.deployment.kv_bytes,
                beside=[group.kind for group in setup.groups[1:]],
                progress=say,
                keep=keep,
                resume=resume,
                code=code,
            ),
        )
    prefill, decode = setup.groups
    run_pools = partial(
        two_pools,
        readers=prefill.kind,
        writers=decode.kind,
        cache=setup.cache,
        fleets=(setup.fleet(prefill), setup.fleet(decode)),
        transfer=setup.transfer,
        code=code,
    )
    if setup.work.graph is None:
        pools = run_pools(setup.served_work, progress=say, keep=keep, resume=resume)
    elif checkpoint is not None:
        raise InputError("--checkpoint", "closed loop", "runs of users of two pools are not kept: leave it out")
    else:
        pools = in_loop(setup.served_work, run_pools, lambda count: tell(f"run {count} of both pools"))
    return pools.prefill, pools.decode


def _size(setup: Setup) -> float:
    """How long a run is for :func:`code_for`, in requests to a fleet that stays as it is."""
    work = setup.work
    # Each tier of each replica has a place for every block that may come.
    places = len(setup.cache.tiers) * sum(group.replicas for group in setup.groups)
    runs = 1.0
    if setup.transfer is not None and work.graph is not None:
        # Users of two pools take a few runs for each of their requests.
        runs = _RUNS_OF_USERS * len(work) / max(int(np.isfinite(work.arrival).sum()), 1)
    return runs * (len(work) + len(work.blocks) * (_BLOCK + _PLACE * places)) * (1 + _CHANGE * _changes(setup))


def _changes(setup: Setup) -> float:
    """How often the fleet is looked at and may change: each time the loop is called anew, and reads all requests.

    Infinite where nobody knows how long the run lasts.
    """
    r, span = setup.request, setup.work.span
    if setup.work.graph is not None:
        return inf if r.mtbf or r.scale_to is not None or r.upgrade_at is not None else 0.0
    failing = 2 * sum(group.replicas for group in setup.groups) / r.mtbf if r.mtbf else 0.0
    deciding = 0.0 if r.scale_to is None else 1 / r.scale_interval
    upgrading = 0.0 if r.upgrade_at is None else max(span - r.upgrade_at, 0.0) / LOOKS
    return (failing + deciding) * span + upgrading


def slowed(setup: Setup, factors: Mapping[str, float]) -> Setup:
    """The same with all steps so many times as long, by the name of the chip: the ends of the engine's range."""
    encoders = setup.encoders
    return replace(
        setup,
        encoders=None if encoders is None else encoders.slowed(factors[encoders.chip]),
        groups=tuple(
            replace(group, deployment=group.deployment.slowed(factors[group.system.chip.name]))
            for group in setup.groups
        ),
    )
