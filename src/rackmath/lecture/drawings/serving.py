"""Figures of chapters 1 to 9: batches, racks, memory, kernels, load."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from rackmath.engine.collectives import all_reduce
from rackmath.engine.kernel_curves import KernelLoad
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue, kernel_files
from rackmath.lecture.curves import curve
from rackmath.lecture.drawings.lines import POINTS, line
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import weight_bytes

_HOUR = 3600.0
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
    d, across = _DEEPSEEK, np.geomspace(1, 30_000, POINTS)
    compute = curve("compute-time", B=across, N_active=d["N_active"], C=d["C"])
    memory = curve("memory-time", B=across, **{name: d[name] for name in ("N_total", "w", "L", "kv", "M")})
    return Panel(
        across="sequences in the batch",
        up="ms",
        log_across=True,
        log_up=True,
        title="time of a step",
        series=[
            line("multiplications", across, compute * 1e3, 2),
            line("weights and cache are read", across, memory * 1e3, 3),
            line("the step", across, np.maximum(compute, memory) * 1e3, 0),
        ],
    )


def _batch_cost_panel() -> Panel:
    d, across = _DEEPSEEK, np.geomspace(1, 30_000, POINTS)
    flat = np.ones_like(across)
    scale = _RENT * 1e6
    return Panel(
        across="sequences in the batch",
        up="$ per million tokens",
        log_across=True,
        log_up=True,
        title="cost of a token",
        series=[
            line("multiplications", across, flat * d["N_active"] / d["C"] * scale, 2),
            line("the cache is read", across, flat * d["L"] * d["kv"] / d["M"] * scale, 3),
            line("weights are read", across, d["N_total"] * d["w"] / d["M"] / across * scale, 1),
            line("a token", across, curve("step-time", B=across, **d) / across * scale, 0),
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
    across = np.geomspace(1_000, 1_000_000, POINTS)
    names = ("llama-3.1-70b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b", "deepseek-v4-flash")
    return Figure(
        title="What a conversation keeps",
        panels=[
            Panel(
                across="tokens of context",
                up="GB",
                log_across=True,
                log_up=True,
                series=[line(name, across, cache_bytes(catalogue.model(name), across) / 1e9) for name in names],
            )
        ],
    )


def rack() -> Figure:
    """Experts that a batch touches, and what leaving the rack costs."""
    across, racks = np.geomspace(1, 4096, POINTS), np.arange(1, 9)
    return Figure(
        title="256 experts, 8 for each token",
        panels=[
            Panel(
                across="tokens in the batch",
                up="distinct experts",
                log_across=True,
                title="experts of a layer that are read",
                series=[line("expected", across, curve("experts-touched", E=256, k=8, B=across), 0)],
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
    across = np.geomspace(1e3, 1e9, POINTS)
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
                    line(name, across, np.asarray(all_reduce(across, ranks, catalogue.system(system))) * 1e6)
                    for name, system, ranks in cases
                ],
            )
        ],
    )


def pipelines() -> Figure:
    """Idle part of a flushed pipeline against its micro-batches."""
    across = np.geomspace(1, 512, POINTS)
    return Figure(
        title="Bubbles",
        panels=[
            Panel(
                across="micro-batches of a step",
                up="idle part",
                log_across=True,
                series=[
                    line(f"{stages} stages", across, curve("pipeline-bubble", P=stages, m=across))
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
    rows = np.geomspace(1, 16_384, POINTS)
    flops, elements = 2 * rows * side * side, 2 * (side * side + 2 * rows * side)
    compute, transfer = flops / chip.rate("bf16"), elements / chip.memory_bandwidth
    load = KernelLoad(compute, transfer, rows, 2 / side, 1.0, side, 0.0)
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
                    line("roofline", rows, compute / np.maximum(compute, transfer), 1),
                    line("published timings, as a curve", rows, compute / real, 0),
                ],
            )
        ],
    )


def load() -> Figure:
    """Waiting against how busy a server is, in units of one service."""
    busy = np.linspace(0.05, 0.97, POINTS)
    return Figure(
        title="Waiting for one server",
        panels=[
            Panel(
                across="part of the time that the server is busy",
                up="mean wait, in services",
                series=[
                    line("services of equal length", busy, busy / (2 * (1 - busy))),
                    line("services that vary (exponential)", busy, busy / (1 - busy)),
                ],
            )
        ],
    )
