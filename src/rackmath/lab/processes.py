"""Several processes of this host that talk: spawn them, join them by gloo, bring their results back."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from rackmath.errors import RackmathError

_PATIENCE = 300.0
"""After which processes that say nothing are given up. [s]"""

Worker = Callable[[int, int, Any], Any]
"""Rank, number of ranks and job -> what comes back; importable by name, since processes start afresh."""


class ProcessFailed(RackmathError):
    """A process of an experiment ended with an error."""


def run(worker: Worker, ranks: int, job: Any) -> list[Any]:
    """Run a worker once in so many processes and return what each gives back, by rank: numbers and arrays, no tensors.

    Errors: :class:`ProcessFailed` with the last line of a process that failed.
    """
    with process_group(ranks) as run_in_each:
        return run_in_each(worker, job)


@contextmanager
def process_group(ranks: int) -> Generator[Callable[[Worker, Any], list[Any]]]:
    """Start so many processes, which take seconds to import what they need, for one worker after the other.

    Yields a function of a worker and its job, which runs it in every process as :func:`run` does.
    """
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    jobs: list[Any] = [context.Queue() for _ in range(ranks)]

    def run_in_each(worker: Worker, job: Any) -> list[Any]:
        for queue in jobs:
            queue.put((worker, job))
        return _answers_of(answers, ranks)

    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        processes = [
            context.Process(target=_enter, args=(rank, ranks, jobs[rank], meeting, answers), daemon=True)
            for rank in range(ranks)
        ]
        try:
            for process in processes:
                process.start()
            yield run_in_each
            for queue in jobs:
                queue.put(None)
            for process in processes:
                process.join(_PATIENCE)
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()


def _answers_of(answers: Any, ranks: int) -> list[Any]:
    """One answer of every rank, in their order."""
    entries: dict[int, Any] = {}
    while len(entries) < ranks:
        rank, answer, trouble = answers.get(timeout=_PATIENCE)
        if trouble is not None:
            raise ProcessFailed(f"rank {rank} failed: {trouble}")
        entries[rank] = answer
    return [entries[rank] for rank in range(ranks)]


def _enter(rank: int, ranks: int, jobs: Any, meeting: str, answers: Any) -> None:
    """What a process does: join, work and answer until there is no further job."""
    try:
        # Ranks share the cores; one thread each keeps them from waiting for each other's.
        torch.set_num_threads(1)
        if Path("/sys/class/net/lo").exists():
            # Ranks of one machine need no other network, and a machine may have no other.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=_PATIENCE)
        )
        # Whoever asks may be gone: nobody waits for ever.
        while (task := jobs.get(timeout=_PATIENCE)) is not None:
            worker, job = task
            answers.put((rank, worker(rank, ranks, job), None))
        dist.barrier()
        dist.destroy_process_group()
    except Exception:
        answers.put((rank, None, traceback.format_exc().strip().splitlines()[-1]))
