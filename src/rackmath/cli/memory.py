"""``memory``: what an engine leaves for the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from rackmath.api.memory import MemoryRequest, run_memory
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.models.architecture import Architecture
from rackmath.models.cache_blocks import Blocks
from rackmath.models.cache_pools import STATE_RATIO, CachePools
from rackmath.serving.startup.memory import Startup
from rackmath.serving.startup.working import element_bytes

_GIB = 2**30
_POOLS = {"full_attention_tokens": "tokens", "window_tokens": "tokens in windows", "states": "states of sequences"}
_PARTS = {
    "layers": "layers",
    "embedding": "embedding",
    "head": "head",
    "outside_layers": "norms outside of layers",
    "vision": "encoders",
    "position_tables": "tables of positions",
    "speculative": "layers that predict several tokens",
    "draft_model": "draft model",
    "adapters": "low-rank adapters",
}


@click.command(epilog="Example: rackmath memory llama-3.1-8b --on h100-sxm --layout tp2 --kv fp8 --context 32k")
@request_options(MemoryRequest)
@click.option("--explain", is_flag=True, help="Show equations with their numbers.")
@click.option("--plot", metavar="FILE", help="Draw the parts: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def memory(request: MemoryRequest, explain: bool, plot: str | None, as_json: bool) -> None:
    """Account for each accelerator's memory after an engine has started, and the cache that is left.

    Weights are as loaded (fused, padded, in blocks of the allocator); working memory is the peak of the pass that the
    engine itself measures at its start.
    """
    picture = check_picture(plot)
    result = run_memory(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show(result.facts)
    if explain:
        _explain(result.facts, *result.details)


def _show(f: Mapping[str, Any]) -> None:
    render.show_lines(_headline(f), [_second(f)])
    render.show_table(
        "memory of one accelerator, in GiB, as the engine's log counts it",
        ["", ">GiB", ">range", "what it is"],
        [
            _row(f, "visible", "visible_bytes", "what programs see of the printed memory"),
            _row(f, "the engine may take", "requested_bytes", f"{f['fraction']:g} of it"),
            _row(f, "weights", "weights_bytes", _of_weights(f)),
            _row(
                f,
                "pass and sampling",
                "activation_bytes",
                f"{f['max_num_batched_tokens']:,.0f} tokens of a pass, {f['max_num_seqs']:,.0f} sequences sampled",
            ),
            _row(f, "outside PyTorch", "other_bytes", "driver, kernels, buffers of collectives"),
            _row(f, "cache", "cache_bytes", _of_cache(f)),
            _row(f, "graphs", "graph_bytes", "captured after the cache is allocated"),
        ],
    )
    render.show_lines("assumed", f["assumptions"])


def _headline(f: Mapping[str, Any]) -> str:
    low, high = f["cache_tokens_range"]
    return (
        f"{f['model']} on {f['gpus']} x {f['system']}, {f['layout']}: {f['cache_tokens']:,.0f} tokens of cache "
        f"({low:,.0f} to {high:,.0f})"
    )


def _second(f: Mapping[str, Any]) -> str:
    if not f["fits"]:
        return "It does not start: less than one request fits. Take more accelerators, or narrower weights or cache."
    groups = "" if f["cache_tokens_all_groups"] == f["cache_tokens"] else " in each data-parallel group"
    return f"{f['concurrency']:.2f} requests of {f['max_model_len']:,.0f} tokens at once{groups}."


def _row(f: Mapping[str, Any], name: str, key: str, meaning: str) -> tuple[str, str, str, str]:
    low, high = f[key + "_range"]
    return name, f"{f[key] / _GIB:.2f}", f"{low / _GIB:.2f} to {high / _GIB:.2f}", meaning


def _of_cache(f: Mapping[str, Any]) -> str:
    if f["pools"] is None:
        return f"{f['blocks']:,} blocks of {f['block_size']} tokens"
    return ", ".join(f"{size:,} {_POOLS[name]}" for name, size in f["pools"].items())


def _of_weights(f: Mapping[str, Any]) -> str:
    parts = sorted(((size, name) for name, size in f["weights"].items() if size), reverse=True)
    return ", ".join(f"{_PARTS[name]} {size / _GIB:.2f}" for size, name in parts[:4])


def _explain(f: Mapping[str, Any], account: Startup, model: Architecture) -> None:
    gib = {key: f[f"{key}_bytes"] / _GIB for key in ("requested", "weights", "activation", "other", "cache", "graph")}
    rules, peak = account.rules, account.peak
    copies = 0 if rules.in_place else 12
    blocks = account.blocks
    tokens_text = f"blocks / tables x tokens of a block = {f['blocks']:,} / {f['cache_groups']} x {f['block_size']}"
    if isinstance(blocks, CachePools):
        states = f" / {1 + STATE_RATIO:g}" if blocks.states else ""
        reserve = blocks.reserved / _GIB
        cache_text = f"(cache - {reserve:.2f} GiB)" if reserve else "cache"
        division = f"{states} / {blocks.cell:,.0f} B"
        tokens_text = f"{cache_text}{division} = {gib['cache'] - reserve:.2f} GiB{division}"
    elif rules.by_concurrency:
        tokens_text = f"requests at once x their tokens = {f['concurrency']:.2f} x {f['max_model_len']:,.0f}"
    graphs_text = f" - graphs {gib['graph']:.2f}" if rules.graphs_taken_off else ""
    share = f"{f['fraction']:g} x visible"
    if rules.of_free:
        share, rest = f"{f['fraction']:g} x (visible", " - weights - pass and sampling - outside)"
    elif not rules.profiled:
        share, rest = f"{f['fraction']:g} x (visible - outside)", " - weights"
    else:
        rest = f" - weights - pass and sampling - outside{graphs_text and ' - graphs'}"
    render.show_lines(
        "equations",
        [
            f"cache = {share}{rest} = {gib['cache']:.2f} GiB, with visible {f['visible_bytes'] / _GIB:.2f}, weights "
            f"{gib['weights']:.2f}, pass and sampling {gib['activation']:.2f}, outside {gib['other']:.2f}{graphs_text}",
            "pass = T w (f + 3.5 d)",
            f"     = {account.tokens:,.0f} tokens x {element_bytes(model):g} bytes x ({peak.widest:,.0f} + 3.5 x "
            f"{model.hidden:,}) = {peak.forward / _GIB:.2f} GiB",
            "sampling = S V w + T w d, on the logits themselves"
            if rules.in_place
            else "sampling = S V (w + 12) + 4 P V + T w d",
            f"         = {account.sequences:,.0f} sequences x {model.vocabulary:,} logits x "
            f"{element_bytes(model) + copies:g} bytes + ... = {peak.sampling / _GIB:.2f} GiB",
            f"pass and sampling = the larger + experts' workspace {peak.experts / _GIB:.2f} + images "
            f"{peak.images / _GIB:.2f} + buffers {peak.buffers / _GIB:.2f} = {gib['activation']:.2f} GiB",
            f"tokens = {tokens_text} = {f['cache_tokens']:,.0f}",
            *_of_blocks(blocks),
        ],
    )


def _of_blocks(pools: Blocks | CachePools) -> Iterator[str]:
    if isinstance(pools, Blocks):
        yield f"blocks = cache / (page of a layer {pools.page:,.0f} B x {pools.group} layers of a table)"
        return
    yield (
        f"{pools.cell:,.0f} B = {pools.full:,.0f} B of a token in layers that keep all"
        + (f" + {pools.window_ratio:g} x {pools.windows:,.0f} B of one in windows" if pools.windows else "")
    )
    if pools.reserved:
        yield f"{pools.reserved / _GIB:.2f} GiB: keys and scores of all requests that may run, not compressed yet"
    if pools.states:
        yield f"states have {STATE_RATIO:g} of what tokens have; a request takes up to 3 of {pools.states:,.0f} B"
