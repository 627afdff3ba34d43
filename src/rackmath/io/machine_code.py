"""Where the simulator's machine code is kept, and which runs wait for it.

A first run on a machine would wait 30 s for the compiler. One of ten thousand requests takes a second in Python: it is
run so, with the same result to the last bit, while a process beside it compiles for larger ones.
``python -m rackmath.io.machine_code KINDS`` is that process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs

from rackmath.serving.simulator.code import Code, compiled_code, python_code
from rackmath.serving.simulator.graph import no_edges
from rackmath.serving.simulator.kinds import ReplicaKind
from rackmath.serving.simulator.run import simulate
from rackmath.serving.simulator.settings import Batching, Failures, Fleet
from rackmath.serving.simulator.times import StepTimes
from rackmath.serving.simulator.workload import Arrivals

_SOURCES = Path(simulate.__code__.co_filename).parent
_SMALL = 100_000
"""Requests and blocks of prefixes up to which a run is interpreted: a few seconds."""
_GIVEN_UP = 600.0
"""Age from which the mark of a compiler at work says nothing. [s]"""
_UNUSED = 30 * 86_400.0
"""Time without a run after which the machine code of another version or place is removed. [s]"""
_NICE = 10
"""What is asked for now comes first."""

_COMPILERS: list[subprocess.Popen[bytes]] = []
"""Processes that this one has started; they go on when it ends."""


def code_for(size: float, kinds: int, say: Callable[[str], None]) -> Code:
    """Form of the simulator's loop for a run.

    Machine code where it is kept or where the run is large enough to wait for it; else Python, as for every run where
    Numba is told not to compile (``NUMBA_DISABLE_JIT=1``).

    Parameters
    ----------
    size : float
        Requests, prefix blocks that they name, and those that caches can hold; infinite where Python will not do.
    kinds : int
        Kinds of replicas of the run.
    say : callable
        Told that the compiler is at work.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return python_code()
    if _mark(kinds).exists():
        with suppress(OSError):
            os.utime(code_folder())
        return compiled_code(str(code_folder()))
    if size > _SMALL:
        say("compiling the simulator, once on this machine: about 30 s")
        return compiled_code(str(code_folder()))
    if compile_beside(kinds):
        say("compiling the simulator beside this run, for larger ones: about 60 s")
    return python_code()


@cache
def code_folder() -> Path:
    """Folder of the machine code of just these sources: in ``NUMBA_CACHE_DIR``, or in the platform's cache folder.

    Numba looks only at the file of the function that it compiles: code of former versions of what it calls would be
    taken for that of today, were they kept in one folder. It takes code for another place's, or another day's, where
    that file has moved or was written again: then the mark of a folder that both share would promise what is not there.
    """
    base = os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("rackmath", False)
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(f"{source} {source.stat().st_mtime_ns} ".encode())
        digest.update(source.read_bytes())
    return Path(base) / f"simulator-{digest.hexdigest()[:16]}"


def compile_beside(kinds: int) -> bool:
    """Start a process that compiles for fleets of so many kinds of replicas, unless one is at work.

    It goes on when this process ends. Returns whether it was started: it is not where no folder can be written, or no
    process begun.
    """
    marker = _begun(kinds)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        if marker.exists() and time.time() - marker.stat().st_mtime > _GIVEN_UP:
            marker.unlink()
        marker.touch(exist_ok=False)
    except OSError:
        return False
    nothing = subprocess.DEVNULL
    words = [sys.executable, "-m", __name__, str(kinds)]
    try:
        compiler = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError:
        marker.unlink()
        return False
    _COMPILERS.append(compiler)
    return True


@contextmanager
def marking(kinds: int) -> Generator[None]:
    """Mark the folder as complete for so many kinds when the body has compiled everything; else as not begun."""
    try:
        yield
        _mark(kinds).touch()
        _remove_unused()
    finally:
        _begun(kinds).unlink(missing_ok=True)


def warm(kinds: int) -> None:
    """Compile every entrance of the loop for fleets of so many kinds of replicas, and keep the machine code."""
    requests, max_num_seqs, budget = 40, 4, 64
    batching = Batching(max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, memory=100_000)
    table = np.full(budget + 1, 0.1)
    times = StepTimes(
        base=table[: max_num_seqs + 1], slope=np.zeros(max_num_seqs + 1), prompt=table, pair=0.0, error=0.0
    )
    sixteen, first = np.full(requests, 16, np.int32), np.zeros(requests, np.int32)
    arrival = np.arange(float(requests))
    open_loop = Arrivals(arrival=arrival, prompt=sixteen, output=sixteen, rank=first)
    closed_loop = Arrivals(arrival=arrival, prompt=sixteen, output=sixteen, rank=first, graph=no_edges(requests))
    # Replicas fail several times while requests come: that entrance is called as well.
    failing = Fleet(replicas=2, failures=Failures(between=10.0, repair=1.0))
    other_kinds = [ReplicaKind(times=times, batching=batching, replicas=1)] * (kinds - 1)
    code = compiled_code(str(code_folder()))
    for work, fleet in ((open_loop, failing), (closed_loop, Fleet(replicas=2))):
        simulate(work, times, batching=batching, fleet=fleet, beside=other_kinds, code=code)


def _remove_unused() -> None:
    """Remove machine code that no run has used for a month: each version of the sources leaves some 25 MB."""
    for folder in code_folder().parent.glob(f"simulator-{'[0-9a-f]' * 16}"):
        # Another process may be at it as well.
        with suppress(OSError):
            if folder != code_folder() and time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _mark(kinds: int) -> Path:
    return code_folder() / f"complete-{kinds}"


def _begun(kinds: int) -> Path:
    return code_folder() / f"begun-{kinds}"


if __name__ == "__main__":
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    with marking(int(sys.argv[1])):
        warm(int(sys.argv[1]))
