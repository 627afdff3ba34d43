"""How a fleet is run: what each replica does, what its prefix cache holds, where requests go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from types import MappingProxyType

from rackmath.errors import InputError
from rackmath.serving.simulator import fixed
from rackmath.serving.simulator.scaling import METRICS

POLICIES: Mapping[str, int] = MappingProxyType(
    {
        "chunked": fixed.CHUNKED,
        "prefill-first": fixed.PREFILL_FIRST,
        "decode-first": fixed.DECODE_FIRST,
        "static": fixed.STATIC,
        "fixed-interval": fixed.FIXED_INTERVAL,
        "unchunked": fixed.UNCHUNKED,
    }
)
"""chunked: prompts fill what decoding leaves of a step's tokens. prefill-first: decoding pauses while prompts are read.
decode-first: prompts wait until nobody decodes. static: places stay taken until the last of a batch ends.
fixed-interval: steps begin on a timetable. unchunked: as chunked, but a prompt is cut only where no step would hold it
whole."""

PREEMPTIONS: Mapping[str, int] = MappingProxyType(
    {"recompute": fixed.RECOMPUTE, "swap": fixed.SWAP, "reserve": fixed.RESERVE, "retract": fixed.RETRACT}
)
"""recompute: the last admitted loses its place, and what it has written is read again. swap: its blocks wait on the
host. reserve: nobody is admitted without blocks for the whole answer. retract: SGLang's way, as
:mod:`rackmath.serving.simulator.retraction` says."""
SCHEDULING = ("priority", "vtc")
"""priority: the most urgent class first. vtc: the class that was served least, by virtual token counters, as
:mod:`rackmath.serving.simulator.fairness` says."""
ROUTERS: Mapping[str, int] = MappingProxyType(
    {
        "round-robin": fixed.ROUND_ROBIN,
        "least-loaded": fixed.LEAST_LOADED,
        "two-choices": fixed.TWO_CHOICES,
        "prefix-aware": fixed.PREFIX_AWARE,
        "dynamo": fixed.DYNAMO,
        "llm-d": fixed.LLM_D,
    }
)
"""dynamo, llm-d: as :mod:`rackmath.serving.simulator.scores` says."""
EVICTIONS: Mapping[str, int] = MappingProxyType({"lru": fixed.LRU, "lfu": fixed.LFU, "ttl": fixed.TTL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """What one replica does."""

    policy: str = "chunked"
    preemption: str = "recompute"
    max_num_batched_tokens: int = 8192
    """Tokens of one step. [tokens]"""
    max_num_seqs: int = 256
    """Sequences in work at most."""
    queue_limit: int | None = None
    """Requests that wait for a place at most, others are refused; None for as many as come."""
    block: int = 16
    """Tokens of a block of the cache. [tokens]"""
    memory: int = 1 << 40
    """Tokens that the cache holds. [tokens]"""
    ahead: bool = False
    """Whether a step is scheduled when the one before begins, as overlapped and asynchronous schedulers do: it admits
    only what had come by then."""
    looks: int = 1
    """Decode steps between two looks at new requests; after a step that reads prompts a replica looks at once."""
    scheduling: str = "priority"
    class_weights: tuple[float, ...] = ()
    """Service of each class relative to others under vtc; all alike where empty. (classes,)"""
    draft_tokens: int = 0
    """Tokens that a step speculates for each sequence. [tokens]"""
    acceptance: tuple[float, ...] = ()
    """Chance that the draft at each position is accepted, given that those before it were. (draft_tokens,)"""
    share: float = 1.0
    """Part of a prompt's work that decode steps beside it wait for. [1]"""
    start: float = 0.0
    """Time in which the host starts a step that reads prompts: it is no shorter. [s]"""
    captured: int = 0
    """Tokens of such a step up to which graphs of all but attention are replayed. [tokens]"""
    start_captured: float = 0.0
    """Time in which the host starts one of these. [s]"""
    outside: float = 0.0
    """Time of a request outside of the engine. [s]"""
    frontend: float = 0.0
    """Time of ``outside`` in which a request holds up those behind it: that of the server's one process. [s]"""
    reception: float = 0.0
    """Part of ``frontend`` that it takes to receive a request; the rest, to pass its first token on. [1]"""
    period: float = 0.02
    """Of the train. [s]"""
    host: float = 25e9
    """Bandwidth to the host, for swapping. [B/s]"""

    def __post_init__(self) -> None:
        _known("--policy", self.policy, POLICIES)
        _known("--preemption", self.preemption, PREEMPTIONS)
        _known("--scheduling-policy", self.scheduling, SCHEDULING)
        if self.class_weights and self.scheduling != "vtc":
            raise InputError("--class-weights", self.class_weights, "are of --scheduling-policy vtc")
        if not all(1e-6 <= weight <= 1e6 for weight in self.class_weights):
            raise InputError("--class-weights", self.class_weights, "write positive numbers, as 1,2")
        _within(
            ("--max-num-batched-tokens", self.max_num_batched_tokens, 1, 10_000_000),
            ("--max-num-seqs", self.max_num_seqs, 1, 65_536),
            ("--block-size", self.block, 1, 65_536),
            ("cache", self.memory, 1, 1 << 50),
            ("--max-queued-requests", 1 if self.queue_limit is None else self.queue_limit, 1, 1e9),
            ("--scheduler-recv-interval", self.looks, 1, 1000),
            ("--draft-tokens", self.draft_tokens, 0, 64),
            ("--share", self.share, 0, 1024),
            ("start", self.start, 0, 1e4),
            ("start_captured", self.start_captured, 0, 1e4),
            ("--outside", self.outside, 0, 1e4),
            ("frontend", self.frontend, 0, 1e4),
            ("reception", self.reception, 0, 1),
            ("--period", self.period, 1e-6, 1e4),
            ("--host", self.host, 1e3, 1e15),
        )
        if self.queue_limit is not None and self.looks > 1:
            way_out = "a queue is counted at every step: leave --scheduler-recv-interval at 1"
            raise InputError("--max-queued-requests", self.queue_limit, way_out)
        if len(self.acceptance) != self.draft_tokens or not all(0 <= a <= 1 for a in self.acceptance):
            raise InputError(
                "--acceptance", self.acceptance, f"write {self.draft_tokens} chances from 0 to 1, one per draft"
            )
        mixes = self.policy in ("chunked", "fixed-interval", "unchunked")
        least = self.max_num_seqs * (1 + self.draft_tokens)
        if mixes and self.max_num_batched_tokens < least:
            way_out = (
                f"{self.max_num_seqs} sequences decode {least:,} tokens a step: write as many, or lower --max-num-seqs"
            )
            raise InputError("--max-num-batched-tokens", self.max_num_batched_tokens, way_out)
        if self.policy == "static" and self.preemption != "reserve":
            raise InputError("--preemption", self.preemption, "a static batch reserves its blocks: write reserve")
        if self.policy == "static" and self.scheduling == "vtc":
            raise InputError("--scheduling-policy", "vtc", "a static batch is filled by priority")
        if self.preemption == "retract" and self.policy != "prefill-first":
            raise InputError(
                "--preemption", "retract", "SGLang retracts as it reads prompts first: --policy prefill-first"
            )
        if self.draft_tokens and self.preemption != "reserve":
            raise InputError("--preemption", self.preemption, "drafts need blocks for whole answers: write reserve")

    @property
    def yields(self) -> tuple[float, float]:
        """Mean and variance of the tokens that a verified step yields. [tokens]"""
        chances = [1.0]
        for a in self.acceptance:
            chances.append(chances[-1] * a)
        mean = sum(chances)
        second = sum((2 * i + 1) * c for i, c in enumerate(chances))
        return mean, second - mean**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One level of the prefix cache of a replica."""

    name: str
    capacity: float
    """Infinite for one that never gives anything up. [B]"""
    bandwidth: float = inf
    """[B/s]"""
    latency: float = 0.0
    """[s]"""
    shared: bool = False
    """Whether it is what running requests leave of the cache; their own prefixes stand there once for all."""
    common: bool = False
    """Whether all replicas have it together: a pool behind the network."""
    price: float = 0.0
    """Of the devices. [USD/B]"""

    def __post_init__(self) -> None:
        if not self.capacity >= 0:
            raise InputError(f"tier {self.name}", self.capacity, "write a capacity that is not negative")
        if not self.bandwidth > 0 or not 0 <= self.latency < inf:
            raise InputError(f"tier {self.name}", self.bandwidth, "write a positive bandwidth and a latency from 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    """Where prefixes are kept, fastest tier first; a block counts as kept once its prompt has begun to be read."""

    tiers: tuple[Tier, ...] = ()
    eviction: str = "lru"
    lifetime: float = inf
    """Of an unused block under ttl. [s]"""
    through: bool = False
    """Written to all tiers at once, else to the next one on eviction."""
    overlapped: bool = True
    """Whether loads run beside other work; else the step waits for them."""

    def __post_init__(self) -> None:
        _known("--eviction", self.eviction, EVICTIONS)
        if any(tier.shared for tier in self.tiers[1:]):
            raise InputError("--tiers", "shared", "only the first tier is the memory of running requests")
        if self.tiers and self.tiers[0].common:
            raise InputError("--tiers", self.tiers[0].name, "the first tier is a replica's own")
        if not self.lifetime > 0:
            raise InputError("--ttl", self.lifetime, "write a positive number of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Replicas that fail: what they hold goes to others, answers so far are read again there, nothing is lost."""

    between: float = inf
    """Mean time between failures of one replica, exponential. [s]"""
    repair: float = 600.0
    """[s]"""

    def __post_init__(self) -> None:
        if not self.between > 0 or not 0 <= self.repair < inf:
            raise InputError("--mtbf", self.between, "write a positive time between failures and a repair time from 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Replicas that come and go with the load, as :mod:`rackmath.serving.simulator.scaling` says."""

    least: int
    most: int
    metric: str = "concurrency"
    target: float = 32.0
    """Of the metric, for each replica. [requests, requests/s, or replicas]"""
    limit: float = inf
    """Of the time per token, for the metric slo. [s]"""
    startup: float = 60.0
    """From the decision to the first request. [s]"""
    interval: float = 15.0
    """Between decisions. [s]"""
    window: float = 300.0
    """Of the advice that holds against going down. [s]"""
    tolerance: float = 0.1
    """Of the ratio of the metric to its target, within which nothing happens. [1]"""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InputError("--scale-to", self.most, f"write at least --replicas {self.least}")
        _known("--scale-on", self.metric, METRICS)
        if not self.limit > 0 or (self.metric == "slo" and not isfinite(self.limit)):
            raise InputError("--tpot", self.limit, "write the limit that --scale-on slo plans for")
        _within(
            ("--scale-target", self.target, 1e-9, 1e9),
            ("--startup", self.startup, 0, 1e6),
            ("--scale-interval", self.interval, 1e-3, 1e6),
            ("--scale-down-after", self.window, 0, 1e7),
            ("tolerance", self.tolerance, 0, 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A rolling upgrade, as :mod:`rackmath.serving.simulator.upgrade` says."""

    begin: float
    """[s]"""
    at_a_time: int = 1
    """Replicas that are drained or start again at once."""
    restart: float = 60.0
    """From an empty replica to its first request. [s]"""

    def __post_init__(self) -> None:
        _within(
            ("--upgrade-at", self.begin, 0, 1e9),
            ("--max-unavailable", self.at_a_time, 1, 100_000),
            ("--startup", self.restart, 0, 1e6),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Replicas behind a router."""

    replicas: int = 1
    router: str = "round-robin"
    failures: Failures = field(default_factory=Failures)
    scaling: Scaling | None = None
    upgrade: Upgrade | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _known("--router", self.router, ROUTERS)
        _within(("--replicas", self.replicas, 1, 100_000))


def _known(name: str, value: str, table: Collection[str]) -> None:
    if value not in table:
        raise InputError(name, value, f"known are {', '.join(table)}")


def _within(*bounds: tuple[str, float, float, float]) -> None:
    for name, value, low, high in bounds:
        if not (isfinite(value) and low <= value <= high):
            raise InputError(name, value, f"write a number from {low:g} to {high:g}")
