"""The machine's own ceilings as an experiment: what ``lab roofline`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import SIDE, Ceilings, Product, measure
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine


def experiment(machine: Machine, budget: TimeLimit, *, small: bool = False) -> tuple[Experiment, Ceilings]:
    """The ceilings as curves: what `lab roofline` shows."""
    start = perf_counter()
    ceilings = measure(machine, budget, small=small)
    facts: dict[str, object] = {
        "latency": ceilings.latency.median,
        "attention_bandwidth": ceilings.attention,
        **{f"rate_{name}": ceilings.rate(name) for name in ceilings.precisions},
        "bandwidth": ceilings.streams[-1].bandwidth,
        "fastest_stream": max(stream.bandwidth for stream in ceilings.streams),
        "ratio_bf16": ceilings.rate("bf16") / 2 / ceilings.streams[-1].bandwidth * 2,
    }
    return (
        Experiment(
            name="roofline",
            title="what this machine reaches",
            machine=machine,
            curves=_curves(ceilings),
            facts=facts,
            findings=[*findings(ceilings), *budget.notes()],
            ceilings=ceilings_of(ceilings),
            seconds=perf_counter() - start,
        ),
        ceilings,
    )


def ceilings_of(ceilings: Ceilings) -> dict[str, float]:
    """Rates, largest stream and latency, by name. SI."""
    return {
        **{f"{name} rate": ceilings.rate(name) for name in ceilings.precisions},
        "bandwidth of the largest stream": ceilings.streams[-1].bandwidth,
        "latency of an operation": ceilings.latency.median,
        "bandwidth of attention": ceilings.attention,
    }


def _curves(ceilings: Ceilings) -> list[ExperimentCurve]:
    curves: list[ExperimentCurve] = []
    for precision in ceilings.precisions:
        groups: Sequence[tuple[str, str, list[Product]]] = (
            ("square products", "side", [p for p in ceilings.products if p.rows == p.columns == p.inner]),
            (
                f"rows against a matrix of {SIDE}",
                "rows",
                [p for p in ceilings.products if p.columns == p.inner == SIDE != p.rows],
            ),
        )
        for panel, across, products in groups:
            of_precision = [product for product in products if product.precision == precision]
            if of_precision:
                curves.append(
                    ExperimentCurve(
                        panel=panel,
                        name=precision,
                        across=across,
                        up="FLOP/s",
                        x=[product.rows for product in of_precision],
                        measured=[product.rate for product in of_precision],
                        low=[product.low for product in of_precision],
                        high=[product.high for product in of_precision],
                    )
                )
    streams = ceilings.streams
    curves.append(
        ExperimentCurve(
            panel="reading again and again",
            name="sum of 32-bit numbers",
            across="bytes",
            up="B/s",
            x=[product.size for product in streams],
            measured=[product.bandwidth for product in streams],
            low=[product.low for product in streams],
            high=[product.high for product in streams],
        )
    )
    return curves


_CACHED = 1.1
"""Bandwidth over that of the largest stream from which a smaller one is taken to come from a cache."""


def findings(ceilings: Ceilings) -> list[str]:
    """What the ceilings of a machine say, in sentences."""
    last, best = ceilings.streams[-1], max(ceilings.streams, key=lambda stream: stream.bandwidth)
    ratio = ceilings.rate("bf16") / 2 / last.bandwidth * 2
    rates = ", ".join(f"{ceilings.rate(name) / 1e12:.3g} T at {name}" for name in ceilings.precisions)
    in_cache = ""
    if best.bandwidth > _CACHED * last.bandwidth:
        in_cache = f"; {best.size / 2**10:,.0f} KiB, in cache, at {best.bandwidth / 1e9:.3g} GB/s"
    return [
        f"Products reach {rates} FLOP/s.",
        f"Reading {last.size / 2**20:,.0f} MiB runs at {last.bandwidth / 1e9:.3g} GB/s{in_cache}.",
        f"The lecture's ratio R is {ratio:.0f} at bf16 here, about 300 on its accelerators.",
        f"The smallest operation takes {ceilings.latency.median * 1e6:.3g} us.",
    ]
