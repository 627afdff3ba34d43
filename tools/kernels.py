"""Kernel timings -> ``data/kernels.toml`` and ``docs/accuracy-of-kernels.md``.

    pip download --no-deps aiconfigurator-core==0.12.0 -d TIMINGS && unzip -d TIMINGS TIMINGS/*.whl
    git clone https://github.com/ROCm/aiter AITER && git -C AITER checkout e4048607a5
    python tools/kernels.py TIMINGS AITER

The timings are those of NVIDIA's aiconfigurator (Apache-2.0), kernels of vLLM, SGLang and TensorRT-LLM, and of AMD's
AITER (MIT). Nothing of them is kept but the constants that are fitted here. Needs SciPy, a dependency of this tool
alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import least_squares

from kernel_blocks import KINDS as BLOCKS
from kernel_blocks import blocks, hyper_connections
from kernel_rocm import SYSTEMS as ROCM
from kernel_rocm import timings as rocm_timings
from kernel_timings import FEWEST, Timings, attention_load, columns, mixture_load, product_load, sample, table
from rackmath.engine.collectives import all_reduce, all_to_all, distinct_ranks
from rackmath.engine.kernel_curves import KernelCurve, KernelLoad
from rackmath.hardware import Link, System
from rackmath.io import catalogue
from rackmath.models.numbers import Number

Array = NDArray[np.float64]

SYSTEMS = {
    "a100_sxm": "a100-sxm",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
"""Names of the timings' chips -> systems of the catalogue."""

CACHES = {"l40s": 96e6, "rtx_pro_6000_server": 128e6}
"""Level-two caches that hold a benchmark's matrix from one run to the next: such timings are dropped. [B]"""

FREE = {
    "product": ("part", "stream", "floor", "rows", "side", "depth"),
    "experts": ("part", "stream", "floor", "rows", "side", "matrix"),
    "attention.prompt": ("part", "stream", "floor", "rows", "side"),
    "latent.prompt": ("part", "stream", "floor", "rows"),
    "attention.decode": ("part", "stream", "floor", "side", "matrix"),
    "latent.decode": ("part", "stream", "floor", "matrix"),
    "recurrence": ("part", "stream", "floor"),
    "hyper_connection": ("stream", "floor"),
    **{f"{kind}.decode": ("part", "stream", "floor", "side", "matrix") for kind in BLOCKS},
    **{f"{kind}.prompt": ("part", "stream", "side") for kind in BLOCKS},
    **{f"{kind}_index": ("part", "stream") for kind in BLOCKS},
}
"""Constants that a kind of kernel can tell about; the others stay at none."""

START = {
    "part": 0.6, "stream": 0.8, "floor": 5e-6, "rows": 10.0, "side": 100.0, "depth": 3e-10, "matrix": 1e-7,
}  # fmt: skip

FEWEST_STATES = 60
"""The same of gated delta rules, whose decode steps were timed at few sizes."""

DESCRIBED = 0.4
"""Median error beyond which a curve does not describe a block: it takes the curve of all engines, or of other chips."""

ELEMENTWISE = 0.7
"""Part of the bandwidth of norms, activations and casts: the prototype's figure, no table has them for all chips."""


def main() -> None:
    """Fit all curves and write both files."""
    folder, rocm = map(Path, sys.argv[1:3])
    fitted: dict[str, dict[str, KernelCurve]] = {}
    networks: dict[str, dict[str, float]] = {}
    lines: list[str] = []
    kept: dict[str, list[Timings]] = {}
    chips = {name: chip for chip, name in SYSTEMS.items()}
    for name in (*chips, *ROCM):
        system = catalogue.system(name)
        chip = chips.get(name)
        fitted[name] = {}
        kept[name] = list(timings(folder, chip, system) if chip else rocm_timings(rocm, name, system))
        for t in kept[name]:
            curves = fit(t)
            fitted[name] |= of_engine(t, curves)
            lines.append(report(name, t, curves))
            print(lines[-1], flush=True)
        if chip is None:
            # AITER times neither whole blocks nor collectives.
            continue
        for t in block_timings(folder, chip, system, fitted[name]):
            curves = fit(t)
            lines.append(report(name, t, curves))
            print(lines[-1], flush=True)
            if np.median(error(t, curves)) <= DESCRIBED:
                fitted[name] |= of_engine(t, curves)
                kept[name].append(t)
        networks[name], text = network(folder, chip, system)
        lines.append(f"| {name} | all-reduce | {text} |")
        print(lines[-1], flush=True)
    root = Path(__file__).parent.parent
    (root / "src/rackmath/data/kernels.toml").write_text(toml(fitted, networks))
    (root / "docs/accuracy-of-kernels.md").write_text(page(lines, chips_out(kept, fitted)))


def summary(lines: list[str]) -> list[str]:
    """Median and spread of the left-out errors by kind, over chips and engines."""
    found: dict[str, list[float]] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if cells[4].endswith("%"):
            found.setdefault(cells[2].partition("@")[0], []).append(float(cells[4].rstrip("%")))
    return [
        f"| {kind} | {len(values)} | {np.median(values):.1f}% | {np.min(values):.1f} to {np.max(values):.1f}% |"
        for kind, values in sorted(found.items())
    ]


def timings(folder: Path, chip: str, system: System) -> Iterator[Timings]:
    """All kinds of timings of one chip, of all engines together and of each by itself."""
    tables = {n: table(folder, chip, n) for n in TABLES}
    for engine in ("", *ENGINES):
        part = {n: t if not engine or not len(t) else t.filter(pl.col("engine") == engine) for n, t in tables.items()}
        for t in of_tables(part, chip, system):
            yield replace(t, kind=f"{t.kind}@{engine}" if engine else t.kind)


def block_timings(folder: Path, chip: str, system: System, curves: Mapping[str, KernelCurve]) -> Iterator[Timings]:
    """Timings of whole blocks, of all engines together and of each by itself."""
    for engine in ("", *ENGINES):
        for t in (*blocks(folder, chip, system, engine, curves), *hyper_connections(folder, chip, system, engine)):
            yield replace(t, kind=f"{t.kind}@{engine}" if engine else t.kind)


ENGINES = ("vllm", "sglang", "trtllm")

TABLES = ("gemm", "moe", "context_attention", "generation_attention", "context_mla", "generation_mla", "gdn")


def of_tables(tables: Mapping[str, pl.DataFrame], chip: str, system: System) -> Iterator[Timings]:
    """All kinds of timings in a set of tables."""
    yield from products(tables["gemm"], chip, system)
    yield from experts(tables["moe"], system)
    yield from attention(tables["context_attention"], chip, system, "prompt")
    yield from attention(tables["generation_attention"], chip, system, "decode")
    yield from latent(tables["context_mla"], system, "prompt")
    yield from latent(tables["generation_mla"], system, "decode")
    yield from recurrence(tables["gdn"], chip, system)


WEIGHTS = {
    "bfloat16": ("wide", "bf16", 2.0),
    "fp8": ("byte", "fp8", 1.0),
    "fp8_block": ("byte", "fp8", 1.0),
    "nvfp4": ("nibble", "fp4", 0.5625),
    "int4_wo": ("expanded", "bf16", 0.53),
    "int8_wo": ("expanded", "bf16", 1.0),
    "w4a16_mxfp4": ("expanded", "bf16", 0.53),
    "w4a8_mxfp4_mxfp8": ("expanded", "bf16", 0.53),
}
"""Formats of the timings: width, precision of the multiplication, bytes of a weight."""


def products(frame: pl.DataFrame, chip: str, system: System) -> Iterator[Timings]:
    """Matrix products of shapes that layers have.

    vLLM's 8-bit products by blocks were timed without a graph: 60 microseconds whatever the shape. They are left out.
    """
    if not len(frame):
        return
    frame = frame.filter(~((pl.col("engine") == "vllm") & (pl.col("gemm_dtype") == "fp8_block")))
    for width in ("wide", "byte", "nibble", "expanded"):
        forms = [f for f, (w, _, _) in WEIGHTS.items() if w == width]
        part = frame.filter(pl.col("gemm_dtype").is_in(forms))
        part = part.filter(pl.all_horizontal(pl.col("n", "k").is_between(128, 20_000)), pl.col("m") <= 32_768)
        part = part.group_by("m", "n", "k", "gemm_dtype", maintain_order=True).agg(pl.col("latency").median())
        if len(part) < FEWEST:
            continue
        m, n, k, seconds = columns(part, "m", "n", "k", "latency")
        size = np.array([WEIGHTS[f][2] for f in part["gemm_dtype"]])
        rate = np.array([system.chip.rate(WEIGHTS[f][1]) for f in part["gemm_dtype"]])
        found = Timings(
            kind=f"product.{width}",
            load=product_load(m, n, k, size, 2.0, rate, system.chip),
            seconds=seconds / 1e3,
            shape=n * 1e5 + k,
        )
        bytes_read = np.asarray(found.load.memory) * system.chip.memory_bandwidth
        held = (found.load.memory > np.asarray(found.load.compute)) & (bytes_read < 1.2 * CACHES.get(chip, 0.0))
        yield sample(found.where(~held))


def experts(frame: pl.DataFrame, system: System) -> Iterator[Timings]:
    """Grouped products of whole mixtures, tokens dealt evenly: both products, activation and permutation.

    With expert parallelism in TensorRT-LLM's own curve alone: vLLM and SGLang were timed on the tokens of all ranks.
    Timings that beat the roofline of all experts that even routing meets, as those of kernels for the least latency do
    at middling batches, read fewer of them: they are left out, and that kernel as a whole.
    """
    if not len(frame):
        return
    if frame["engine"].unique().to_list() != ["trtllm"]:
        frame = frame.filter(pl.col("moe_ep_size") == 1)
    frame = frame.filter(pl.col("distribution") == "balanced", pl.col("num_experts") > 1)
    frame = frame.filter(~pl.col("kernel_source").str.contains("min_latency"))
    for width in ("wide", "byte", "nibble", "expanded"):
        part = frame.filter(pl.col("moe_dtype").is_in([f for f, (w, _, _) in WEIGHTS.items() if w == width]))
        if width == "byte" and part["moe_dtype"].is_in(["fp8_block"]).any():
            # Mixtures are published in 8 bit by blocks; kernels for one scale a matrix are not tuned.
            part = part.filter(pl.col("moe_dtype") == "fp8_block")
        # Where 4-bit mixtures may multiply in 8 bit, engines let them; the catalogue counts them at the 16-bit rate.
        native = system.chip.runs_at("fp4") == "fp4"
        part = part.filter(pl.col("moe_dtype") != ("w4a16_mxfp4" if native else "w4a8_mxfp4_mxfp8"))
        keys = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"]
        timed_by = pl.col("engine").n_unique().alias("engines")
        part = part.group_by(*keys, "moe_dtype", maintain_order=True).agg(pl.col("latency").median(), timed_by)
        # Of all engines together, what several of them timed: one's own shapes would make it the curve of that one.
        several = part.filter(pl.col("engines") > 1)
        part = several if len(several) >= FEWEST else part
        if len(part) < FEWEST:
            continue
        tokens, hidden, inter, topk, count, slices, ranks = columns(part, *keys)
        (seconds,) = columns(part, "latency")
        size = np.array([WEIGHTS[f][2] for f in part["moe_dtype"]])
        rate = np.array([system.chip.rate(WEIGHTS[f][1]) for f in part["moe_dtype"]])
        local, wide = count / ranks, inter / slices
        slots = tokens * topk / ranks
        read = np.clip(np.minimum(local, slots), 1.0, None)
        load = mixture_load(slots, read, hidden, wide, size, rate, system.chip)
        timed = Timings(
            kind=f"experts.{width}",
            load=load,
            seconds=seconds / 1e3,
            shape=hidden * 1e8 + wide * 1e4 + local,
        )
        yield sample(timed.where((slots >= 1) & (seconds / 1e3 >= np.maximum(load.compute, load.memory))))


def attention(frame: pl.DataFrame, chip: str, system: System, phase: str) -> Iterator[Timings]:
    """Attention of several heads without windows, over prompts or over a cache of 16 or 8 bit."""
    if not len(frame):
        return
    frame = frame.with_columns(pl.col("window_size").fill_null(0))
    plain = frame.filter(pl.col("window_size") == 0, pl.col("head_dim").is_in([64, 128]))
    for cache, bits in (("bfloat16", 16), ("fp8", 8)):
        part = plain.filter(pl.col("kv_cache_dtype") == cache, pl.col("attn_dtype") == "bfloat16")
        if phase == "prompt":
            part = part.filter(pl.col("step") == 0)
        keys = ["batch_size", "num_heads", "num_key_value_heads", "head_dim", "isl", "step"]
        part = part.group_by(keys, maintain_order=True).agg(pl.col("latency").median())
        if len(part) < FEWEST or (phase == "prompt" and bits == 8):
            continue
        batch, heads, groups, dim, new, step, seconds = columns(part, *keys, "latency")
        groups = np.where(groups == 0, heads, groups)
        context = step + new
        queries = np.ones_like(new) if phase == "decode" else new
        pairs = context if phase == "decode" else new * (new + 1) / 2
        found = Timings(
            kind=f"attention.{phase}" + ("_byte" if bits == 8 else ""),
            load=attention_load(batch, heads, groups, dim, queries, context, pairs, bits / 8, system.chip),
            seconds=seconds / 1e3,
            shape=heads * 1e6 + groups * 1e3 + dim,
        )
        read = np.asarray(found.load.memory) * system.chip.memory_bandwidth
        held = (read < 1.2 * CACHES.get(chip, 0.0)) & (phase == "decode")
        yield sample(found.where(~held))


def latent(frame: pl.DataFrame, system: System, phase: str) -> Iterator[Timings]:
    """Latent attention of DeepSeek's widths: over prompts as several heads, over a cache absorbed.

    SGLang's prompts were timed absorbed where FlashAttention or Triton read them, at three to nine times the work; its
    services read prompts without a cached prefix as several heads. Source: its ``_handle_attention_backend``.
    """
    if not len(frame):
        return
    keys = ["batch_size", "num_heads", "isl", "step"]
    if phase == "prompt":
        frame = frame.filter(~pl.col("kernel_source").is_in(["flash_attention", "triton"]))
    part = (
        frame.filter(pl.col("kv_cache_dtype") == "bfloat16")
        .group_by(keys, maintain_order=True)
        .agg(pl.col("latency").median())
    )
    if len(part) < FEWEST:
        return
    batch, heads, new, step, seconds = columns(part, *keys, "latency")
    if phase == "prompt":
        flops = 2 * batch * heads * (192 + 128) * new * (new + 1) / 2
        moved = batch * new * (576 + heads * (576 + 128)) * 2
        context = new
    else:
        context = step + 1
        flops = 2 * batch * heads * (576 + 512) * context
        moved = batch * (context * 576 + heads * (576 + 128)) * 2
    keep = (step == 0) & (new > 1) if phase == "prompt" else context > 0
    found = Timings(
        kind=f"latent.{phase}",
        load=KernelLoad(
            compute=flops / system.chip.rate("bf16"),
            memory=moved / system.chip.memory_bandwidth,
            rows=context,
            narrowness=0.0,
            launches=1.0,
            depth=0.0,
            matrices=batch,
        ),
        seconds=seconds / 1e3,
        shape=heads,
    )
    yield sample(found.where(keep))


def recurrence(frame: pl.DataFrame, chip: str, system: System) -> Iterator[Timings]:
    """Gated delta rules with the convolution before them: in chunks over prompts, one step over states."""
    if not len(frame):
        return
    for phase, name in (("context", "prompt"), ("generation", "decode")):
        keys = ["batch_size", "seq_len", "num_v_heads", "head_k_dim", "head_v_dim"]
        parts = (
            frame.filter(pl.col("phase") == phase, pl.col("kernel_source").str.contains(kernel))
            .group_by(keys, maintain_order=True)
            .agg(pl.col("latency").median())
            for kernel in ("delta_rule", "causal_conv1d")
        )
        rule, convolution = parts
        part = rule.join(convolution, on=keys, suffix="_convolution", maintain_order="left")
        if not len(part):
            continue
        batch, length, heads, key, value, rule_time, convolved = columns(part, *keys, "latency", "latency_convolution")
        seconds = rule_time + convolved
        new = length if name == "prompt" else np.ones_like(length)
        each = heads * (2 * 64 * (key + value) + 6 * key * value) if name == "prompt" else 7 * heads * key * value
        moved = batch * (2 * heads * key * value * 4 + new * heads * (key + 2 * value) * 2)
        timed = Timings(
            kind=f"recurrence.{name}",
            load=KernelLoad(
                compute=batch * new * each / system.chip.rate("bf16"),
                memory=moved / system.chip.memory_bandwidth,
                rows=new,
                narrowness=0.0,
                launches=1.0,
                depth=0.0,
                matrices=0.0,
            ),
            seconds=seconds / 1e3,
            shape=heads,
        )
        held = (moved < 1.2 * CACHES.get(chip, 0.0)) & (name == "decode")
        if (~held).sum() >= FEWEST_STATES:
            yield sample(timed.where(~held))


def free(kind: str) -> tuple[str, ...]:
    """Constants that are fitted for a kind of kernel."""
    return next(names for prefix, names in FREE.items() if kind.startswith(prefix))


def of_engine(t: Timings, curves: Mapping[str, KernelCurve]) -> dict[str, KernelCurve]:
    """Curves under the names of the file: of one engine as ``product.wide@vllm``."""
    _, at, engine = t.kind.partition("@")
    return {f"{kind}{at}{engine}": curve for kind, curve in curves.items()}


def fit(t: Timings) -> dict[str, KernelCurve]:
    """Curves of least robust error in the logarithm of time, by kind of kernel that the timings hold."""
    places = [(kind, name) for kind in t.loads for name in free(kind)]
    names = [name for _, name in places]

    def curves(x: Array) -> dict[str, KernelCurve]:
        values: dict[str, dict[str, float]] = {kind: {} for kind in t.loads}
        for (kind, n), v in zip(places, x, strict=True):
            values[kind][n] = float(1 / (1 + np.exp(-v)) if n in ("part", "stream") else np.exp(v))
        return {kind: KernelCurve(**constants) for kind, constants in values.items()}

    start = [np.log(START[n] / (1 - START[n])) if n in ("part", "stream") else np.log(START[n]) for n in names]
    low = [-6.0 if n in ("part", "stream") else np.log(START[n]) - 9 for n in names]
    high = [6.0 if n in ("part", "stream") else np.log(START[n]) + 5 for n in names]
    high = [min(h, np.log(t.tile)) if n == "rows" else h for n, h in zip(names, high, strict=True)]
    logs = np.log(t.seconds)

    def residual(x: Array) -> Array:
        return np.log(t.by(curves(x))) - logs

    return curves(least_squares(residual, start, loss="soft_l1", f_scale=0.15, bounds=(low, high)).x)


def error(t: Timings, curves: Mapping[str, KernelCurve]) -> Array:
    """Relative error of every timing."""
    return np.abs(t.by(curves) / t.seconds - 1)


def report(name: str, t: Timings, curves: Mapping[str, KernelCurve]) -> str:
    """Line of one curve: how many timings, error on shapes left out and on all, constants."""
    shapes = np.unique(t.shape)
    rank = np.random.default_rng(2).permutation(len(shapes)) % 4
    out = np.isin(t.shape, shapes[rank == 0])
    left = error(t.where(out), fit(t.where(~out))) if 0 < out.sum() < len(out) else np.array([np.nan])
    every = error(t, curves)
    shares = [np.median(left), np.quantile(left, 0.9), np.median(every) if len(every) else np.nan]
    shown = ["-" if np.isnan(share) else f"{share:.{digits}%}" for share, digits in zip(shares, (1, 0, 1), strict=True)]
    constants = "; of the index ".join(
        ", ".join(f"{n} {getattr(curve, n):.3g}" for n in free(kind)) for kind, curve in curves.items()
    )
    return f"| {name} | {t.kind} | {len(every):,} | {' | '.join(shown)} | {constants} |"


def network(folder: Path, chip: str, system: System) -> tuple[dict[str, float], str]:
    """Constants of collectives, and a line on their error."""
    frame = table(folder, chip, "custom_allreduce").filter(~pl.col("kernel_source").str.contains("eager"))
    frame = frame.group_by("num_gpus", "message_size", maintain_order=True).agg(pl.col("latency").median())
    ranks, elements, seconds = columns(frame, "num_gpus", "message_size", "latency")
    size, seconds = elements * 2, seconds / 1e3
    # Without links of their own, ranks of two sockets meet over the host: a slower network than the catalogue's.
    keep = (ranks > 1) & (ranks <= (4 if system.fabric == "none" else 8)) & (size >= 4096)
    wire, latency = collective(lambda s: all_reduce(size[keep], ranks[keep], s), system)
    found, errors = reached(wire, latency, seconds[keep], pieces=True)
    constants = {"wire": found[0], "reduction_latency": found[1]}
    text = f"{keep.sum()} | | | {np.median(errors):.1%} | wire {found[0]:.3g}, latency x {found[1]:.3g}"
    exchanged = exchange(folder, chip, system)
    if exchanged is not None:
        constants |= {"wire_exchange": exchanged[0][0], "exchange_latency": exchanged[0][1]}
        text += f"; dispatch and combine {np.median(exchanged[1]):.1%}, wire {exchanged[0][0]:.3g}"
    return constants, text


def exchange(folder: Path, chip: str, system: System) -> tuple[tuple[float, float], Array] | None:
    """Dispatch and combine of DeepEP on one node of eight."""
    small, large = table(folder, chip, "wideep_deepep_ll"), table(folder, chip, "wideep_deepep_normal")
    if not len(small) or not len(large):
        return None
    keys = ["hidden_size", "num_token", "num_topk", "num_experts"]
    small = small.filter(pl.col("node_num") == 1, pl.col("num_token") <= 128)
    small = small.with_columns(both=pl.col("dispatch_avg_t_us") + pl.col("combine_avg_t_us"))
    large = large.filter(pl.col("node_num") == 1, pl.col("num_token") > 128)
    large = large.with_columns(both=pl.col("dispatch_transmit_us") + pl.col("combine_transmit_us"))
    large = large.group_by(keys, maintain_order=True).agg(pl.col("both").min())
    frame = pl.concat([small.select(*keys, "both"), large.select(*keys, "both")])
    frame = frame.filter(pl.col("num_topk") >= 4)
    hidden, tokens, topk, count, micro = columns(frame, *keys, "both")
    copies = np.array([float(distinct_ranks(int(e), float(k), 8.0)) for e, k in zip(count, topk, strict=True)])
    own = tokens * hidden * copies
    ranks = np.full(len(own), 8.0)
    wide = replace(system, domain=max(system.domain, 8))
    wire, latency = collective(
        lambda s: all_to_all(own * (1 + 4 / 128), ranks, s, 0.0) + all_to_all(own * 2, ranks, s, 0.0), wide
    )
    return reached(wire, latency, micro * 1e-6, pieces=False)


def collective(time: Callable[[System], Number], system: System) -> tuple[Array, Array]:
    """Seconds on the wire and latency of a collective, each by itself."""
    links = {n: getattr(system, n) for n in ("scale_up", "scale_out")}
    free_of = {n: None if x is None else Link(bandwidth=x.bandwidth, latency=0.0) for n, x in links.items()}
    instant = {n: None if x is None else Link(bandwidth=float("inf"), latency=x.latency) for n, x in links.items()}
    return np.asarray(time(replace(system, **free_of))), np.asarray(time(replace(system, **instant)))


def reached(wire: Array, latency: Array, seconds: Array, *, pieces: bool) -> tuple[tuple[float, float], Array]:
    """Part of the wire and factor on latency of least robust error, and that error."""

    def time(x: Array) -> Array:
        w, t = wire * (1 + np.exp(-x[0])), latency * np.exp(x[1])
        return w + t + (2 * np.sqrt(w * t) if pieces else 0.0)

    bounds = ([-8.0, 0.0], [8.0, 4.0])
    x = least_squares(lambda x: np.log(time(x) / seconds), [0.5, 0.1], loss="soft_l1", f_scale=0.15, bounds=bounds).x
    return (float(1 / (1 + np.exp(-x[0]))), float(np.exp(x[1]))), np.abs(time(x) / seconds - 1)


def chips_out(kept: dict[str, list[Timings]], fitted: dict[str, dict[str, KernelCurve]]) -> list[str]:
    """Error of each chip by the curves of its generation's other chips, else of all others."""
    lines: list[str] = []
    for name, parts in kept.items():
        generation = catalogue.system(name).chip.generation
        for t in parts:
            others = [n for n in fitted if n != name and t.kind in fitted[n]]
            near = [n for n in others if catalogue.system(n).chip.generation == generation] or others
            if near:
                _, at, engine = t.kind.partition("@")
                left = error(t, {kind: mean([fitted[n][f"{kind}{at}{engine}"] for n in near]) for kind in t.loads})
                lines.append(f"| {name} | {t.kind} | {', '.join(near)} | {np.median(left):.1%} |")
    return lines


def mean(curves: list[KernelCurve]) -> KernelCurve:
    """Geometric mean of each constant."""
    values = {f.name: [getattr(c, f.name) for c in curves] for f in fields(KernelCurve)}
    return KernelCurve(**{n: float(np.exp(np.mean(np.log(v)))) if min(v) > 0 else 0.0 for n, v in values.items()})


def toml(fitted: dict[str, dict[str, KernelCurve]], networks: dict[str, dict[str, float]]) -> str:
    """Constants of every chip."""
    lines = [
        "# Kernels of each chip: constants of engine/kernel_curves.py. Generated; do not edit. Command:",
        "#   python tools/kernels.py TIMINGS AITER   (aiconfigurator-core 0.12.0; AITER; see the tool)",
        'source = "aiconfigurator-kernels"',
        f"elementwise = {ELEMENTWISE}",
    ]
    for name, curves in fitted.items():
        source = ['source = "aiter-kernels"'] if name in ROCM else []
        lines += ["", f'["{name}"]', *source, *(f"{n} = {v:.4g}" for n, v in networks.get(name, {}).items())]
        for kind, curve in curves.items():
            body = ", ".join(f"{n} = {getattr(curve, n):.4g}" for n in free(kind))
            lines.append(f'"{kind}" = {{ {body} }}')
    return "\n".join(lines) + "\n"


def page(lines: list[str], left: list[str]) -> str:
    """The generated page of errors."""
    return "\n".join(
        [
            "# How well kernels are described",
            "",
            "Generated by `python tools/kernels.py TIMINGS AITER`. One curve for each kind of kernel and chip",
            "(`engine/kernel_curves.py`), fitted to kernel timings of aiconfigurator-core 0.12.0 (Apache-2.0), of",
            "the latest version of each engine; without `@`, the median over engines. AMD's chips by the tables of",
            "AITER (MIT): products and mixtures, by the quickest kernel of each shape. Left out: a quarter of the",
            "shapes (widths of a matrix, heads, sizes of experts) that the fit does not see.",
            "",
            "| kind | chips and engines | median of the medians, left out | from, to |",
            "|---|---|---|---|",
            *summary(lines),
            "",
            "| chip | kind | timings | left out, median | left out, p90 | all, median | constants |",
            "|---|---|---|---|---|---|---|",
            *lines,
            "",
            "## A whole chip left out",
            "",
            "Predicted by the mean curve of the other chips of its generation, or of all others where it has none.",
            "",
            "| chip | kind | curves of | median error |",
            "|---|---|---|---|",
            *left,
            "",
        ]
    )


if __name__ == "__main__":
    main()
