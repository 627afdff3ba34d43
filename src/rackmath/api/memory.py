"""What an engine leaves for the cache, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

from rackmath.api import kinds, options
from rackmath.api.adapters import AdapterFields, with_adapters
from rackmath.api.drafts import draft_model_of
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.engine.layout import Layout, candidate_layouts, parse_layout
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache_blocks import Blocks
from rackmath.models.cache_pools import STATE_RATIO, CachePools
from rackmath.serving.startup.memory import EngineStart, Startup, start
from rackmath.serving.startup.rules import MEASURED_VERSION, NEWEST_VERSION
from rackmath.serving.variants import as_read

_SIZE = kinds.whole(1, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest(AdapterFields):
    """One start of an engine."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int | None, options.GPUS.but(help="Accelerators together (default: the fewest that hold it).")] = (
        None
    )
    layout: Annotated[
        str | None, options.LAYOUT.but(help="Such as tp8,ep8,pp1,dp1; by default tensor parallel over all.")
    ] = None
    weights: Annotated[str | None, options.WEIGHTS] = None
    kv: Annotated[str | None, options.CACHE] = None
    engine: Annotated[str, options.ENGINE.but(kind=kinds.choice("vllm", "sglang", "trtllm"))] = "vllm"
    engine_version: Annotated[
        float | None,
        Option(
            help=f"Version of vLLM, as 0.19 (default: {MEASURED_VERSION:g}, whose starts were measured).",
            kind=kinds.NUMBER,
        ),
    ] = None
    gpu_memory_utilization: Annotated[float | None, options.MEMORY_PART] = None
    max_model_len: Annotated[
        int,
        Option(
            help="Tokens of the longest request.",
            kind=_SIZE,
            names=("--max-model-len", "--context"),
            flags={"vllm": "--max-model-len", "sglang": "--context-length"},
        ),
    ] = 8192
    max_num_batched_tokens: Annotated[
        int | None,
        options.MAX_NUM_BATCHED_TOKENS.but(
            help="Tokens of one pass (default: the engine's own).",
            kind=_SIZE,
            names=("--max-num-batched-tokens", "--budget", "--chunked-prefill-size"),
        ),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        options.MAX_NUM_SEQS.but(
            help="Sequences at once (default: the engine's own).",
            kind=_SIZE,
            names=("--max-num-seqs", "--seats", "--max-running-requests"),
        ),
    ] = None
    block_size: Annotated[
        int | None,
        options.BLOCK_SIZE.but(
            help="Tokens of a block of the cache (default: the engine's own).",
            kind=kinds.whole(1, 4096),
            names=("--block-size", "--block"),
        ),
    ] = None
    enforce_eager: Annotated[
        bool, Option(help="Capture no graphs.", kind=kinds.FLAG, flags={"vllm": "--enforce-eager"})
    ] = False
    mtp: Annotated[bool, Option(help="Load the model's own layers that predict several tokens.", kind=kinds.FLAG)] = (
        False
    )
    draft_model: Annotated[str | Architecture | None, options.DRAFT_MODEL.but(help="Model that drafts beside it.")] = (
        None
    )

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_memory(r: MemoryRequest) -> Result:
    """Account for the memory of each accelerator after a start, with ranges.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    system = system_of(r.on)
    model, _ = as_read(with_adapters(load_model(r.model), r, system), r.engine, r.weights, r.kv)
    if r.mtp and not model.mtp:
        raise InputError("--mtp", model.name, "the config names no layers that predict several tokens")
    server = EngineStart(
        family=r.engine,
        version=r.engine_version,
        fraction=r.gpu_memory_utilization,
        tokens=r.max_num_batched_tokens,
        sequences=r.max_num_seqs,
        block=r.block_size,
        graphs=not r.enforce_eager,
        speculative=r.mtp,
        draft=draft_model_of(r.draft_model, model),
    )
    layout, account = _placed(r, model, system, server)
    later = _later(r, model, system, layout, server)
    facts = _facts(r, model, system, layout, account, later)
    return Result(request=r, facts=facts, draw=lambda: _figure(facts), details=(account, model))


def _placed(r: MemoryRequest, model: Architecture, system: System, server: EngineStart) -> tuple[Layout, Startup]:
    """The layout that was asked for; else tensor parallel over the fewest accelerators that hold one request."""
    if r.layout is not None:
        layout = parse_layout(r.layout, r.gpus, model)
        if layout.ffn:
            raise InputError("--layout", r.layout, "no start with experts apart was measured: leave ffn out")
        return layout, start(model, system.chip, layout, server)
    counts = [r.gpus] if r.gpus is not None else [2**i for i in range(11) if 2**i <= max(system.domain, 1)]
    account = layout = None
    for gpus in counts:
        layout = _over(model, gpus)
        if layout is None:
            continue
        account = start(model, system.chip, layout, server)
        if account.concurrency(r.max_model_len).value >= 1:
            break
    if account is None or layout is None:
        raise InputError("--gpus", counts[-1], f"{model.name} does not divide into as many: give --layout")
    return layout, account


def _over(model: Architecture, gpus: int) -> Layout | None:
    """The widest tensor parallelism of ``gpus`` accelerators that divides the model, the rest in stages."""
    layouts = [layout for layout in candidate_layouts(model, gpus) if layout.data == 1 and layout.expert == 1]
    return max(layouts, key=lambda layout: float(layout.tensor), default=None)


def _later(r: MemoryRequest, model: Architecture, system: System, layout: Layout, server: EngineStart) -> float | None:
    """Tokens of the cache under the newest rules of vLLM, where those of 0.19 were taken because nobody said it."""
    if r.engine != "vllm" or r.engine_version is not None or r.enforce_eager:
        return None
    newest = start(model, system.chip, layout, replace(server, version=NEWEST_VERSION))
    return newest.cached_tokens(r.max_model_len).value


def _facts(
    r: MemoryRequest, model: Architecture, system: System, layout: Layout, account: Startup, later: float | None
) -> dict[str, Any]:
    tokens, concurrency = account.cached_tokens(r.max_model_len), account.concurrency(r.max_model_len)
    lines = {
        "weights_bytes": account.weights,
        "activation_bytes": account.activations,
        "graph_bytes": account.graphs,
        "other_bytes": account.outside,
        "cache_bytes": account.cache,
        "cache_tokens": tokens,
        "concurrency": concurrency,
        "visible_bytes": account.visible,
        "requested_bytes": account.requested,
    }
    facts: dict[str, Any] = {"model": model.name, "system": system.name, "layout": layout.text()}
    facts |= {"gpus": int(layout.gpus), "fits": concurrency.value >= 1}
    for name, line in lines.items():
        facts |= {name: line.value, name + "_range": [line.low, line.high]}
    weights = account.loaded
    facts["weights"] = {
        "layers": weights.layers,
        "embedding": weights.embedding,
        "head": weights.head,
        "outside_layers": weights.outside,
        "vision": account.vision,
        "position_tables": account.tables,
        "speculative": weights.speculative,
        "draft_model": account.draft,
        "adapters": account.adapters,
    }
    facts |= {
        "fraction": account.fraction,
        "max_num_batched_tokens": account.tokens,
        "max_num_seqs": account.sequences,
        "max_model_len": r.max_model_len,
        **_cut(account),
        "cache_tokens_all_groups": tokens.value * int(layout.data),
        "assumptions": list(_assumptions(r, model, system, layout, account, later)),
    }
    return facts


def _cut(account: Startup) -> dict[str, Any]:
    """How the cache is cut: blocks and their tables, or pools with what each holds."""
    blocks = account.blocks
    if isinstance(blocks, Blocks):
        return {
            "block_size": blocks.block,
            "blocks": account.count[0],
            "cache_groups": len(blocks.groups),
            "layers_per_group": blocks.group,
            "pools": None,
        }
    tokens = account.count[0]
    pools = {"full_attention_tokens": tokens}
    if blocks.windows:
        pools["window_tokens"] = int(blocks.window_ratio * tokens)
    if blocks.states:
        pools["states"] = int(STATE_RATIO * tokens * blocks.cell // blocks.states)
    size = {"block_size": blocks.page, "blocks": tokens // blocks.page}
    return {**size, "cache_groups": len(pools), "layers_per_group": None, "pools": pools}


def _assumptions(
    r: MemoryRequest, model: Architecture, system: System, layout: Layout, account: Startup, later: float | None
) -> Iterator[str]:
    rules = account.rules
    yield f"rules: {rules.source}"
    if not rules.measured:
        yield f"working memory by constants of vLLM's starts on H100, not of {r.engine}'s: ranges twice as wide"
    elif system.chip.generation != "hopper":
        yield f"no start on {system.chip.name} was measured: constants are those of H100, ranges twice as wide"
    if system.chip.visible_memory is None:
        yield "memory that programs see is taken as 0.985 of the printed one in gibibytes"
    if rules.in_place:
        yield "vLLM's second model runner: one start of it was measured, of a dense model on an H200 (0.26)"
    if later is not None:
        yield (
            f"rules of vLLM {MEASURED_VERSION:g}, whose starts were measured; those of {NEWEST_VERSION:g} leave "
            f"{later:,.0f} tokens: --engine-version {NEWEST_VERSION:g}"
        )
    if isinstance(account.blocks, CachePools) and account.blocks.reserved:
        yield "compressed entries are in the 8-bit format of SGLang's kernels, whatever --kv says"
    if layout.pipeline > 1:
        yield "of the last stage, which samples: the engine gives all stages the cache of the one that has least"
    if model.defaulted:
        yield f"the config does not say, and these were taken: {', '.join(model.defaulted[:4])}"


def _figure(f: dict[str, Any]) -> Figure:
    """Parts of one accelerator's memory as bars."""
    parts = {
        "weights": f["weights_bytes"],
        "pass and sampling": f["activation_bytes"],
        "outside PyTorch": f["other_bytes"],
        "graphs": f["graph_bytes"],
        "cache": f["cache_bytes"],
    }
    total = sum(parts.values())
    parts["left free"] = max(f["visible_bytes"] - total, 0.0)
    sizes = [size / 2**30 for size in parts.values()]
    names = [f"{name} {size:.2f}" for name, size in zip(parts, sizes, strict=True)]
    series = [Series(name="memory", x=names, y=sizes, kind="bars", named=False)]
    return Figure(
        title=f"{f['model']} on {f['gpus']} x {f['system']}: memory of one accelerator, {f['layout']}",
        panels=[Panel(across="", up="GiB", series=series)],
        note=f"{f['cache_tokens']:,.0f} tokens of cache, {f['concurrency']:.1f} requests of {f['max_model_len']:,.0f}",
    )
