"""Where a KV cache can wait on this machine: time to bring blocks back, drain times, the cheapest tier."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from rackmath.caching.tiers import cheapest, tier_costs
from rackmath.engine import Layout, estimate
from rackmath.errors import InputError
from rackmath.hardware import MemoryTier
from rackmath.io import catalogue
from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import Ceilings
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Timing
from rackmath.lab.predicted import system_of
from rackmath.lab.roofline import ceilings_of
from rackmath.models.cache import kv_bytes_per_token

BLOCKS = (2**16, 2**18, 2**20, 2**22, 2**24)
"""Bytes that are brought back at once: a few tokens to a few thousand."""
_FILE = 2**28
_REPEATS, _LEAST = 9, 3
"""Reads of a block, at most and at least."""
_PRICES = {"RAM": "ddr5", "mapped file": "ddr5", "disk": "nvme-tlc"}
"""Tier of the catalogue whose price stands in for this machine's."""
_PROMPT = 2048.0


def experiment(
    ceilings: Ceilings,
    budget: TimeLimit,
    *,
    model: str = "llama-3.1-8b",
    size: int = _FILE,
    usd_per_hour: float = 0.10,
    folder: Path | None = None,
) -> Experiment:
    """Read blocks from RAM, a mapped file and disk.

    Parameters
    ----------
    model : str
        Whose cache waits; it sets bytes per token and what computing again takes on this machine.
    size : int
        Bytes of the file; fewer where a slow disk does not take them in two fifths of the time. [B]
    usd_per_hour : float
        Rent of this machine. [USD/h]
    folder : Path, optional
        Where the file is written; by default the folder for temporary files.
    """
    start = perf_counter()
    if not 0 < usd_per_hour < 1e6:
        raise InputError("--usd-per-hour", usd_per_hour, "write a positive number of dollars")
    where = folder or Path(tempfile.gettempdir())
    free = shutil.disk_usage(where).free
    if free < 2 * size:
        raise InputError("--folder", where, f"has {free / 2**30:.1f} GiB free, the file needs {size / 2**30:.1f}")
    blocks, bandwidths = _measured(where, size, budget)
    memory, disk = ceilings.machine.memory, float(_disk_size(where))
    capacities = {"RAM": memory, "mapped file": memory, "disk": disk}
    tiers = [_tier(name, capacities[name], timings[-1].median, blocks[-1]) for name, timings in bandwidths.items()]
    architecture, system = catalogue.model(model), system_of(ceilings)
    prompt = estimate(architecture, system, Layout(), batch=1, context=_PROMPT, phase="prefill")
    costs = tier_costs(
        system,
        [tier for tier in tiers if tier.name != "mapped file"],
        kv_bytes=kv_bytes_per_token(architecture),
        prefill_time=float(prompt.time) / _PROMPT,
        price=usd_per_hour / 3600,
    )
    stays = cheapest(costs)
    facts: dict[str, Any] = {
        "drain_time": {tier.name: tier.drain_time for tier in tiers},
        "bandwidth": {tier.name: tier.bandwidth for tier in tiers},
        "stays": [{"tier": s.tier, "start": s.start, "stop": s.stop} for s in stays],
        "model": architecture.name,
        "usd_per_hour": usd_per_hour,
    }
    return Experiment(
        name="kv-tiers",
        title="where a cache can wait",
        machine=ceilings.machine,
        curves=[
            ExperimentCurve(
                panel="bringing a block back",
                name=name,
                across="bytes of a block",
                up="s",
                x=blocks,
                measured=[t.median for t in timings],
                low=[t.low for t in timings],
                high=[t.high for t in timings],
                predicted=_affine(blocks, timings),
            )
            for name, timings in bandwidths.items()
        ],
        facts=facts,
        findings=[
            "Reading all of it once takes "
            + ", ".join(f"{tier.drain_time:.3g} s ({tier.name})" for tier in tiers)
            + ", at the bandwidth of the largest block.",
            f"For {architecture.name} on a machine of {usd_per_hour:g} $/h: "
            + ", then ".join(f"{s.tier} from {s.start:.3g} s" for s in stays)
            + ". Prices of devices are the catalogue's; RAM of the machine counts twice, as its memory and as a tier.",
            "Predicted times are a latency and a bandwidth, from the smallest and the largest block.",
            *budget.notes(),
        ],
        ceilings=ceilings_of(ceilings),
        seconds=perf_counter() - start,
    )


def _measured(where: Path, size: int, budget: TimeLimit) -> tuple[Sequence[int], dict[str, list[Timing]]]:
    """Blocks that every tier brought in time, and their times by tier, out of a file that is gone afterwards."""
    bandwidths: dict[str, list[Timing]] = {}
    with tempfile.TemporaryDirectory(dir=where) as inside:
        path = Path(inside) / "blocks"
        file_bytes = _write(path, size, budget.part(0.4))
        if file_bytes < size:
            budget.omitted.append(f"{(size - file_bytes) / 2**20:,.0f} of {size / 2**20:,.0f} MiB of the file")
        readers = (("RAM", _from_ram), ("mapped file", _from_map), ("disk", _from_disk))
        for place, (name, reader) in enumerate(readers):
            part = budget.part(1 / (len(readers) - place))
            part.say(f"blocks from {name}")
            bandwidths[name] = reader(path, [block for block in BLOCKS if block <= file_bytes], part)
    blocks = BLOCKS[: min(len(timings) for timings in bandwidths.values())]
    return blocks, {name: timings[: len(blocks)] for name, timings in bandwidths.items()}


def _write(path: Path, size: int, budget: TimeLimit) -> int:
    """Write random bytes until the file has its size or the time has passed, and say how many there are."""
    total = 0
    with path.open("wb") as file:
        while total < size and (not total or budget.left):
            total += file.write(os.urandom(min(BLOCKS[-1], size - total)))
            file.flush()
            os.fsync(file.fileno())
    return total


def _tier(name: str, capacity: float, seconds: float, block: int) -> MemoryTier:
    price = catalogue.tiers()[_PRICES[name]]
    return MemoryTier(name=name, capacity=capacity, bandwidth=block / seconds, price=price.price)


def _affine(blocks: Sequence[int], timings: list[Timing]) -> list[float]:
    """Latency and bandwidth through the first and the last point; nothing through a single one."""
    if len(blocks) < 2:
        return []
    slope = (timings[-1].median - timings[0].median) / (blocks[-1] - blocks[0])
    return [timings[0].median + slope * (block - blocks[0]) for block in blocks]


def _disk_size(where: Path) -> int:
    return shutil.disk_usage(where).total


def _spread(spans: list[float]) -> Timing:
    low, median, high = np.quantile(spans, (0.1, 0.5, 0.9))
    return Timing(median=float(median), low=float(low), high=float(high))


def _repeated(
    blocks: list[int],
    size: int,
    budget: TimeLimit,
    read: Callable[[int, int], object],
    before: Callable[[], None] = lambda: None,
) -> list[Timing]:
    """Time ``read(offset, block)`` at offsets drawn all over the file; ``before`` each is not timed."""
    random = np.random.default_rng(0)
    timings: list[Timing] = []
    for block in budget.sized(blocks, float, "blocks of bytes"):
        spans: list[float] = []
        while len(spans) < _REPEATS and (len(spans) < _LEAST or budget.left):
            offset = int(random.integers(size // block)) * block
            before()
            start = perf_counter()
            read(offset, block)
            spans.append(perf_counter() - start)
        timings.append(_spread(spans))
    return timings


def _from_ram(path: Path, blocks: list[int], budget: TimeLimit) -> list[Timing]:
    buffer = np.fromfile(path, dtype=np.uint8)
    target = np.zeros(max(blocks), dtype=np.uint8)

    def read(offset: int, block: int) -> None:
        target[:block] = buffer[offset : offset + block]

    read(0, max(blocks))
    return _repeated(blocks, buffer.size, budget, read)


def _from_map(path: Path, blocks: list[int], budget: TimeLimit) -> list[Timing]:
    """A mapped file whose pages are in memory: no copy until they are touched."""
    target = np.zeros(max(blocks), dtype=np.uint8)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory_map:
        size = len(memory_map)

        def read(offset: int, block: int) -> None:
            target[:block] = np.frombuffer(memory_map, dtype=np.uint8, count=block, offset=offset)

        # Touching every page brings the file into memory.
        for offset in range(0, size - max(blocks) + 1, max(blocks)):
            read(offset, max(blocks))
        return _repeated(blocks, size, budget, read)


def _from_disk(path: Path, blocks: list[int], budget: TimeLimit) -> list[Timing]:
    """A file whose pages the kernel is told to forget before every read."""
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size

        def read(offset: int, block: int) -> object:
            return os.pread(handle, block, offset)

        def forget() -> None:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

        return _repeated(blocks, size, budget, read, forget)
    finally:
        os.close(handle)
