"""Memory, gradients, time and drift of reversible layers, against a stored graph and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from rackmath.lab.budget import TimeLimit
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.live_bytes import peak_bytes, saved_bytes
from rackmath.lab.machine import Machine, timed
from rackmath.lab.reversible import WAYS, Network, drift
from rackmath.training.depth import OVERHEAD, memory_with_depth

DEPTHS = (4, 8, 16, 24, 32)
ARITHMETIC = (
    ("fp64", torch.float64),
    ("fp32", torch.float32),
    ("bf16", torch.bfloat16),
    ("fp32", torch.bfloat16),
    ("fp64", torch.bfloat16),
    ("fixed", torch.bfloat16),
)
"""Types of the streams and of what works on them. The last two bound the drift of 16-bit functions: sums in 64 bit, and
sums of integers, which are undone exactly."""
_WIDTH, _HEADS = 256, 4
_MOST = 1.0
"""Of the repeats of one step. [s]"""


def experiment(
    machine: Machine,
    budget: TimeLimit,
    *,
    depths: Sequence[int] = DEPTHS,
    batch: int = 4,
    tokens: int = 256,
) -> Experiment:
    """Train steps of one network in four ways, by depth, and the inverse in several arithmetics.

    Depths that would not end within the budget are left out: some machines have no fast arithmetic of 16 or 64 bit.
    """
    start = perf_counter()
    x = torch.randn(batch, tokens, _WIDTH, generator=torch.Generator().manual_seed(1)).to(machine.device)
    peaks: dict[str, list[float]] = {way: [] for way in WAYS}
    bytes_by_way: dict[str, list[float]] = {way: [] for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    wrong: dict[str, float] = {}
    drift_of: dict[tuple[str, torch.dtype], list[float]] = {arithmetic: [] for arithmetic in ARITHMETIC}
    sorted_depths, depths = sorted(depths), []
    for depth in budget.sized(sorted_depths, float, "layers"):
        seconds = budget.each(sum(each_depth >= depth for each_depth in sorted_depths) * len(WAYS), _MOST)
        depths.append(depth)
        network = Network(depth, _WIDTH, _HEADS).to(machine.device)
        standard = gradients(network, x, "standard")
        for way in WAYS:
            budget.say(f"{depth} layers, {way}")
            _with_gradients(network)
            peaks[way].append(float(peak_bytes(lambda n=network, w=way: _step(n, x, w), machine.device)))
            bytes_by_way[way].append(float(kept(network, x, way)))
            times[way].append(timed(lambda n=network, w=way: _step(n, x, w), machine.device, seconds=seconds).median)
            error = float((gradients(network, x, way) - standard).norm() / standard.norm())
            wrong[way] = max(wrong.get(way, 0.0), error)
        for streams, functions in ARITHMETIC:
            budget.say(f"{depth} layers, inverse in {streams}")
            drift_of[streams, functions].append(
                drift(Network(depth, _WIDTH, _HEADS), x.cpu()[:1, :64], streams, functions)
            )
    curves = [
        *_memory_curves(depths, peaks, bytes_by_way),
        *_time_curves(depths, times),
        *_drift_curves(depths, drift_of),
    ]
    facts = {
        "gradient_error": wrong,
        "reversible_growth": peaks["reversible"][-1] / peaks["reversible"][0],
        "standard_growth": peaks["standard"][-1] / peaks["standard"][0],
        "time_over_standard": {way: times[way][-1] / times["standard"][-1] for way in WAYS},
        "drift": {f"{s} streams, {str(f).removeprefix('torch.')} functions": row for (s, f), row in drift_of.items()},
    }
    return Experiment(
        name="revnet",
        title="reversible layers",
        machine=machine,
        curves=curves,
        facts=facts,
        findings=[*_findings(depths, peaks, times, wrong, drift_of), *budget.notes()],
        seconds=perf_counter() - start,
    )


def gradients(network: Network, x: Tensor, way: str) -> Tensor:
    """All gradients of one step, of parameters and input, as one vector."""
    _with_gradients(network)
    start = x.clone().requires_grad_()
    network(start, way).square().sum().backward()
    parts = [p.grad for p in network.parameters()] + [start.grad]
    return torch.cat([part.flatten() for part in parts if part is not None])


def kept(network: Network, x: Tensor, way: str) -> int:
    """Bytes that the forward pass keeps for the backward one. [B]"""
    start = x.clone().requires_grad_()
    own_storage = {p.untyped_storage().data_ptr() for p in network.parameters()} | {start.untyped_storage().data_ptr()}
    return saved_bytes(lambda: network(start, way), own_storage)


def _with_gradients(network: Network) -> None:
    """Gradients exist before a step is measured: their memory is the optimizer's, whatever the way."""
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)


def _step(network: Network, x: Tensor, way: str) -> None:
    network(x.clone().requires_grad_(), way).square().sum().backward()


def _memory_curves(
    depths: Sequence[int], peaks: dict[str, list[float]], bytes_by_way: dict[str, list[float]]
) -> list[ExperimentCurve]:
    """Peaks against the closed forms, whose two sizes are those of the stored graph and of per-block checkpoints."""
    span = depths[-1] - depths[0]
    layer = (peaks["standard"][-1] - peaks["standard"][0]) / span if span else peaks["standard"][0] / depths[0]
    boundary = (peaks["per block"][-1] - peaks["per block"][0]) / span if span else layer / 8
    floor = peaks["reversible"][0] - memory_with_depth(layer, boundary, depths[0], "reversible")
    predicted = {way: [memory_with_depth(layer, boundary, depth, way) + floor for depth in depths] for way in WAYS}
    panels = (("peak of live tensors", peaks, predicted), ("kept for the backward pass", bytes_by_way, {}))
    return [
        ExperimentCurve(
            panel=panel,
            name=way,
            across="layers",
            up="B",
            x=list(depths),
            measured=measured[way],
            predicted=formula.get(way, ()),
            log_across=False,
        )
        for way in WAYS
        for panel, measured, formula in panels
    ]


def _time_curves(depths: Sequence[int], times: dict[str, list[float]]) -> list[ExperimentCurve]:
    standard = times["standard"]
    return [
        ExperimentCurve(
            panel="step over that of the stored graph",
            name=way,
            across="layers",
            up="ratio",
            x=list(depths),
            measured=[t / s for t, s in zip(times[way], standard, strict=True)],
            predicted=[1 + OVERHEAD[way]] * len(depths),
            log_across=False,
            log_up=False,
        )
        for way in WAYS
        if way != "standard"
    ]


def _drift_curves(depths: Sequence[int], drift_of: dict[tuple[str, torch.dtype], list[float]]) -> list[ExperimentCurve]:
    return [
        ExperimentCurve(
            panel="error of the inverse",
            name=f"{streams} streams, {str(functions).removeprefix('torch.')}",
            across="layers",
            up="relative",
            x=list(depths),
            measured=row,
            log_across=False,
        )
        for (streams, functions), row in drift_of.items()
        if any(row)
    ]


def _findings(
    depths: Sequence[int],
    peaks: dict[str, list[float]],
    times: dict[str, list[float]],
    wrong: dict[str, float],
    drift_of: dict[tuple[str, torch.dtype], list[float]],
) -> list[str]:
    mebi = 2**20
    last = {way: values[-1] / mebi for way, values in peaks.items()}
    return [
        f"From {depths[0]} to {depths[-1]} layers a reversible network's peak goes from "
        f"{peaks['reversible'][0] / mebi:.1f} to {last['reversible']:.1f} MiB, the stored graph's from "
        f"{peaks['standard'][0] / mebi:.0f} to {last['standard']:.0f}; checkpoints of every block take "
        f"{last['per block']:.1f}, of every square root of the depth {last['sqrt']:.1f}.",
        f"Gradients differ from the stored graph's by {wrong['reversible']:.1e} of their norm at most.",
        f"A step takes {times['reversible'][-1] / times['standard'][-1]:.2f} times the stored graph's, per-block "
        f"checkpoints {times['per block'][-1] / times['standard'][-1]:.2f}; one more forward pass would be "
        f"{1 + OVERHEAD['reversible']:.2f}.",
        f"Undoing {depths[-1]} layers loses {drift_of['fp32', torch.float32][-1]:.0e} in 32 bit and "
        f"{drift_of['bf16', torch.bfloat16][-1]:.0e} in 16; integers of 2^-16 lose "
        f"{drift_of['fixed', torch.bfloat16][-1]:.0f}, even around 16-bit functions.",
    ]
