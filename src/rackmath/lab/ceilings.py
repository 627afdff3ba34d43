"""The machine's own ceilings: products by precision and shape, streams by size, the cost of a small operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from rackmath.lab.budget import TimeLimit
from rackmath.lab.machine import Machine, Timing, timed

Shape = tuple[int, int, int]
"""Rows, columns and inner width of a product."""

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Tokens that meet one matrix."""
SIDE = 2048
"""Of that matrix."""
_COLD = 2**28
"""Bytes of matrices that take turns, so that few rows meet weights that no cache of their own holds. [B]"""
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SEQUENCES, _KV_HEADS, _CONTEXT, _HEAD = 8, 4, 2048, 64
"""Of the attention that is measured."""
_PRODUCTS = 0.7
"""Part of the time for products; streams have the rest."""
_MOST = 0.3
"""Of the repeats of one point. [s]"""
_LARGEST_STREAM = 2**31
"""Largest stream on a CPU: beyond the caches of any server of today. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Rate of one product of matrices."""

    precision: str
    rows: int
    columns: int
    inner: int
    rate: float
    """[FLOP/s]"""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Bandwidth of reading so many bytes again and again."""

    size: int
    """[B]"""
    bandwidth: float
    """[B/s]"""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a machine reaches."""

    machine: Machine
    products: tuple[Product, ...]
    streams: tuple[Stream, ...]
    latency: Timing
    """Of an operation on one element."""
    attention: float
    """At which attention of one new token a sequence reads its cache. [B/s]"""

    def rate(self, precision: str) -> float:
        """Best rate of any shape. [FLOP/s]"""
        return max(product.rate for product in self.products if product.precision == precision)

    @property
    def precisions(self) -> tuple[str, ...]:
        """Precisions that were measured."""
        return tuple(dict.fromkeys(product.precision for product in self.products))

    def bandwidth(self, size: float) -> float:
        """Bandwidth of a working set, between the sizes that were measured. [B/s]"""
        across = [log(stream.size) for stream in self.streams]
        return float(np.exp(np.interp(log(size), across, [log(stream.bandwidth) for stream in self.streams])))

    def rate_at(self, precision: str, rows: float) -> float:
        """Rate of a product of so many rows with one large matrix, between the numbers of rows measured. [FLOP/s]"""
        skinny = [
            product
            for product in self.products
            if product.precision == precision and product.columns == product.inner == SIDE
        ]
        across = [log(product.rows) for product in skinny]
        return float(np.exp(np.interp(log(max(rows, 1.0)), across, [log(product.rate) for product in skinny])))


def measure(machine: Machine, budget: TimeLimit, *, small: bool = False) -> Ceilings:
    """Measure all ceilings.

    Parameters
    ----------
    budget : TimeLimit
        A machine that is too slow for large shapes of a precision measures its small ones.
    small : bool
        Few and small shapes, for tests and for experiments that only need an idea.
    """
    products: list[Product] = []
    groups = [(precision, kind) for precision in precisions(machine.device) for kind in shapes(machine.device, small)]
    for place, (precision, kind) in enumerate(groups):
        part = budget.part(_PRODUCTS / (_PRODUCTS * (len(groups) - place) + 1 - _PRODUCTS))
        for number, (rows, columns, inner) in enumerate(part.sized(kind, _flops, f"products in {precision}")):
            part.say(f"product {precision} {rows} x {columns} x {inner}")
            seconds = part.each(len(kind) - number, _MOST)
            products.append(product(machine, precision, rows, columns, inner, seconds))
    streams: list[Stream] = []
    part, product_sizes = budget.part(1 - _PRODUCTS), sizes(machine, small)
    for number, size in enumerate(part.sized(product_sizes, float, "streams of bytes")):
        part.say(f"stream of {size / 2**20:,.2f} MiB")
        streams.append(stream(machine, size, part.each(len(product_sizes) - number, _MOST)))
    seconds = budget.each(2, _MOST)
    scalar = torch.zeros(1, device=machine.device)
    latency = timed(lambda: scalar.add_(1.0), machine.device, repeats=15, seconds=seconds)
    return Ceilings(
        machine=machine,
        products=tuple(products),
        streams=tuple(streams),
        latency=latency,
        attention=attention(machine, seconds),
    )


def precisions(device: str) -> tuple[str, ...]:
    """Precisions that are measured: what PyTorch multiplies on the device without conversion."""
    if device == "cpu":
        return ("fp32", "bf16", "int8")
    if device == "mps":
        return ("fp32", "fp16", "bf16")
    fp8 = ("fp8",) if torch.cuda.get_device_capability() >= (8, 9) and torch.version.hip is None else ()
    return ("fp32", "bf16", "fp16", "int8", *fp8)


def shapes(device: str, small: bool) -> tuple[list[Shape], list[Shape]]:
    """Square products, and products of few rows with one large matrix."""
    if small:
        return [(256, 256, 256)], [(1, SIDE, SIDE), (64, SIDE, SIDE)]
    squares = (128, 256, 512, 1024, 2048) if device == "cpu" else (512, 1024, 2048, 4096, 8192, 16_384)
    return [(n, n, n) for n in squares], [(rows, SIDE, SIDE) for rows in ROWS]


def _flops(shape: Shape) -> float:
    rows, columns, inner = shape
    return 2.0 * rows * columns * inner


def sizes(machine: Machine, small: bool) -> list[int]:
    """Powers of two from a first-level cache to well beyond the last. [B]"""
    if small:
        return [2**16, 2**22, 2**25]
    most = min(_LARGEST_STREAM if machine.device == "cpu" else 2**33, int(machine.memory / 8))
    return [2**i for i in range(15 if machine.device == "cpu" else 20, most.bit_length())]


def product(machine: Machine, precision: str, rows: int, columns: int, inner: int, seconds: float) -> Product:
    """Rate of one product, inputs and output in place."""
    work = _multiply(machine.device, precision, rows, columns, inner)
    time = timed(work, machine.device, seconds=seconds)
    flops = 2.0 * rows * columns * inner
    return Product(
        precision=precision,
        rows=rows,
        columns=columns,
        inner=inner,
        rate=flops / time.median,
        low=flops / time.high,
        high=flops / time.low,
    )


def _multiply(device: str, precision: str, rows: int, columns: int, inner: int) -> Callable[[], object]:
    """A product of random matrices, the second one stored as a layer's weight is: by output, then input.

    Few rows meet one matrix after the other, as a decode pass does.
    """
    unstable: Any = torch
    dtype = {**_DTYPES, "int8": torch.int8, "fp8": getattr(torch, "float8_e4m3fn", torch.int8)}[precision]
    size = columns * inner * dtype.itemsize
    turns = max(_COLD // size, 1) if rows != columns else 1
    right = torch.randn(columns, inner, device=device)
    first = right.mul(4).to(dtype) if precision == "int8" else right.to(dtype)
    weights = itertools.cycle([first.clone().t() for _ in range(turns)])
    if precision == "int8":
        # The kernels want at least 17 rows on GPUs; fewer are padded there, as an engine would.
        least = 32 if device == "cuda" else 1
        whole = torch.randint(-8, 8, (max(rows, least), inner), dtype=torch.int8, device=device)
        return lambda: unstable._int_mm(whole, next(weights))
    if precision == "fp8":
        activations = torch.randn(max(rows, 16), inner, device=device).to(dtype)
        scale = torch.ones((), device=device)
        return lambda: unstable._scaled_mm(
            activations, next(weights), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
        )
    plain = torch.randn(rows, inner, device=device).to(dtype)
    out = torch.empty(rows, columns, device=device, dtype=dtype)
    return lambda: torch.mm(plain, next(weights), out=out)


def stream(machine: Machine, size: int, seconds: float) -> Stream:
    """Bandwidth of summing so many bytes of 32-bit numbers."""
    values = torch.ones(size // 4, device=machine.device)
    time = timed(lambda: values.sum(), machine.device, seconds=seconds)
    return Stream(size=size, bandwidth=size / time.median, low=size / time.high, high=size / time.low)


def attention(machine: Machine, seconds: float) -> float:
    """Bandwidth at which one query per sequence and head reads keys and values of 16 bit. [B/s]"""
    shape = (_SEQUENCES, _KV_HEADS, _CONTEXT, _HEAD)
    query = torch.randn(_SEQUENCES, 4 * _KV_HEADS, 1, _HEAD, device=machine.device).to(torch.bfloat16)
    keys, values = (torch.randn(shape, device=machine.device).to(torch.bfloat16) for _ in range(2))
    time = timed(
        lambda: functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True),
        machine.device,
        seconds=seconds,
    )
    return 2.0 * keys.numel() * keys.element_size() / time.median
