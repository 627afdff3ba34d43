"""Curves of kernels as the package holds them: by chip, by generation where a chip has no timings, by all else."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from importlib.resources import files
from math import exp, log
from typing import Any

from rackmath.engine.kernel_curves import WIDTHS, KernelCurve, Kernels
from rackmath.engine.kernels import WHOLE
from rackmath.hardware import Chip
from rackmath.hardware.chip import TYPICAL_HEAT
from rackmath.io import catalogue

_FILE = files("rackmath") / "data" / "kernels.toml"
_GGML = files("rackmath") / "data" / "kernels-ggml.toml"

_ENGINES_OF_GGML = frozenset({"llama.cpp"})
"""Engines that multiply with ggml's kernels: one curve for all chips, and experts with the kernels of their other
products, called with a list of experts, instead of kernels that sort tokens first. Source: ggml-cuda's
``mul_mat_vec_q`` and ``mul_mat_q`` with ``ids``. Attention that chooses among keys has no timings there; it takes the
curves of latent attention."""

_PRODUCT_PER_EXPERT = frozenset({"megatron"})
"""Frameworks that train each expert by a product of its own. Source: Megatron Core's ``TEGroupedMLP`` by
TransformerEngine's ``nvte_multi_stream_cublas_gemm``."""

_STREAMS = 4
"""CUDA streams on which these products are started. Source: TransformerEngine's ``nvte_get_num_compute_streams``."""

_MOST = 0.85
"""Part of the printed peak that kernels without timings on their generation are taken to reach at most, whatever
services say, where that peak asks for as many FLOPs of a joule as an H100's: products of n, k >= 4096 on H100 to GB300
(1.4 to 2.3 TFLOP/J) reach 0.73 to 0.85, medians at their best sizes; RTX PRO 6000 (0.8) reaches 1.02
(op-efficiency.csv)."""

_NETWORK = ("wire", "reduction_latency", "wire_exchange", "exchange_latency")


@lru_cache(maxsize=256)
def kernels(chip: Chip, family: str) -> Kernels:
    """Curves of a chip's kernels in an engine.

    What a chip has no timings of comes from its generation, else from all chips: the geometric
    mean of each constant. An engine without timings of its own takes those of all engines.
    """
    tables = _tables()
    own_tables = [t for name, t in tables.items() if _chips()[name].name == chip.name]
    near = [t for name, t in tables.items() if _chips()[name].generation == chip.generation]
    every = list(tables.values())
    curves: dict[str, KernelCurve] = {}
    borrowings: set[str] = set()
    for kind in sorted({key.partition("@")[0] for t in every for key in t if isinstance(t[key], dict)}):
        for group in (own_tables, near, every):
            result = [t.get(f"{kind}@{family}", t.get(kind)) for t in group]
            if any(result):
                curves[kind] = _mean(KernelCurve(**c) for c in result if c)
                if group is every and chip.heat >= TYPICAL_HEAT:
                    curves[kind] = replace(curves[kind], most=_MOST)
                # Who has no timings at all says so as a whole.
                borrowings |= set() if group is (own_tables or near or every) else {kind}
                break
    curves |= {f"{kind}.codebook": curves[f"{kind}.expanded"] for kind in ("product", "experts")}
    if family in _ENGINES_OF_GGML:
        curves |= _of_ggml(chip)
        curves |= {f"experts.{width}": curves[f"product.{width}"] for width in WIDTHS if f"product.{width}" in curves}
        curves |= {kind: curves[f"latent.{kind.rpartition('.')[2]}"] for kind in curves if _chooses(kind)}
    if family in _PRODUCT_PER_EXPERT:
        curves |= {f"experts.{width}": _product_per_expert(curves[f"product.{width}"]) for width in WIDTHS}
    curves["other"] = curves["other.train"] = KernelCurve(stream=_elementwise())
    network: dict[str, float] = {}
    for name in _NETWORK:
        group = next(g for g in (own_tables, near, every) if any(name in t for t in g))
        network[name] = _average([t[name] for t in group if name in t])
    return Kernels(curves=curves, **network, pieces=1.0, basis=basis(chip), borrowed=frozenset(borrowings))


def _product_per_expert(product: KernelCurve) -> KernelCurve:
    """Curve of a layer of experts that starts one product for each expert, on several CUDA streams."""
    return replace(product, matrix=product.floor / _STREAMS, depth=0.0)


def basis(chip: Chip) -> str:
    """Whose timings a chip's curves are: its own, its generation's, or those of all chips."""
    if chip.name in timed_chips():
        return f"kernel timings of {chip.name}"
    if chip.generation in {c.generation for c in _chips().values()}:
        return f"kernel timings of other {chip.generation} chips"
    return "kernel timings of other generations: none of this one is published"


@lru_cache(maxsize=1)
def timed_chips() -> frozenset[str]:
    """Names of the chips with kernel timings of their own."""
    return frozenset(c.name for c in _chips().values())


@lru_cache(maxsize=1)
def timed_generations() -> Mapping[str, frozenset[str]]:
    """Generations of the chips with kernel timings -> kinds of kernels that were timed on one of them."""
    kinds: dict[str, set[str]] = {}
    for name, table in _tables().items():
        generations = {key.partition("@")[0] for key, value in table.items() if isinstance(value, dict)}
        kinds.setdefault(_chips()[name].generation, set()).update(generations)
    return {generation: frozenset(generations) for generation, generations in kinds.items()}


@lru_cache(maxsize=1)
def _chips() -> dict[str, Chip]:
    return {name: catalogue.system(name).chip for name in _tables()}


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _tables() -> Mapping[str, Mapping[str, Any]]:
    return {name: table for name, table in _raw().items() if isinstance(table, dict)}


def _of_ggml(chip: Chip) -> dict[str, KernelCurve]:
    """Curves of ggml on a chip; its kernels by row multiply outside of matrix units, at parts of that rate.

    Where nobody says that rate, only the kernels by tiles are left: few rows then take longer.
    """
    vector = (chip.vector_rate or 0.0) / chip.rate("fp16")
    return {kind: KernelCurve(**{**c, "by_row": c["by_row"] * vector}) for kind, c in _ggml().items()}


@lru_cache(maxsize=1)
def _ggml() -> dict[str, dict[str, float]]:
    raw = tomllib.loads(_GGML.read_text(encoding="utf-8"))
    return {kind: constants for kind, constants in raw.items() if isinstance(constants, dict)}


def _chooses(kind: str) -> bool:
    """Whether a kind of kernel is attention that chooses among keys or pools them."""
    block, _, phase = kind.partition(".")
    return block in WHOLE and phase != ""


def _elementwise() -> float:
    return float(_raw()["elementwise"])


def _mean(curves: Iterable[KernelCurve]) -> KernelCurve:
    curve_list = list(curves)
    return KernelCurve(**{f.name: _average([getattr(c, f.name) for c in curve_list]) for f in fields(KernelCurve)})


def _average(values: list[float]) -> float:
    """Geometric mean; none where one of them has none."""
    return exp(sum(log(v) for v in values) / len(values)) if min(values) > 0 else 0.0
