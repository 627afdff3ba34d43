"""Several processes of this host that talk: spawn them, join them by gloo, bring their results back."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
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
    """Run a worker in so many processes and return what each gives back, by rank: numbers and arrays, no tensors.

    Errors: :class:`ProcessFailed` with the last line of a process that failed.
    """
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        processes = [
            context.Process(target=_enter, args=(worker, rank, ranks, job, meeting, answers), daemon=True)
            for rank in range(ranks)
        ]
        try:
            for process in processes:
                process.start()
            entries: dict[int, Any] = {}
            while len(entries) < ranks:
                rank, answer, trouble = answers.get(timeout=_PATIENCE)
                if trouble is not None:
                    raise ProcessFailed(f"rank {rank} failed: {trouble}")
                entries[rank] = answer
            for process in processes:
                process.join(_PATIENCE)
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()
    return [entries[rank] for rank in range(ranks)]


def _enter(worker: Worker, rank: int, ranks: int, job: Any, meeting: str, answers: Any) -> None:
    """What a process does: join, work, answer."""
    try:
        # Ranks share the cores; one thread each keeps them from waiting for each other's.
        torch.set_num_threads(1)
        if Path("/sys/class/net/lo").exists():
            # Ranks of one machine need no other network, and a machine may have no other.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=_PATIENCE)
        )
        answers.put((rank, worker(rank, ranks, job), None))
        dist.barrier()
        dist.destroy_process_group()
    except Exception:
        answers.put((rank, None, traceback.format_exc().strip().splitlines()[-1]))
