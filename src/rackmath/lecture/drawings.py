"""Figures of the book: what explains a chapter, and what sketches of the quiz are compared with."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np

from rackmath.caching.sessions import Session, turns
from rackmath.caching.tiers import tier_costs
from rackmath.engine.collectives import all_reduce
from rackmath.engine.kernel_curves import KernelLoad
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue, kernel_files
from rackmath.lecture import ciphers
from rackmath.lecture.curves import curve
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import weight_bytes
from rackmath.training.budget import Life, budget
from rackmath.training.scaling_laws import law

_HOUR = 3600.0
_POINTS = 160
_SHOWN = np.log10(1.1)
"""Claims nearer than a tenth are not drawn."""
_DEEPSEEK: Mapping[str, float] = MappingProxyType(
    {"N_active": 37.55e9, "N_total": 671e9, "w": 1.0, "L": 2048.0, "kv": 35_136.0, "C": 1.8e17, "M": 5.76e14}
)
"""DeepSeek-V3 in 8 bit on a GB200 NVL72 rack, at a short conversation."""
_RENT = 72 * 10.5 / _HOUR
"""Of that rack. [USD/s]"""


def batch_time() -> Figure:
    """Time of a step against the batch, with what multiplies and what is read apart."""
    return Figure(title="Time of a step", panels=[_batch_time_panel()])


def batch_cost() -> Figure:
    """Cost of a token against the batch, with weights, cache and products apart."""
    return Figure(title="Cost of a token", panels=[_batch_cost_panel()])


def batch() -> Figure:
    """Both graphs of chapter 1."""
    return Figure(
        title="DeepSeek-V3 on a GB200 NVL72 rack: the bound", panels=[_batch_time_panel(), _batch_cost_panel()]
    )


def _batch_time_panel() -> Panel:
    d, across = _DEEPSEEK, np.geomspace(1, 30_000, _POINTS)
    compute = curve("compute-time", B=across, N_active=d["N_active"], C=d["C"])
    memory = curve("memory-time", B=across, **{name: d[name] for name in ("N_total", "w", "L", "kv", "M")})
    return Panel(
        across="sequences in the batch",
        up="ms",
        log_across=True,
        log_up=True,
        title="time of a step",
        series=[
            _line("multiplications", across, compute * 1e3, 2),
            _line("weights and cache are read", across, memory * 1e3, 3),
            _line("the step", across, np.maximum(compute, memory) * 1e3, 0),
        ],
    )


def _batch_cost_panel() -> Panel:
    d, across = _DEEPSEEK, np.geomspace(1, 30_000, _POINTS)
    flat = np.ones_like(across)
    scale = _RENT * 1e6
    return Panel(
        across="sequences in the batch",
        up="$ per million tokens",
        log_across=True,
        log_up=True,
        title="cost of a token",
        series=[
            _line("multiplications", across, flat * d["N_active"] / d["C"] * scale, 2),
            _line("the cache is read", across, flat * d["L"] * d["kv"] / d["M"] * scale, 3),
            _line("weights are read", across, d["N_total"] * d["w"] / d["M"] / across * scale, 1),
            _line("a token", across, curve("step-time", B=across, **d) / across * scale, 0),
        ],
    )


def departures() -> Figure:
    """Time to read all memory once: the natural period of a batch."""
    names = (
        "a100-sxm",
        "h100-sxm",
        "h200-sxm",
        "b200-sxm",
        "gb300-nvl72",
        "vr200-nvl72",
        "mi300x",
        "tpu-v7",
        "rtx-4090",
    )
    chips = [catalogue.system(name).chip for name in names]
    return Figure(
        title="Time to read all memory once",
        panels=[
            Panel(
                across="",
                up="ms",
                title="memory over bandwidth, ms",
                series=[Series(name="", x=list(names), y=[c.drain_time * 1e3 for c in chips], kind="horizontal")],
            )
        ],
    )


def context() -> Figure:
    """Cache of one conversation against its length."""
    across = np.geomspace(1_000, 1_000_000, _POINTS)
    names = ("llama-3.1-70b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b", "deepseek-v4-flash")
    return Figure(
        title="What a conversation keeps",
        panels=[
            Panel(
                across="tokens of context",
                up="GB",
                log_across=True,
                log_up=True,
                series=[_line(name, across, cache_bytes(catalogue.model(name), across) / 1e9) for name in names],
            )
        ],
    )


def rack() -> Figure:
    """Experts that a batch touches, and what leaving the rack costs."""
    across, racks = np.geomspace(1, 4096, _POINTS), np.arange(1, 9)
    return Figure(
        title="256 experts, 8 for each token",
        panels=[
            Panel(
                across="tokens in the batch",
                up="distinct experts",
                log_across=True,
                title="experts of a layer that are read",
                series=[_line("expected", across, curve("experts-touched", E=256, k=8, B=across), 0)],
            ),
            Panel(
                across="racks that share a layer",
                up="times as long",
                title="all-to-all over racks, against one rack",
                series=[
                    Series(
                        name=f"network {r} times slower", x=racks.tolist(), y=curve("two-racks", n=racks, r=r).tolist()
                    )
                    for r in (4, 8, 16)
                ],
            ),
        ],
    )


def collectives() -> Figure:
    """Time of a sum over ranks against its size."""
    across = np.geomspace(1e3, 1e9, _POINTS)
    cases = (("2 H100", "h100-sxm", 2.0), ("8 H100", "h100-sxm", 8.0), ("16 H100, two boxes", "h100-sxm", 16.0),
             ("72 GB200", "gb200-nvl72", 72.0))  # fmt: skip
    return Figure(
        title="All-reduce",
        panels=[
            Panel(
                across="bytes on each rank",
                up="us",
                log_across=True,
                log_up=True,
                series=[
                    _line(name, across, np.asarray(all_reduce(across, ranks, catalogue.system(system))) * 1e6)
                    for name, system, ranks in cases
                ],
            )
        ],
    )


def pipelines() -> Figure:
    """Idle part of a flushed pipeline against its micro-batches."""
    across = np.geomspace(1, 512, _POINTS)
    return Figure(
        title="Bubbles",
        panels=[
            Panel(
                across="micro-batches of a step",
                up="idle part",
                log_across=True,
                series=[
                    _line(f"{stages} stages", across, curve("pipeline-bubble", P=stages, m=across))
                    for stages in (4, 8, 16)
                ],
            )
        ],
    )


def memory() -> Figure:
    """What weights leave of the memory, against the accelerators that share them."""
    model, chip = catalogue.model("llama-3.1-70b"), catalogue.system("h100-sxm").chip
    weights, counts = float(sum(weight_bytes(model).values())), np.array([2, 4, 8, 16])
    capacity = chip.memory_capacity / 1e9
    share = weights / counts / 1e9
    working = 3.0
    free = np.maximum(0.9 * capacity - share - working, 0.0)
    rest = capacity - share - working - free
    names = [f"{n} H100" for n in counts]
    return Figure(
        title="Llama 3.1 70B at 16 bit: memory of one accelerator",
        panels=[
            Panel(
                across="",
                up="GB",
                series=[
                    Series(name="weights", x=names, y=share.tolist(), kind="bars"),
                    Series(name="passes, graphs, libraries", x=names, y=[working] * len(names), kind="bars"),
                    Series(name="cache", x=names, y=free.tolist(), kind="bars"),
                    Series(name="not given to the engine", x=names, y=rest.tolist(), kind="bars"),
                ],
            )
        ],
    )


def kernels() -> Figure:
    """Part of the peak that a product of 8,192 x 8,192 reaches, against the rows that meet it."""
    chip, side = catalogue.system("h100-sxm").chip, 8192.0
    rows = np.geomspace(1, 16_384, _POINTS)
    flops, moved = 2 * rows * side * side, 2 * (side * side + 2 * rows * side)
    compute, read = flops / chip.rate("bf16"), moved / chip.memory_bandwidth
    load = KernelLoad(compute, read, rows, 2 / side, 1.0, side, 0.0)
    real = kernel_files.kernels(chip, "vllm").curve("product.wide").seconds(load).total
    return Figure(
        title="A 16-bit product of 8,192 x 8,192 on an H100",
        panels=[
            Panel(
                across="rows (tokens)",
                up="part of the peak",
                log_across=True,
                log_up=True,
                series=[
                    _line("roofline", rows, compute / np.maximum(compute, read), 1),
                    _line("published timings, as a curve", rows, compute / real, 0),
                ],
            )
        ],
    )


def load() -> Figure:
    """Waiting against how busy a server is, in units of one service."""
    busy = np.linspace(0.05, 0.97, _POINTS)
    return Figure(
        title="Waiting for one server",
        panels=[
            Panel(
                across="part of the time that the server is busy",
                up="mean wait, in services",
                series=[
                    _line("services of equal length", busy, busy / (2 * (1 - busy))),
                    _line("services that vary (exponential)", busy, busy / (1 - busy)),
                ],
            )
        ],
    )


def training() -> Figure:
    """Cost of a model's life at one loss, against how far it is over-trained."""
    chosen, loss, life = law("besiroglu"), 2.0, Life(answer_tokens=1e13)
    sizes = np.geomspace(1.2e10, 1.5e11, _POINTS)
    lives = [budget(chosen, float(n), chosen.tokens_for(float(n), loss), life) for n in sizes]
    across = np.array([b.overtraining for b in lives])
    return Figure(
        title="One loss (2.0), ten trillion tokens served",
        panels=[
            Panel(
                across="tokens over those of the compute optimum",
                up="FLOP",
                log_across=True,
                log_up=True,
                series=[
                    _line("pre-training", across, np.array([b.cost_pretrain for b in lives]), 2),
                    _line("inference", across, np.array([b.cost_inference for b in lives]), 3),
                    _line("both", across, np.array([b.total for b in lives]), 0),
                ],
            )
        ],
    )


def prices() -> Figure:
    """Time of a token of a long pass against context: where a cliff would stand."""
    across = np.geomspace(1_000, 1_000_000, _POINTS)
    active, ratio = 100e9, 300.0
    compute = np.full_like(across, active)
    return Figure(
        title="100 B active parameters, R = 300",
        panels=[
            Panel(
                across="tokens of context",
                up="time of a prompt token, in multiply-adds",
                log_across=True,
                log_up=True,
                series=[
                    _line("multiplications", across, compute, 5),
                    *(
                        _line(f"cache of {kv:,.0f} bytes a token", across, across * kv * ratio)
                        for kv in (500, 1667, 70_272)
                    ),
                ],
            )
        ],
    )


def tiers() -> Figure:
    """Cost of a token's cache that waits, by tier."""
    system = catalogue.system("h200-sxm")
    costs = tier_costs(system, catalogue.tiers().values(), kv_bytes=163_840.0, prefill_time=3.7e-4, price=3.5 / _HOUR)
    across = np.geomspace(1e-2, 1e7, _POINTS)
    return Figure(
        title="Llama 3.1 70B on H200: one use of a token's cache",
        panels=[
            Panel(
                across="seconds that it waits",
                up="$ per million tokens",
                log_across=True,
                log_up=True,
                series=[_line(c.name, across, np.maximum((c.retrieve + c.hold * across) * 1e6, 1e-6)) for c in costs],
            )
        ],
    )


def agents() -> Figure:
    """Tokens that each call of an agent reads, with and without a cache."""
    calls = turns(Session(turns=40, first=8000, added=1500, output=600, think=20, keep=300))
    number = np.arange(1, len(calls.prompt) + 1)
    fresh = calls.prompt - calls.hit * calls.prefix
    return Figure(
        title="Forty turns of an agent",
        panels=[
            Panel(
                across="call",
                up="tokens computed",
                series=[
                    _line("without a cache", number, np.cumsum(calls.prompt), 1),
                    _line("with a cache of five minutes", number, np.cumsum(fresh), 0),
                ],
            )
        ],
    )


def rounds() -> Figure:
    """Bits of a cipher's output that turn with one bit of its input."""
    across = np.arange(1, 13)
    return Figure(
        title="Avalanche of a Feistel cipher",
        panels=[
            Panel(
                across="rounds",
                up="part of the output bits that turn",
                series=[
                    Series(
                        name="one bit of the input turned",
                        x=across.tolist(),
                        y=[ciphers.avalanche(int(n)) for n in across],
                    )
                ],
            )
        ],
    )


def errors() -> Figure:
    """Predicted over measured, each without its model on its chip, as shares of rows."""
    text = (files("rackmath") / "data" / "accuracy.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    ratios: dict[str, list[float]] = {}
    for row in csv.DictReader(lines):
        ratios.setdefault(row["class"], []).append(float(row["predicted"]) / float(row["measured"]))
    wanted = sorted((name for name in ratios), key=lambda name: -len(ratios[name]))[:4]
    levels = np.linspace(0.03, 0.97, 95)
    return Figure(
        title="Predicted over measured, by kind of row",
        panels=[
            Panel(
                across="predicted over measured",
                up="part of the rows below",
                series=[_line(name, np.quantile(ratios[name], levels), levels) for name in wanted],
            )
        ],
    )


def ledger() -> Figure:
    """How far real values are from what the lecture said, claim by claim."""
    from rackmath.lecture.claims import claims, off

    ratios = {c.id: ratio for c in claims() if (ratio := off(c)) is not None and abs(np.log10(ratio)) > _SHOWN}
    names = sorted(ratios, key=lambda name: -ratios[name])
    return Figure(
        title="Claims that are more than a tenth off",
        panels=[
            Panel(
                across="",
                up="powers of ten",
                title="real over said, at the worse end of a range, in powers of ten",
                series=[Series(name="", x=names, y=[float(np.log10(ratios[n])) for n in names], kind="horizontal")],
            )
        ],
    )


def _line(name: str, x: Any, y: Any, colour: int | None = None) -> Series:
    return Series(name=name, x=np.asarray(x).tolist(), y=np.asarray(y).tolist(), colour=colour)


DRAWINGS: Mapping[str, Callable[[], Figure]] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            batch, departures, context, rack, collectives, pipelines, memory, kernels, load, training, prices, tiers,
            agents, rounds, errors, ledger,
        )
    }
)  # fmt: skip
"""Figures that chapters show, by the name of their file."""


def drawing(name: str) -> Figure:
    """Draw a figure of the book.

    Errors: :class:`~rackmath.errors.InputError` for a name that no chapter uses.
    """
    if name not in DRAWINGS:
        raise InputError("figure", name, f"the book has {', '.join(DRAWINGS)}")
    return DRAWINGS[name]()
