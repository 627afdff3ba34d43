"""Fixtures: two models, two systems, a random generator, and the shared folder."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType

# As the command line sets it, before NumPy is imported: tests run beside each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

from rackmath.hardware import Chip, Link, System
from rackmath.io import catalogue, machine_code
from rackmath.models.architecture import Architecture

# A busy machine is no defect: how long an example takes says nothing of whether it is right.
settings.register_profile("rackmath", deadline=None)
settings.load_profile("rackmath")

# No test sees the measurements that somebody keeps on this machine.
os.environ["RACKMATH_DATA"] = str(Path(__file__).parent / "data" / "nobody")


# No test starts a compiler that outlives it; to the processes that tests start one is at work already.
compile_beside, machine_code.compile_beside = machine_code.compile_beside, lambda kinds: False
_AT_WORK = [machine_code._begun(kinds) for kinds in range(1, 6)]
_LATER = 3600.0
"""Longer than all tests take. [s]"""
_COMPILE = "from rackmath.io.machine_code import marking, warm\nwith marking(1): warm(1)"
_SIMULATOR = Path(__file__).parent / "serving" / "simulator"
_COMPILERS: list[subprocess.Popen[bytes]] = []


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as processors: tests wait for browsers, servers and processes of their own."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + processors // 2


def pytest_sessionstart(session: pytest.Session) -> None:
    # Where nothing can be written no compiler is started either.
    with suppress(OSError):
        for mark in _AT_WORK:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            os.utime(mark, (time.time(), time.time() + _LATER))

    # One compiler for all workers, while they run what needs none.
    workers = getattr(session.config.option, "numprocesses", None)
    if workers and not hasattr(session.config, "workerinput") and not machine_code._mark(1).exists():
        _COMPILERS.append(subprocess.Popen([sys.executable, "-c", _COMPILE]))


def pytest_sessionfinish() -> None:
    for compiler in _COMPILERS:
        compiler.terminate()
        compiler.wait()
    with suppress(OSError):
        for mark in _AT_WORK:
            mark.unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that none runs by itself at the end; end with those that wait for a compiler.

    Workers take whole files (``./test``), in the order of their first tests. Those in a browser come before all: one
    worker starts a browser and a board, and waits for them while the others compute.
    """

    def order(item: pytest.Item) -> tuple[bool, bool, bool]:
        in_browser = "chromium" in getattr(item, "fixturenames", ())
        return (_SIMULATOR in item.path.parents, not in_browser, item.get_closest_marker("long") is None)

    items.sort(key=order)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay to the end: looking through them again and again took a sixth of all."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


SHARED = Path(__file__).parents[2] / "shared"


def tool(name: str) -> ModuleType:
    """A module of ``tools/``, which is no package."""
    path = Path(__file__).parents[1] / f"tools/{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_tool", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up; tools import each other.
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@pytest.fixture(scope="session")
def llama() -> Architecture:
    return catalogue.model("llama-3.1-70b")


@pytest.fixture(scope="session")
def deepseek() -> Architecture:
    return catalogue.model("deepseek-v3")


@pytest.fixture(scope="session")
def nvl72() -> System:
    return catalogue.system("gb200-nvl72")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def plain() -> System:
    """A system of round numbers and no latency, for checking algebra."""
    return make_system()


def make_system(bandwidth: float = 1e12, rate: float = 1e15, domain: int = 8, link: float = 1e11) -> System:
    chip = Chip(
        name="plain",
        vendor="none",
        year=2026,
        status="imagined",
        memory_capacity=1e11,
        memory_bandwidth=bandwidth,
        rates=(("bf16", rate), ("fp8", 2 * rate)),
    )
    return System(
        name="plain",
        chip=chip,
        domain=domain,
        fabric="mesh",
        default_gpus=domain,
        scale_up=Link(bandwidth=link),
        scale_out=Link(bandwidth=link / 8),
        price=1.0,
    )
