"""Expert parallelism over real processes: bytes and time of dispatch and combine, one rack and two, and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from rackmath.engine.collectives import all_reduce, all_to_all
from rackmath.errors import InputError
from rackmath.hardware import Chip, Link, System
from rackmath.lab.budget import TimeLimit
from rackmath.lab.exchange_workers import CHOSEN, EXPERTS, HIDDEN, LAYERS, ExchangeJob, calibrate, exchange, reduce_both
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine, Timing
from rackmath.lab.processes import process_group

TOKENS = (64, 256, 1024, 4096)
_REPEATS, _LEAST = 7, 3
"""Repeats of a point, and the fewest that have a spread."""
_OUT, _BACK = 1, 2
"""Bytes of an element on its way to experts (8 bit) and back (16 bit)."""


def experiment(
    machine: Machine,
    budget: TimeLimit,
    *,
    ranks: int = 4,
    tokens: Sequence[int] = TOKENS,
    ratio: float = 8.0,
) -> Experiment:
    """Dispatch and combine among processes, as one rack and as two.

    Parameters
    ----------
    ranks : int
        Processes; an even number of at least 2.
    ratio : float
        Bandwidth inside a rack over that between racks. Between racks a sender sleeps for the time that its bytes
        would take on the slower network, then sends.

    Errors: :class:`InputError` for ranks that do not make two racks.
    """
    start = perf_counter()
    if ranks < 2 or ranks % 2:
        raise InputError("--ranks", ranks, "write an even number of at least 2")
    if not 1 <= ratio < 1e6:
        raise InputError("--ratio", ratio, "write a number from 1 to 1e6")
    entries: dict[str, list[dict[str, Any]]] = {}
    with process_group(ranks) as run:
        budget.say("bandwidth and latency of an even exchange")
        basic = run(calibrate, _REPEATS)[0]
        latency, bandwidth = _line(basic["exchange"])
        slow = bandwidth / ratio
        tokens, repeats = _sizes(tokens, ranks, _system(ranks // 2, bandwidth, latency, slow), budget)
        for name, second in (("one rack", float("inf")), ("two racks", slow)):
            budget.say(f"dispatch and combine, {name}")
            entries[name] = _slowest(run(exchange, ExchangeJob(tokens=tuple(tokens), repeats=repeats, slow=second)))
        budget.say("data-parallel and tensor-parallel reductions")
        reductions = run(reduce_both, ExchangeJob(tokens=tuple(tokens), repeats=repeats, slow=slow))[0]
    reduce_latency, reduce_bandwidth = _line_of_reduction(basic["reduce"], ranks)
    systems = {
        "one rack": _system(ranks, bandwidth, latency, None),
        "two racks": _system(ranks // 2, bandwidth, latency, slow),
    }
    curves = [_bytes_curve(entries["one rack"], ranks, tokens)]
    curves += [_time_curve(name, entries[name], systems[name], ranks, tokens) for name in entries]
    curves += _reduction_curves(reductions, ranks, tokens, _system(ranks, reduce_bandwidth, reduce_latency, None))
    last = {name: rows[-1]["dispatch"].median + rows[-1]["combine"].median for name, rows in entries.items()}
    facts = {
        "ranks": ranks,
        "bandwidth": bandwidth,
        "latency": latency,
        "reduction_bandwidth": reduce_bandwidth,
        "two_racks_over_one": last["two racks"] / last["one rack"],
        "two_racks_over_one_predicted": _predicted(systems["two racks"], ranks, tokens[-1])
        / _predicted(systems["one rack"], ranks, tokens[-1]),
        "bytes_error": max(abs(p / m - 1) for p, m in zip(curves[0].predicted, curves[0].measured, strict=True)),
        "experts_are_right": all(row["right"] for rows in entries.values() for row in rows),
        "gradient_bytes": reductions["gradient_bytes"],
        "tensor_bytes": reductions["tensor_bytes"],
    }
    return Experiment(
        name="alltoall",
        title="expert parallelism over processes",
        machine=machine,
        curves=curves,
        facts=facts,
        findings=[
            f"{ranks} processes exchange {bandwidth / 1e9:.2f} GB/s each, {latency * 1e6:.0f} us for the smallest.",
            f"Bytes follow the formula within {facts['bytes_error']:.1%}: a token goes once to every other rank that "
            "holds one of its experts, one byte an element out and two back.",
            f"With the second network {ratio:g} times slower, two racks take {facts['two_racks_over_one']:.1f} times "
            f"as long as one ({facts['two_racks_over_one_predicted']:.1f} predicted).",
            f"A step's gradients are {reductions['gradient_bytes'] / 2**20:.0f} MiB once, whatever the batch; tensor "
            f"parallelism sums {reductions['tensor_bytes'][-1] / 2**20:.0f} MiB for {tokens[-1]} tokens.",
            *budget.notes(),
        ],
        ceilings={"bandwidth of an exchange": bandwidth, "latency of an exchange": latency},
        seconds=perf_counter() - start,
    )


def _sizes(tokens: Sequence[int], ranks: int, slowest: System, budget: TimeLimit) -> tuple[list[int], int]:
    """Tokens and repeats that end in time, by what two racks would take; the fewest tokens stay in any case."""
    sorted_tokens = sorted(tokens)
    # One rack takes no longer than two, and the reductions about as long: three times the slowest.
    lasting = [3 * _predicted(slowest, ranks, count) for count in sorted_tokens]
    room = budget.left
    selection = budget.fitting(sorted_tokens, lasting, room / _LEAST, "tokens")
    return selection, int(np.clip(room / sum(lasting[: len(selection)]), _LEAST, _REPEATS))


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Latency and bandwidth through two payloads, all of which is sent but a rank's own part."""
    (small, quick), (large, long) = points
    bandwidth = (large - small) / max(long - quick, 1e-9)
    return max(quick - small / bandwidth, 1e-7), bandwidth


def _line_of_reduction(points: Sequence[tuple[int, float]], ranks: int) -> tuple[float, float]:
    """The same for an all-reduce, which sends 2 (n - 1) / n of its payload."""
    latency, apparent = _line(points)
    return latency, apparent * 2 * (ranks - 1) / ranks


def _system(domain: int, bandwidth: float, latency: float, slow: float | None) -> System:
    """Processes as accelerators: a mesh inside a rack, and between racks the throttled network."""
    chip = Chip(
        name="process", vendor="", year=0, status="measured", memory_capacity=1.0, memory_bandwidth=1.0,
        rates=(("bf16", 1.0),),
    )  # fmt: skip
    return System(
        name="processes",
        chip=chip,
        domain=domain,
        fabric="mesh",
        default_gpus=domain,
        scale_up=Link(bandwidth=bandwidth, latency=latency),
        scale_out=None if slow is None else Link(bandwidth=slow, latency=latency),
    )


def sent_ranks(ranks: int) -> float:
    """Ranks that a token goes to in the mean, its own counted: that hold one of its experts. [ranks]"""
    per_rank = EXPERTS // ranks
    # Distinct experts are chosen, so a rank is missed with the chance that all lie elsewhere.
    miss_chance = np.prod([(EXPERTS - per_rank - i) / (EXPERTS - i) for i in range(CHOSEN)])
    return float(ranks * (1 - miss_chance))


def _predicted(system: System, ranks: int, tokens: int) -> float:
    """Dispatch and combine by the engine's formula. [s]"""
    size = tokens * HIDDEN * sent_ranks(ranks)
    return float(all_to_all(size * _OUT, float(ranks), system)) + float(all_to_all(size * _BACK, float(ranks), system))


def _slowest(answers: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A collective takes as long as its slowest rank; bytes are the mean."""
    rows: list[dict[str, Any]] = []
    for runs in zip(*answers, strict=True):
        longest = {
            part: max((run[part] for run in runs), key=lambda timing: timing.median) for part in ("dispatch", "combine")
        }
        rows.append(
            {"bytes": float(np.mean([run["bytes"] for run in runs])), "right": all(run["right"] for run in runs)}
            | longest
        )
    return rows


def _bytes_curve(rows: Sequence[dict[str, Any]], ranks: int, tokens: Sequence[int]) -> ExperimentCurve:
    return ExperimentCurve(
        panel="bytes that a rank sends in dispatch",
        name="counted",
        across="tokens of a rank",
        up="B",
        x=list(tokens),
        measured=[row["bytes"] for row in rows],
        predicted=[n * HIDDEN * _OUT * sent_ranks(ranks) * (ranks - 1) / ranks for n in tokens],
    )


def _time_curve(
    name: str, rows: Sequence[dict[str, Any]], system: System, ranks: int, tokens: Sequence[int]
) -> ExperimentCurve:
    def both(part: str) -> list[float]:
        return [getattr(row["dispatch"], part) + getattr(row["combine"], part) for row in rows]

    return ExperimentCurve(
        panel="dispatch and combine",
        name=name,
        across="tokens of a rank",
        up="s",
        x=list(tokens),
        measured=both("median"),
        low=both("low"),
        high=both("high"),
        predicted=[_predicted(system, ranks, n) for n in tokens],
    )


def _reduction_curves(
    facts: dict[str, Any], ranks: int, tokens: Sequence[int], system: System
) -> list[ExperimentCurve]:
    def curve(name: str, timings: Sequence[Timing], predicted: Sequence[float]) -> ExperimentCurve:
        return ExperimentCurve(
            panel="reductions of a step",
            name=name,
            across="tokens of a step",
            up="s",
            x=list(tokens),
            measured=[t.median for t in timings],
            low=[t.low for t in timings],
            high=[t.high for t in timings],
            predicted=list(predicted),
        )

    once = float(all_reduce(float(facts["gradient_bytes"]), float(ranks), system))
    times = [2 * LAYERS * float(all_reduce(n * HIDDEN * 4.0, float(ranks), system)) for n in tokens]
    return [
        curve("gradients, data parallel", [facts["data"]] * len(tokens), [once] * len(tokens)),
        curve("partial sums, tensor parallel", facts["tensor"], times),
    ]
