"""Timings of whole blocks of attention that chooses among keys or pools them -> loads of their cores.

Their tables (``dsa``, ``dsv4_csa``, ``dsv4_hca``, ``msa``) hold an attention block with its projections, norms and
choice of keys. The engine's own operators of a catalogue model with that block say what its core and its index compute
and read, and what its products take by the curves of the same engine; the curves of core and index are what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kernel_timings import FEWEST, Timings, columns, sample, table
from rackmath.engine import Layout
from rackmath.engine.kernel_curves import KernelCurve, KernelLoad, overlapped
from rackmath.engine.roofline import OperatorTime, timed_operators
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.operator import Pass
from rackmath.models.requantise import requantise
from rackmath.models.traffic import core_kind
from rackmath.models.weights import mixer_parts

Array = NDArray[np.float64]

TABLES = {
    "sparse": "dsa",
    "sparse_shared": "dsa",
    "compressed_sparse": "dsv4_csa",
    "compressed": "dsv4_hca",
    "block_sparse": "msa",
}
"""Tables by kind of block; a block without an index of its own says ``skip_indexer`` there."""

KINDS = tuple(TABLES)

MODELS = {
    "DeepSeek-V3.2": "deepseek-v3.2",
    "GLM-5": "glm-5",
    "GLM-5-FP8": "glm-5",
    "GLM-5.2": "glm-5.2",
    "GLM-5.2-FP8": "glm-5.2",
    "GLM-5.2-NVFP4": "glm-5.2",
    "DeepSeek-V4-Flash-FP8": "deepseek-v4-flash",
    "DeepSeek-V4-Pro": "deepseek-v4-pro",
    "DeepSeek-V4-Pro-FP8": "deepseek-v4-pro",
    "MiniMax-M3": "minimax-m3",
}
"""Last parts of the tables' names of models -> those of the catalogue."""

FORMATS = {"bfloat16": "bf16", "fp8_block": "fp8", "nvfp4": "nvfp4"}
CACHES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_e4m3": "fp8"}
PHASES = {"decode": ("generation", "decode"), "prompt": ("context", "prefill")}
"""Phases of kernels -> the tables' word, and the phase of a pass."""

LEAST_TOKENS = 4096
"""Tokens of prompts below which vLLM's and SGLang's blocks were timed as fast as the host starts them: 0.8 to 1.5
milliseconds whatever their size. Such timings are left out."""

TELLING = 0.7
"""Part of a block's time that products may take for it to tell anything of its core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A catalogue model's layer with one kind of attention, at one format of weights and cache."""

    kind: str
    model: Architecture
    heads: int

    @classmethod
    def of(cls, kind: str, model: str, weights: str, cache: str) -> Block | None:
        """None where the model has no such layer."""
        whole = catalogue.model(model)
        for layer, _ in whole.groups:
            for mixer in layer.mixers:
                if core_kind(mixer) == kind:
                    alone = replace(whole, layers=(layer,))
                    converted = requantise(alone, weight_format(weights), cache_format(cache))
                    return cls(kind=kind, model=converted, heads=mixer_parts(mixer) or 1)
        return None

    def operators(self, work: Pass, ranks: Array, system: System) -> list[OperatorTime]:
        """Products of the block and its core, on one rank."""
        layout = Layout(tensor=ranks, expert=ranks)
        roles = ("attention", "indexer")
        return [op for op in timed_operators(self.model, work, layout, system) if op.operator.role in roles]


def blocks(
    folder: Path, chip: str, system: System, engine: str, curves: Mapping[str, KernelCurve]
) -> Iterator[Timings]:
    """Timings of the cores of all kinds of blocks, of one engine or of all together.

    Parameters
    ----------
    curves : mapping
        Curves of products of this chip, by kind; of an engine as ``product.wide@vllm``.
    """
    for kind, name in TABLES.items():
        for phase, (word, _) in PHASES.items():
            frame = table(folder, chip, f"{name}_{word}_module")
            if not len(frame):
                continue
            frame = frame if not engine else frame.filter(pl.col("engine") == engine)
            # Short prompts of SGLang go through dense attention of several heads, which has curves of its own.
            frame = frame.filter(~pl.col("kernel_source").fill_null("").str.contains("dense_mha"))
            shared = pl.col("op_name").str.contains("skip_indexer")
            frame = frame.filter(shared if kind == "sparse_shared" else ~shared)
            pieces = list(_pieces(frame, kind, phase, system, engine, curves))
            if sum(len(t.seconds) for t in pieces) >= FEWEST:
                yield sample(_joined(pieces))


def _pieces(
    frame: pl.DataFrame, kind: str, phase: str, system: System, engine: str, curves: Mapping[str, KernelCurve]
) -> Iterator[Timings]:
    """Timings by model and formats."""
    keys = ["num_heads", "batch_size", "isl", "step"]
    for names, part in frame.partition_by(["model", "gemm_type", "kv_cache_dtype"], as_dict=True).items():
        model, weights, cache = (str(name) for name in names)
        block = Block.of(kind, MODELS[model.rpartition("/")[2]], FORMATS[weights], CACHES[cache])
        if block is None:
            continue
        least = LEAST_TOKENS if phase == "prompt" else 1
        part = part.filter(pl.col("num_heads") <= block.heads, pl.col("batch_size") * pl.col("isl") >= least)
        part = part.group_by(keys, maintain_order=True).agg(pl.col("latency").median())
        heads, batch, new, step, milliseconds = columns(part, *keys, "latency")
        work = Pass(phase=PHASES[phase][1], sequences=batch, new_tokens=new, context=step + new)
        operators = block.operators(work, block.heads / heads, system)
        loads = {op.operator.kind: op.load for op in operators}
        products = [_product(op, engine, curves) for op in operators if op.operator.kind == "product"]
        size = len(heads)
        timed = Timings(
            kind=f"{kind}.{phase}",
            load=_sized(loads[kind], size),
            index=_sized(loads[index], size) if (index := f"{kind}_index") in loads else None,
            seconds=milliseconds / 1e3,
            shape=block.heads * 1e4 + heads,
            beside=_wide(sum(products), size),
        )
        yield timed.where(timed.beside < TELLING * timed.seconds)


def _product(op: OperatorTime, engine: str, curves: Mapping[str, KernelCurve]) -> Array:
    """Seconds of a product without its start, which is that of its block."""
    seconds = curves.get(f"{op.kernel}@{engine}", curves[op.kernel]).seconds(op.load)
    return np.asarray(overlapped(seconds.compute, seconds.memory))


def _joined(pieces: list[Timings]) -> Timings:
    """One kind of block of several models and formats."""
    indices = [t.index for t in pieces if t.index is not None]
    return Timings(
        kind=pieces[0].kind,
        load=_together([t.load for t in pieces]),
        index=_together(indices) if indices else None,
        seconds=np.concatenate([t.seconds for t in pieces]),
        shape=np.concatenate([t.shape for t in pieces]),
        beside=np.concatenate([t.beside for t in pieces]),
    )


def hyper_connections(folder: Path, chip: str, system: System, engine: str) -> Iterator[Timings]:
    """Timings of both mixes of residual streams of a layer: before a block and behind it, by the faster kernel."""
    frame = table(folder, chip, "mhc_module")
    if not len(frame):
        return
    frame = frame if not engine else frame.filter(pl.col("engine") == engine)
    keys = ["hidden_size", "num_tokens"]
    sides = frame.group_by("engine", "op_name", *keys, maintain_order=True).agg(pl.col("latency").min())
    sides = sides.group_by("op_name", *keys, maintain_order=True).agg(pl.col("latency").median())
    before, behind = (sides.filter(pl.col("op_name") == side) for side in ("pre", "post"))
    both = before.join(behind, on=keys, suffix="_behind")
    pieces: list[Timings] = []
    for name in ("deepseek-v4-flash", "deepseek-v4-pro"):
        model = catalogue.model(name)
        alone = replace(model, layers=model.layers[:1])
        part = both.filter(pl.col("hidden_size") == model.hidden)
        tokens, one, other = columns(part, "num_tokens", "latency", "latency_behind")
        work = Pass(phase="prefill", sequences=tokens, new_tokens=1.0, context=1.0)
        operators = timed_operators(alone, work, Layout(), system)
        load = next(op.load for op in operators if op.operator.kind == "hyper_connection")
        pieces.append(
            Timings(
                kind="hyper_connection",
                load=_sized(load, len(tokens)),
                seconds=2 * (one + other) / 1e3,
                shape=np.full(len(tokens), float(model.hidden)),
                beside=np.zeros(len(tokens)),
            )
        )
    yield _joined(pieces)


def _together(loads: list[KernelLoad]) -> KernelLoad:
    return KernelLoad(*(np.concatenate(column) for column in zip(*loads, strict=True)))


def _sized(load: KernelLoad, size: int) -> KernelLoad:
    return KernelLoad(*(_wide(x, size) for x in load))


def _wide(value: object, size: int) -> Array:
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), (size,)))
