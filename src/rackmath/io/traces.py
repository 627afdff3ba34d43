"""A trace of any format -> a workload: tables of requests, results of load generators, tasks of agents."""

from __future__ import annotations

from pathlib import Path

from rackmath.io.agent_traces import is_agent_trace, read_agents
from rackmath.io.trace_files import read_table
from rackmath.serving.simulator.workload import Arrivals

_BLOCK = 512
"""Tokens of a block that Mooncake's traces name. [tokens]"""


def read_trace(path: Path, *, block: int | None = None, repair: bool = False) -> tuple[Arrivals, list[str]]:
    """Read a trace, and what had to be mended.

    Parameters
    ----------
    block : int, optional
        Tokens of a prefix block, where the trace names blocks and does not say; 512 by default. [tokens]
    repair : bool
        Of tables: mend what can be mended instead of refusing the file.

    Errors: :class:`InputError` with the line of what cannot be used.
    """
    if is_agent_trace(path):
        return read_agents(path, block=block or _BLOCK), []
    return read_table(path, block=block or _BLOCK, repair=repair)
