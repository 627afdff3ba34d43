"""How long weights take to reach the accelerators of a replica, from a store or from the memory of their hosts."""

from __future__ import annotations

from math import inf

from rackmath.engine.layout import Layout
from rackmath.engine.sharding import memory
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.counts import weight_bytes


def loading_time(architecture: Architecture, system: System, layout: Layout, rate: float = inf) -> float:
    r"""Time until all weights of a replica are where they are multiplied. [s]

    .. math:: t = \max(W / r, w / h)

    The store gives every tensor once (W at the rate r); each accelerator takes what it keeps over its own link to the
    host (w at h, no faster than the memory behind it); tensors follow each other, so that both go on at once. That is
    a loader that keeps its store busy, as Run:ai's streamer does: it read Llama 3 8B at 1.03 GiB/s from a volume of
    1,000 MiB/s, but at 1.96 GiB/s from one of 4 GB/s (run-ai/runai-model-streamer, docs/src/benchmarks.md). A loader
    that reads a tensor after the other takes longer.

    Parameters
    ----------
    rate : float
        Of the store, for the whole replica; infinite for weights that wait in the memory of the hosts. [B/s]

    Errors: :class:`InputError` for a rate that is not positive, and for the memory of hosts whose link is not known.
    """
    if not rate > 0:
        raise InputError("--weights-from", rate, "write a positive rate, as 5GB/s")
    link = min(system.host_link or inf, system.host_dram_bandwidth or inf)
    if rate == inf and system.host_link is None:
        raise InputError(
            "--weights-from", "host", f"no link to a host is known of {system.name}; write a rate, as 5GB/s"
        )
    # Nothing but weights: of accelerators that hold experts only, where they hold more.
    total_bytes = float(memory(architecture, layout, 0.0, 0.0, 0.0, system.chip.memory_capacity).total)
    return max(sum(weight_bytes(architecture).values()) / rate, total_bytes / link)
