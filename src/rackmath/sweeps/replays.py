"""One run of the simulator from the options of its command: what is simulated, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.deployment import transfer_of, two_pools
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import Failures, Fleet, PrefixCache, Scaling, Tier
from rackmath.serving.simulator.workload import Workload
from rackmath.snapshots import Checkpoint
from rackmath.sweeps.members import Member, beside_of, member_of, services
from rackmath.sweeps.replay_options import asked_of, tiers_of
from rackmath.traffic import traffic

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """Everything that one run of the simulator needs, and what its report says beside."""

    given: Mapping[str, Any]
    """Options of the command."""
    notes: tuple[str, ...]
    work: Workload
    cache: PrefixCache
    members: tuple[Member, ...]
    """Kinds of replicas of one fleet, or readers and writers."""
    transfer: Callable[[Array], Array] | None
    """Tokens of prompts -> seconds between two pools; None for one fleet."""

    @property
    def pools(self) -> list[tuple[Member, ...]]:
        """Members of each fleet, in the order of the outcomes of :func:`run`."""
        return [self.members] if self.transfer is None else [(one,) for one in self.members]

    def fleet(self, member: Member) -> Fleet:
        """How the fleet of a member is run."""
        given, most = self.given, self.given["scale_to"]
        startup = given["startup"]
        return Fleet(
            replicas=member.replicas,
            router=given["router"],
            failures=Failures(between=given["mtbf"] or float("inf"), repair=given["repair_time"]),
            scaling=None if most is None else Scaling(least=member.replicas, most=most, startup=startup),
            seed=given["seed"],
        )


def job_of(model: str, on: str, given: Mapping[str, Any]) -> Job:
    """Read the model, the system and the traffic, choose layouts, fill tables.

    Errors: :class:`InputError` and :class:`DoesNotFit` for what cannot be meant.
    """
    work, notes = traffic(asked_of(given))
    beside = beside_of(given["beside"])
    work, numbers = services(work, beside, given["seed"])
    gpus, readers = given["gpus"], given["prefill_gpus"] or 0
    if readers >= gpus:
        raise InputError("--prefill-gpus", readers, f"leave some of the {gpus} accelerators to write")
    if readers and beside:
        raise InputError("--beside", given["beside"][0], "two pools are of one kind each: leave --prefill-gpus out")
    if readers:
        layouts = (given["prefill_layout"] or given["layout"], given["layout"])
        members = [
            member_of(model, where, share, {**given, "layout": layout}, work, 0)
            for where, share, layout in zip(
                (given["prefill_on"] or on, on), (readers, gpus - readers), layouts, strict=True
            )
        ]
    else:
        for option in ("prefill_layout", "prefill_on"):
            if given[option]:
                raise InputError(f"--{option.replace('_', '-')}", given[option], "say how many read: --prefill-gpus")
        members = [member_of(model, on, gpus, given, work, 0)]
        for one, number in zip(beside, numbers, strict=True):
            options = {**given, "layout": None, "usd_per_gpu_hour": None, **one.options}
            if "on" not in one.options:
                options["usd_per_gpu_hour"] = given["usd_per_gpu_hour"]
            members.append(
                member_of(options.get("model", model), options.get("on", on), options["gpus"], options, work, number)
            )
    first, last = members[0], members[-1]
    return Job(
        given=given,
        notes=tuple(notes),
        work=work,
        cache=PrefixCache(
            # As engines do by default: what requests leave of the cache keeps prefixes.
            tiers=(Tier(name="hbm", capacity=float("inf"), shared=True),)
            if given["tiers"] is None and len(work.start)
            else tiers_of(given["tiers"]),
            eviction=given["eviction"],
            lifetime=given["ttl"],
            through=given["write_through"],
            overlapped=not given["wait_for_loads"],
        ),
        members=tuple(members),
        transfer=transfer_of(
            first.architecture, (first.system, last.system), first.deployment.layout, last.deployment.layout, gpus
        )
        if readers
        else None,
    )  # fmt: skip


def run(
    job: Job, progress: Callable[[str], None] | None = None, checkpoint: Checkpoint | None = None
) -> tuple[Outcome, ...]:
    """One fleet, or readers and writers; long runs are kept in a checkpoint and go on from it."""

    def say(done: int, of: int) -> None:
        if progress is not None:
            progress(f"{done:,} of {of:,} requests")

    if progress is not None:
        progress("compiled loop: half a minute the first time, then from its cache")
    keep = checkpoint.keep if checkpoint else lambda snapshot: None
    resume = checkpoint.found if checkpoint else None
    first = job.members[0]
    if job.transfer is None:
        return (
            simulate(
                job.work,
                first.deployment.times,
                batching=first.batching,
                cache=job.cache,
                fleet=job.fleet(first),
                kv_bytes=first.deployment.kv_bytes,
                beside=[one.kind for one in job.members[1:]],
                progress=say,
                keep=keep,
                resume=resume,
            ),
        )
    readers, writers = job.members
    pools = two_pools(
        job.work,
        readers.kind,
        writers.kind,
        cache=job.cache,
        fleets=(job.fleet(readers), job.fleet(writers)),
        transfer=job.transfer,
        progress=say,
        keep=keep,
        resume=resume,
    )
    return pools.prefill, pools.decode


def slowed(job: Job, factors: Mapping[str, float]) -> Job:
    """The same with all steps so many times as long, by the name of the chip: the ends of the engine's range."""
    return replace(
        job,
        members=tuple(
            replace(one, deployment=one.deployment.slowed(factors[one.system.chip.name])) for one in job.members
        ),
    )
