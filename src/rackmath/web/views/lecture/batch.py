"""Chapter 1: time and cost of a token against the batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.lecture.curves import curve
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import active_params, total_params, weight_bytes
from rackmath.units import show
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import MODELS, POINTS, SYSTEMS

_HOUR = 3600.0
_LECTURE = {"N_active": 100e9, "N_total": 800e9, "w": 1.0, "L": 100_000.0, "kv": 1670.0, "C": 7.2e16, "M": 2.4e14}
"""A model of 100 B active parameters, sparsity 8, on a rack with R = 300: the numbers that the lecture puts in."""
_LECTURE_PRICE = 72 * 3.5 / _HOUR


class BatchInputs(Inputs):
    """Chapter 1."""

    active: float = slider(37.0, 0.1, 2000, "active parameters", unit="B")
    total: float = slider(671.0, 0.1, 20_000, "stored parameters", unit="B")
    stored: float = slider(1.0, 0.25, 4, "bytes per parameter", unit="B", log=False)
    kv: float = slider(35_136.0, 100, 5e6, "cache per token", unit="B")
    context: float = slider(8192.0, 128, 1e7, "context", unit="tokens")
    flops: float = slider(360.0, 0.1, 20_000, "FLOP per second", unit="PFLOP/s")
    bandwidth: float = slider(576.0, 0.1, 20_000, "memory bandwidth", unit="TB/s")
    price: float = slider(252.0, 0.1, 20_000, "price of the system", unit="$/h")


def batch(i: BatchInputs) -> PageContent:
    """Time and cost of a token against the batch."""
    own_values = {
        "N_active": i.active * 1e9,
        "N_total": i.total * 1e9,
        "w": i.stored,
        "L": i.context,
        "kv": i.kv,
        "C": i.flops * 1e15 / 2,
        "M": i.bandwidth * 1e12,
    }
    across = np.geomspace(1, 100_000, POINTS)
    names = ("N_total", "w", "L", "kv", "M")
    time = curve("step-time", B=across, **own_values)
    compute = curve("compute-time", B=across, N_active=own_values["N_active"], C=own_values["C"])
    memory = curve("memory-time", B=across, **{name: own_values[name] for name in names})
    sparsity = float(curve("sparsity", N_total=own_values["N_total"], N_active=own_values["N_active"]))
    ratio = float(curve("hardware-ratio", F=i.flops * 1e15, M=own_values["M"], w=i.stored))
    l_star = float(
        curve("balance-context", N_active=own_values["N_active"], M=own_values["M"], C=own_values["C"], kv=i.kv)
    )
    floor = float(curve("latency-floor", N_total=own_values["N_total"], w=i.stored, M=own_values["M"]))
    slope = {name: own_values[name] for name in ("N_active", "C", "L", "kv", "M")}
    balance = float(curve("balance-batch-context", N_total=own_values["N_total"], w=i.stored, **slope))
    cheapest = float(curve("cost-floor", price=i.price / _HOUR, **slope)) * 1e6
    pairs = [
        ("hardware ratio R", f"{ratio:,.0f}"),
        ("sparsity S", f"{sparsity:.3g}"),
        ("balance batch R S, cache neglected", f"{float(curve('balance-batch', R=ratio, S=sparsity)):,.0f}"),
        (
            "balance batch with the cache",
            f"{balance:,.0f}" if balance > 0 else "none: the cache's slope is the steeper",
        ),
        ("context of equal slopes L*", f"{l_star:,.0f} tokens"),
        ("latency floor", show(floor, "s")),
        ("cost that no batch amortises", f"{cheapest:.3g} $ per million tokens"),
    ]
    return PageContent(
        figures=drawn(_figure(i, across, time, compute, memory)),
        pairs=pairs,
        facts=to_plain(
            {"hardware_ratio": ratio, "sparsity": sparsity, "balance_context": l_star, "latency_floor": floor}
        ),
        command="rackmath lecture solve step-time --for t "
        + " ".join(f"{name}={value:g}" for name, value in {"B": 64, **own_values}.items()),
        notes=["a bound: everything overlaps; for what engines reach see Estimate"],
    )


def _figure(i: BatchInputs, across: Any, time: Any, compute: Any, memory: Any) -> Figure:
    """Both graphs, beside the lecture's."""
    theirs = curve("step-time", B=across, **_LECTURE)

    def cost(times: Any, price: float) -> list[float]:
        return list(curve("cost-per-token", t=times, B=across, price=price) * 1e6)

    return Figure(
        title="",
        panels=[
            Panel(
                title="time of a step",
                across="sequences in the batch",
                up="ms",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="compute alone", x=list(across), y=list(compute * 1e3), colour=2),
                    Series(name="memory alone", x=list(across), y=list(memory * 1e3), colour=3),
                    Series(name="the lecture's", x=list(across), y=list(theirs * 1e3), colour=1),
                    Series(name="yours", x=list(across), y=list(time * 1e3), colour=0),
                ],
            ),
            Panel(
                title="cost of a token",
                across="sequences in the batch",
                up="$ per million tokens",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="yours", x=list(across), y=cost(time, i.price / _HOUR)),
                    Series(name="the lecture's", x=list(across), y=cost(theirs, _LECTURE_PRICE)),
                ],
            ),
        ],
    )


@lru_cache(maxsize=1)
def presets() -> dict[str, dict[str, float]]:
    """Models and systems of the catalogue in the fields of chapter 1."""
    choices: dict[str, dict[str, float]] = {
        "the lecture's model and rack": {
            "active": 100,
            "total": 800,
            "stored": 1,
            "kv": 1670,
            "context": 100_000,
            "flops": 144,
            "bandwidth": 240,
            "price": 252,
        }
    }
    for name in MODELS:
        a = catalogue.model(name)
        total = float(total_params(a))
        choices[f"model: {name}"] = {
            "active": float(active_params(a)) / 1e9,
            "total": total / 1e9,
            "stored": sum(weight_bytes(a).values()) / total,
            "kv": float(cache_bytes(a, 1e5)) / 1e5,
        }
    for name in SYSTEMS:
        s = catalogue.system(name)
        price = catalogue.price_of(s, None)
        choices[f"system: {name} x {s.default_gpus}"] = {
            "flops": s.chip.rate("fp8") * s.default_gpus / 1e15,
            "bandwidth": s.chip.memory_bandwidth * s.default_gpus / 1e12,
            **({} if price is None else {"price": price * _HOUR * s.default_gpus}),
        }
    return choices


def view() -> View:
    """The form and its pictures."""
    return View(
        name="batch",
        title="Time and cost against the batch",
        about="Chapter 1's two graphs.",
        inputs=BatchInputs,
        answer=batch,
        presets=presets(),
    )
