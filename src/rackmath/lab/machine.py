"""What the machine is, and how time is taken on it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from rackmath.errors import InputError

DEVICES = ("cpu", "cuda", "mps")
_SHORTEST = 2e-3
"""A repeat runs its work until at least this long has passed, so that the clock does not count. [s]"""
_MOST_LOOPS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where an experiment ran."""

    name: str
    device: str
    """cpu, cuda (ROCm calls itself so too) or mps."""
    threads: int
    memory: float
    """Of the device. [B]"""
    software: str

    def text(self) -> str:
        """One line for a report."""
        threads = f", {self.threads} threads" if self.device == "cpu" else ""
        return f"{self.name}{threads}, {self.memory / 2**30:.0f} GiB, {self.software}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one run of a piece of work, over repeats."""

    median: float
    low: float
    """10th percentile. [s]"""
    high: float
    """90th percentile. [s]"""


def find(device: str | None = None) -> Machine:
    """The machine; by default its accelerator if PyTorch sees one.

    Errors: :class:`InputError` for a device that is not there.
    """
    have = ["cpu"]
    if torch.backends.mps.is_available():
        have.insert(0, "mps")
    if torch.cuda.is_available():
        have.insert(0, "cuda")
    selection = device or have[0]
    if selection not in have:
        raise InputError("--device", selection, f"this machine has {', '.join(have)}")
    if selection == "cuda":
        properties = torch.cuda.get_device_properties(0)
        name, memory = properties.name, float(properties.total_memory)
    else:
        name = _processor() if selection == "cpu" else f"{_processor()}, Metal"
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return Machine(
        name=name,
        device=selection,
        threads=torch.get_num_threads(),
        memory=memory,
        software=f"PyTorch {torch.__version__}",
    )


def synchronise(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def timed(
    work: Callable[[], object], device: str, *, repeats: int = 7, seconds: float = 1.0, shortest: float = _SHORTEST
) -> Timing:
    """Time a piece of work: warm up, then repeats of as many runs as the clock needs.

    Parameters
    ----------
    repeats : int
        At most; fewer, but at least three, where ``seconds`` have passed before.
    shortest : float
        Of a repeat. [s]
    """
    work()
    synchronise(device)
    loops, once = 1, 0.0
    while True:
        once = _span(work, device, loops)
        if once >= shortest or loops >= _MOST_LOOPS:
            break
        loops = min(_MOST_LOOPS, max(loops * 2, int(loops * shortest / max(once, 1e-9)) + 1))
    spans = [once / loops]
    start = perf_counter()
    while len(spans) < repeats and (len(spans) < 3 or perf_counter() - start < seconds):
        spans.append(_span(work, device, loops) / loops)
    low, median, high = np.quantile(spans, (0.1, 0.5, 0.9))
    return Timing(median=float(median), low=float(low), high=float(high))


def _span(work: Callable[[], object], device: str, loops: int) -> float:
    start = perf_counter()
    for _ in range(loops):
        work()
    synchronise(device)
    return perf_counter() - start


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
