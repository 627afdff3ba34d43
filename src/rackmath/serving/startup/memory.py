"""Memory of one accelerator after an engine has started, and the cache that is left."""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.engine.layout import Layout
from rackmath.engine.sharding import cache_share
from rackmath.errors import InputError
from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture
from rackmath.models.cache_blocks import Blocks, cache_blocks
from rackmath.models.cache_pools import COMPRESSED_SEQUENCES, CachePools, cache_pools
from rackmath.models.loaded import LoadedWeights
from rackmath.models.mixers import Compressed, Grouped
from rackmath.serving.engines import default_max_num_batched_tokens, default_max_num_seqs
from rackmath.serving.startup import working
from rackmath.serving.startup.resident import Resident, resident, stage_layers
from rackmath.serving.startup.rules import DRAWN, StartupRules, graph_sizes, rules_of, visible
from rackmath.serving.startup.working import Peak

_UNMEASURED = 2.0
"""Ratio of errors of what no start was measured of to those of what was."""
_DRIVERS = 0.002
"""Error of the memory that programs see, which differs between drivers. [1]"""
_OTHER_KERNELS = 0.08
"""What other makers' kernels may add to weights as loaded: 0.06 in the published starts on MI355X. [1]"""
_TOGETHER = 0.7
"""Part of the sum of all errors that the cache's range has."""
_MOST_SEQUENCES = 2048.0
"""Sequences that are sampled at once at most, where an engine sets no bound. [sequences]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """How an engine is started.

    Parameters
    ----------
    fraction : float, optional
        Part of the memory that it may take; by default the engine's own. [1]
    tokens, sequences : float, optional
        Of one pass, and at once; by default the engine's own.
    block : int, optional
        Tokens of a block of the cache; by default the engine's own.
    graphs : bool
        Whether decode steps are captured as graphs.
    """

    family: str
    version: float | None = None
    fraction: float | None = None
    tokens: float | None = None
    sequences: float | None = None
    block: int | None = None
    graphs: bool = True
    speculative: bool = False
    draft: Architecture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """One line of the account: bytes on the tightest accelerator, with a 90 % range."""

    value: float
    low: float
    high: float

    @classmethod
    def within(cls, value: float, error: float, most: float | None = None) -> MemoryLine:
        """A value with an error to either side, or a larger one above; never below zero. [B]"""
        return cls(value=value, low=max(value - error, 0.0), high=value + (error if most is None else most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Memory of the tightest accelerator of a data-parallel group. All in bytes but what is said otherwise."""

    visible: MemoryLine
    requested: MemoryLine
    """What the engine may take."""
    loaded: LoadedWeights
    vision: float
    tables: float
    """Sines and cosines of positions."""
    draft: float
    adapters: float
    """Room for low-rank adapters."""
    weights: MemoryLine
    peak: Peak
    activations: MemoryLine
    outside: MemoryLine
    graphs: MemoryLine
    cache: MemoryLine
    blocks: Blocks | CachePools
    count: tuple[int, int, int]
    """Blocks of the cache, and the ends of their range. [blocks]"""
    fraction: float
    tokens: float
    in_flight: float
    """Tokens of passes that have begun and hold their blocks. [tokens]"""
    sequences: float
    rules: StartupRules

    def cached_tokens(self, context: float) -> MemoryLine:
        """Tokens that the cache holds on one data-parallel group, in sequences of ``context`` tokens. [tokens]"""
        if self.rules.by_concurrency:
            n = self.concurrency(context)
            return MemoryLine(value=n.value * context, low=n.low * context, high=n.high * context)
        value, low, high = (float(self.blocks.tokens(n)) for n in self.count)
        return MemoryLine(value=value, low=low, high=high)

    def concurrency(self, context: float) -> MemoryLine:
        """Sequences of ``context`` tokens that one data-parallel group holds at once. [sequences]"""
        per_sequence = max(self.blocks.per_sequence(context, self.in_flight), 1)
        value, low, high = (n / per_sequence for n in self.count)
        return MemoryLine(value=value, low=low, high=high)


def start(
    architecture: Architecture, chip: Chip, layout: Layout, server: EngineStart, placement: Resident | None = None
) -> Startup:
    """Account for the memory of one accelerator after a start.

    Parameters
    ----------
    layout : Layout
        Of plain integers.
    placement : Resident, optional
        What :func:`placed` says, where it is known already: it is the same for all budgets and parts of the memory.

    Each stage of a pipeline holds as many layers; the account is of the last one, which has the head and samples, or
    of the first where the embedding makes it the fuller. Errors: :class:`InputError` for parts outside 0 to 1.
    """
    rules = rules_of(server.family, server.version, architecture)
    tokens = server.tokens or default_max_num_batched_tokens(server.family, chip)
    sequences = server.sequences or _most_sequences(architecture, chip, rules, server.family)
    fraction = rules.fraction(chip, float(layout.tensor), tokens) if server.fraction is None else server.fraction
    if server.fraction is None and fraction <= 0:
        way_out = f"so many in a pass leave no memory to the default of {rules.flag}: write fewer, or {rules.flag}"
        raise InputError("--max-num-batched-tokens", tokens, way_out)
    if not 0 < fraction <= 1:
        raise InputError(rules.flag, fraction, "write a part of the memory, above 0 and up to 1")
    visible_bytes = visible(chip)
    total = MemoryLine.within(visible_bytes, (_DRIVERS if chip.visible_memory else DRAWN) * visible_bytes)
    wide = 1.0 if rules.measured and chip.generation == "hopper" else _UNMEASURED
    nvidia = chip.vendor == "NVIDIA"
    placement = placement or placed(architecture, chip, layout, server)
    size = placement.size
    error = size * 0.005 * wide * (1 if architecture.encoder_exact else 4)
    weights = MemoryLine.within(size, error, error if nvidia else max(error, _OTHER_KERNELS * size))
    peak, activations, outside, graphs = _working(architecture, chip, layout, server, (tokens, sequences), rules, wide)
    blocks = _cut(placement.stage, layout, server, rules, sequences)
    cache = _cache_range(rules, fraction, total, (weights, activations, outside, graphs))
    return Startup(
        visible=total,
        requested=MemoryLine(value=fraction * total.value, low=fraction * total.low, high=fraction * total.high),
        loaded=placement.loaded,
        vision=placement.vision,
        tables=placement.tables,
        draft=placement.draft,
        adapters=placement.adapters,
        weights=weights,
        peak=peak,
        activations=activations,
        outside=outside,
        graphs=graphs,
        cache=cache,
        blocks=blocks,
        count=(blocks.count(cache.value), blocks.count(cache.low), blocks.count(cache.high)),
        fraction=fraction,
        tokens=tokens,
        in_flight=tokens * (_passes_in_flight(rules, layout) if rules.held_in_flight else 1),
        sequences=sequences,
        rules=rules,
    )


def placed(architecture: Architecture, chip: Chip, layout: Layout, server: EngineStart) -> Resident:
    """What a start puts into the memory of the tightest rank beside its cache and its passes."""
    multiples = rules_of(server.family, server.version, architecture).experts(chip)
    return resident(architecture, layout, multiples=multiples, speculative=server.speculative, draft=server.draft)


def _most_sequences(architecture: Architecture, chip: Chip, rules: StartupRules, family: str) -> float:
    """Sequences at once where nothing is said: fewer where an engine has pools of compressed entries."""
    if rules.pooled and any(isinstance(m, Compressed) for layer, _ in architecture.groups for m in layer.mixers):
        return COMPRESSED_SEQUENCES
    return min(default_max_num_seqs(family, chip), _MOST_SEQUENCES)


def _cut(
    stage: Architecture, layout: Layout, server: EngineStart, rules: StartupRules, sequences: float
) -> Blocks | CachePools:
    """How the engine cuts the cache of a stage: into blocks of tables, or into pools of tokens and states."""

    def share(parts: int | None) -> float:
        return float(cache_share(parts, layout))

    pools = cache_pools(stage, share, sequences, server.speculative) if rules.pooled else None
    return pools or cache_blocks(stage, share, server.block or rules.block)


def _passes_in_flight(rules: StartupRules, layout: Layout) -> float:
    """Passes at once where each is decided when the one before begins; the first model runner does so on one stage."""
    stages = float(layout.pipeline)
    return stages + 1 if rules.in_place or stages == 1 else stages


def _working(
    architecture: Architecture,
    chip: Chip,
    layout: Layout,
    server: EngineStart,
    most: tuple[float, float],
    rules: StartupRules,
    wide: float,
) -> tuple[Peak, MemoryLine, MemoryLine, MemoryLine]:
    """Pass and sampling, what is outside PyTorch, and graphs, of ``most`` tokens in a pass and sequences at once."""
    tokens, sequences = most
    peak = working.peak(architecture, layout, tokens, sequences, in_place=rules.in_place)
    below, above = (0.03, 0.06) if _is_usual(architecture) else (0.2, 0.4)
    if rules.in_place:
        # One start: 1.12 GiB of Llama 3.1 8B, where the pass and the buffers of other starts are 0.92.
        below, above = 0.2, 0.4
    outside = working.outside(layout)
    largest = graph_sizes(server.family, chip, float(layout.tensor), sequences) if server.graphs else 0.0
    graph = working.graphs(architecture, stage_layers(architecture, layout), largest)
    # What is taken off is the engine's own estimate: 0.44 and 0.56 of this in two starts of 0.26.
    less = 0.6 if rules.graphs_taken_off else 0.35
    return (
        peak,
        MemoryLine.within(peak.total, below * peak.total * wide, above * peak.total * wide),
        MemoryLine.within(outside, 0.08 * outside * wide, (0.1 * outside + 0.1 * 2**30) * wide),
        MemoryLine.within(graph, less * graph * wide, 0.35 * graph * wide),
    )


def _cache_range(
    rules: StartupRules,
    fraction: float,
    total: MemoryLine,
    lines: tuple[MemoryLine, MemoryLine, MemoryLine, MemoryLine],
) -> MemoryLine:
    """What is left for the cache, with its range."""
    value = _cache(rules, fraction, total.value, tuple(line.value for line in lines))
    low = _cache(rules, fraction, total.low, tuple(line.high for line in lines))
    high = _cache(rules, fraction, total.high, tuple(line.low for line in lines))
    # Errors of the lines are independent: all at their ends at once is far rarer than one in ten.
    low, high = value - _TOGETHER * (value - low), value + _TOGETHER * (high - value)
    return MemoryLine(value=max(value, 0.0), low=max(low, 0.0), high=max(high, 0.0))


def _cache(rules: StartupRules, fraction: float, total: float, lines: tuple[float, ...]) -> float:
    """What is left for the cache. [B]"""
    weights, activations, outside, graphs = lines
    if rules.of_free:
        return fraction * (total - weights - activations - outside)
    if not rules.profiled:
        # What stands outside of PyTorch before the weights are loaded is not the engine's to share out.
        return fraction * (total - outside) - weights
    graph_bytes = graphs if rules.graphs_taken_off else 0.0
    return fraction * total - weights - activations - outside - graph_bytes


def _is_usual(architecture: Architecture) -> bool:
    """Whether starts of models of its kind were measured: attention of grouped heads, text, full-width experts."""
    is_grouped = all(isinstance(mixer, Grouped) for layer, _ in architecture.groups for mixer in layer.mixers)
    return is_grouped and architecture.encoder is None and architecture.audio is None
