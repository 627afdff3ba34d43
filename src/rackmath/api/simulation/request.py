"""What a simulation is asked: a deployment, traffic, how the fleet is run, limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.lists import numbers
from rackmath.api.rates import TokenRate, requests_per_second
from rackmath.api.simulation.fleet_fields import FleetFields, check_fleet
from rackmath.api.simulation.needless import refuse_needless
from rackmath.api.simulation.traffic import TRACE, TrafficRequest
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.serving.schedulers import Scheduler, scheduler
from rackmath.serving.simulator.settings import EVICTIONS, POLICIES, PREEMPTIONS, SCHEDULING
from rackmath.serving.simulator.workload import Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest(FleetFields):
    """A deployment under traffic."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int, options.GPUS.but(help="Accelerators of the fleet.")]
    layout: Annotated[
        str | None,
        options.LAYOUT.but(
            help="Layout of one copy, as tp8,ep8,dp1 (default: the fewest accelerators that hold the model)."
        ),
    ] = None
    prefill_gpus: Annotated[
        int | None, Option(help="Accelerators, of all, that prefill only: two pools.", kind=kinds.whole(1))
    ] = None
    prefill_layout: Annotated[
        str | None, Option(help="Layout of one copy that prefills (default: as --layout).", kind=kinds.LAYOUT)
    ] = None
    prefill_max_num_batched_tokens: Annotated[
        int | None,
        Option(help="Tokens of one step of those that prefill (default: as decode).", kind=kinds.whole(1, 10_000_000)),
    ] = None
    prefill_on: Annotated[
        str | System | None,
        Option(help="System that prefills (default: as --on).", kind=kinds.SUBJECT, metavar="SYSTEM"),
    ] = None
    encoder_gpus: Annotated[
        int | None, Option(help="Accelerators, out of --gpus, that only encode images.", kind=kinds.whole(1))
    ] = None
    add_replicas: Annotated[
        tuple[str, ...],
        Option(
            help="Unlike replicas in the same fleet: model, on, gpus, layout, max-num-seqs, max-num-batched-tokens, "
            "weights, kv; for a share of the requests alone, or for a model that the trace names (for=NAME).",
            kind=kinds.TEXTS,
            names=("--add-replicas", "--beside"),
            metavar="'gpus=8 max-num-seqs=16 share=0.2'",
        ),
    ] = ()
    trace: Annotated[
        Path | Arrivals | None,
        Option(
            help="CSV, JSON, JSONL or Parquet: Azure, Mooncake, BurstGPT, results of load generators, own; tasks of "
            "agents as Dynamo, Weka and Applied Compute write them; or TOML of `traffic fit` or of an agent, to draw "
            "--requests.",
            kind=TRACE,
        ),
    ] = None
    repair: Annotated[bool, Option(help="Mend a trace instead of refusing it, and say how.", kind=kinds.FLAG)] = False
    scale: Annotated[float, Option(help="Factor of the traffic's speed.", kind=kinds.NUMBER)] = 1.0
    copies: Annotated[float, Option(help="Factor of the number of requests over the same time.", kind=kinds.NUMBER)] = (
        1.0
    )
    limit: Annotated[
        int | None,
        Option(help="Requests of a trace at most, from its start.", kind=kinds.whole(1), names=("--limit", "--first")),
    ] = None
    poisson: Annotated[
        float | None,
        options.RATE.but(
            help="Requests per second, generated; for agents tasks per second.",
            names=("--poisson", "--request-rate", "--rate"),
        ),
    ] = None
    users: Annotated[
        int | None,
        Option(
            help="Users instead, each of whom waits for an answer (agents: the end of a task) and asks again.",
            kind=kinds.whole(1),
            names=("--users", "--max-concurrency"),
        ),
    ] = None
    turns: Annotated[int, Option(help="Turns of a session of growing context.", kind=kinds.whole(1))] = 1
    turn_tokens: Annotated[
        int,
        Option(
            help="Tokens that a turn adds beside the answer.", kind=kinds.whole(0), names=("--turn-tokens", "--grows")
        ),
    ] = 0
    think_time: Annotated[float, options.THINK_TIME] = 0.0
    interarrival_cv: Annotated[
        float,
        Option(
            help="Standard deviation of gaps between requests over their mean; 1 is Poisson.",
            kind=kinds.NUMBER,
            names=("--interarrival-cv", "--burst"),
        ),
    ] = 1.0
    diurnal_amplitude: Annotated[
        float,
        Option(
            help="Amplitude of the rate over a day, as a part of its mean, 0 to 1.",
            kind=kinds.NUMBER,
            names=("--diurnal-amplitude", "--swing"),
        ),
    ] = 0.0
    day_start: Annotated[
        float,
        Option(
            help="Time of the day at which --diurnal-amplitude begins, in s: its peak is at 6h.", kind=kinds.SECONDS
        ),
    ] = 0.0
    input: Annotated[float | None, options.INPUT.but(help="Mean tokens of a prompt.")] = None
    output: Annotated[float | None, options.OUTPUT.but(help="Mean tokens of an answer.")] = None
    cached_prefix: Annotated[
        float, options.CACHED_PREFIX.but(help="Part of a prompt that is always in the cache, 0 to 1.")
    ] = 0.0
    length_cv: Annotated[
        float,
        Option(
            help="Standard deviation of lengths over their mean.", kind=kinds.NUMBER, names=("--length-cv", "--spread")
        ),
    ] = 0.5
    requests: Annotated[int, options.REQUESTS] = 10_000
    classes: Annotated[
        str | None, Option(help="Shares of priority classes, most urgent first, as 0.2,0.8.", kind=kinds.NUMBERS)
    ] = None
    scheduling_policy: Annotated[
        str,
        Option(
            help="Class that is admitted next: the most urgent, or the least served by virtual token counters (vtc).",
            kind=kinds.choice(*SCHEDULING),
        ),
    ] = SCHEDULING[0]
    class_weights: Annotated[
        str | None,
        Option(help="Service of each class relative to the others under vtc, as 1,2.", kind=kinds.NUMBERS),
    ] = None
    policy: Annotated[
        str | None,
        Option(
            help="Order of prompts and answers in a replica's steps (default: the engine's).",
            kind=kinds.choice(*POLICIES, older={"train": "fixed-interval"}),
        ),
    ] = None
    preemption: Annotated[
        str | None,
        Option(
            help="What happens when the cache is full (default: the engine's; reserve with drafts).",
            kind=kinds.choice(*PREEMPTIONS),
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, options.MAX_NUM_BATCHED_TOKENS.but(help="Tokens of one step (default: the engine's own).")
    ] = None
    max_num_seqs: Annotated[
        int | None,
        options.MAX_NUM_SEQS.but(
            help="Sequences that an engine runs at once (default: its own); micro-batches of a pipeline share vLLM's "
            "and SGLang's."
        ),
    ] = None
    gpu_memory_utilization: Annotated[float | None, options.MEMORY_PART] = None
    max_queued_requests: Annotated[
        int | None,
        Option(help="Requests that wait at a replica at most; others are refused.", kind=kinds.whole(1, 10**9)),
    ] = None
    block_size: Annotated[
        int | None, options.BLOCK_SIZE.but(help="Tokens of a block of the cache (default: the engine's).")
    ] = None
    async_scheduling: Annotated[
        bool,
        Option(
            help="A step is scheduled when the one before begins, and admits what had come by then (default: as the "
            "engine of that year does).",
            kind=kinds.FLAG,
        ),
    ] = False
    no_async_scheduling: Annotated[
        bool,
        Option(
            help="A step is scheduled when the one before ends.",
            kind=kinds.FLAG,
            flags={"sglang": "--disable-overlap-schedule"},
        ),
    ] = False
    scheduler_recv_interval: Annotated[
        int,
        Option(help="Decode steps after which SGLang looks at new requests again.", kind=kinds.whole(1, 1000)),
    ] = 1
    draft_tokens: Annotated[int, options.DRAFT_TOKENS.but(kind=kinds.whole())] = 0
    acceptance: Annotated[str | None, options.ACCEPTANCE] = None
    draft_model: Annotated[str | Architecture | None, options.DRAFT_MODEL] = None
    period: Annotated[
        float, Option(help="Time between steps of the policy fixed-interval, in s.", kind=kinds.SECONDS)
    ] = 0.02
    tiers: Annotated[
        str | None,
        Option(help="Prefix cache of a replica, as hbm=shared,ddr5=1TB,all:pool=9TB@50GB/s+1ms; inf; none."),
    ] = None
    eviction: Annotated[str, Option(help="Which prefix blocks leave a full tier.", kind=kinds.choice(*EVICTIONS))] = (
        "lru"
    )
    ttl: Annotated[float, Option(help="Lifetime of unused blocks under --eviction ttl, in s.", kind=kinds.SECONDS)] = (
        300.0
    )
    write_through: Annotated[
        bool, Option(help="Blocks go to all tiers at once, not when they are given up.", kind=kinds.FLAG)
    ] = False
    wait_for_loads: Annotated[bool, Option(help="Steps wait for blocks from lower tiers.", kind=kinds.FLAG)] = False
    prefix_block: Annotated[
        int | None,
        Option(
            help="Tokens of a prefix block (default: the trace's, else 512; 64 for made-up sessions and tasks).",
            kind=kinds.whole(1, 10**6),
        ),
    ] = None
    ttft: Annotated[float | None, options.TTFT.but(help="Limit of the time to the first token, in s, for goodput.")] = (
        None
    )
    tpot: Annotated[float | None, options.TPOT.but(help="Limit of the time per token, in s, for goodput.")] = None
    weights: Annotated[str | None, options.WEIGHTS] = None
    kv: Annotated[str | None, options.CACHE] = None
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    ideal: Annotated[bool, options.IDEAL] = False
    no_evidence: Annotated[bool, options.NO_EVIDENCE] = False
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None
    seed: Annotated[int, Option(help="Seed of all draws.", kind=kinds.whole(0, 2**63 - 1))] = 0

    def __post_init__(self) -> None:
        """Read all values, and refuse limits that nothing can keep."""
        read_fields(self)
        for field, limit in (("--ttft", self.ttft), ("--tpot", self.tpot)):
            if limit is not None and not limit > 0:
                raise InputError(field, limit, "write a positive time")
        check_fleet(self)
        refuse_needless(self)

    @property
    def scheduler(self) -> Scheduler:
        """How replicas fill their steps: as asked, else as the engine does."""
        return scheduler(
            self.engine,
            policy=self.policy,
            preemption=self.preemption,
            block=self.block_size,
            draft_tokens=self.draft_tokens,
        )

    @property
    def traffic(self) -> TrafficRequest:
        """What traffic it asks for."""
        return TrafficRequest(
            trace=self.trace,
            repair=self.repair,
            scale=self.scale,
            copies=self.copies,
            limit=self.limit,
            rate=self._rate(),
            users=self.users,
            turns=self.turns,
            turn_tokens=self.turn_tokens,
            think_time=self.think_time,
            interarrival_cv=self.interarrival_cv,
            diurnal_amplitude=self.diurnal_amplitude,
            day_start=self.day_start,
            input=self.input,
            output=self.output,
            length_cv=self.length_cv,
            cached_prefix=self.cached_prefix,
            requests=self.requests,
            classes=tuple(numbers(self.classes, "--classes", 0.0, 1e9)) if self.classes else (),
            block=self.prefix_block,
            page=self.scheduler.block,
            seed=self.seed,
        )

    def _rate(self) -> float | None:
        if not isinstance(self.poisson, TokenRate):
            return self.poisson
        if self.output is None:
            raise InputError("--poisson", float(self.poisson), "is in tokens per second: give --output as well")
        return requests_per_second(self.poisson, self.output)
