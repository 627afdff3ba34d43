"""The machine's own ceilings as an experiment: what ``lab roofline`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from rackmath.lab.budget import Budget
from rackmath.lab.ceilings import SIDE, Ceilings, Product, measure
from rackmath.lab.experiment import Curve, Experiment
from rackmath.lab.machine import Machine


def experiment(machine: Machine, budget: Budget, *, small: bool = False) -> tuple[Experiment, Ceilings]:
    """The ceilings as curves: what `lab roofline` shows."""
    started = perf_counter()
    found = measure(machine, budget, small=small)
    facts: dict[str, object] = {
        "latency": found.latency.median,
        "attention_bandwidth": found.attention,
        **{f"rate_{name}": found.rate(name) for name in found.precisions},
        "bandwidth": found.streams[-1].bandwidth,
        "fastest_stream": max(one.bandwidth for one in found.streams),
        "ratio_bf16": found.rate("bf16") / 2 / found.streams[-1].bandwidth * 2,
    }
    return (
        Experiment(
            name="roofline",
            title="what this machine reaches",
            machine=machine,
            curves=_curves(found),
            facts=facts,
            findings=[*_findings(found), *budget.notes()],
            ceilings=ceilings_of(found),
            seconds=perf_counter() - started,
        ),
        found,
    )


def ceilings_of(found: Ceilings) -> dict[str, float]:
    """Rates, largest stream and latency, by name. SI."""
    return {
        **{f"{name} rate": found.rate(name) for name in found.precisions},
        "bandwidth of the largest stream": found.streams[-1].bandwidth,
        "latency of an operation": found.latency.median,
        "bandwidth of attention": found.attention,
    }


def _curves(found: Ceilings) -> list[Curve]:
    curves: list[Curve] = []
    for precision in found.precisions:
        groups: Sequence[tuple[str, str, list[Product]]] = (
            ("square products", "side", [p for p in found.products if p.rows == p.columns == p.inner]),
            (
                f"rows against a matrix of {SIDE}",
                "rows",
                [p for p in found.products if p.columns == p.inner == SIDE != p.rows],
            ),
        )
        for panel, across, chosen in groups:
            mine = [one for one in chosen if one.precision == precision]
            if mine:
                curves.append(
                    Curve(
                        panel=panel,
                        name=precision,
                        across=across,
                        up="FLOP/s",
                        x=[one.rows for one in mine],
                        measured=[one.rate for one in mine],
                        low=[one.low for one in mine],
                        high=[one.high for one in mine],
                    )
                )
    streams = found.streams
    curves.append(
        Curve(
            panel="reading again and again",
            name="sum of 32-bit numbers",
            across="bytes",
            up="B/s",
            x=[one.size for one in streams],
            measured=[one.bandwidth for one in streams],
            low=[one.low for one in streams],
            high=[one.high for one in streams],
        )
    )
    return curves


def _findings(found: Ceilings) -> list[str]:
    last, best = found.streams[-1], max(found.streams, key=lambda one: one.bandwidth)
    ratio = found.rate("bf16") / 2 / last.bandwidth * 2
    rates = ", ".join(f"{found.rate(name) / 1e12:.3g} T at {name}" for name in found.precisions)
    return [
        f"Products reach {rates} FLOP/s.",
        f"Reading {last.size / 2**20:,.0f} MiB runs at {last.bandwidth / 1e9:.3g} GB/s; {best.size / 2**10:,.0f} KiB, "
        f"in cache, at {best.bandwidth / 1e9:.3g} GB/s.",
        f"The lecture's ratio R is {ratio:.0f} at bf16 here, about 300 on its accelerators.",
        f"The smallest operation takes {found.latency.median * 1e6:.3g} us.",
    ]
