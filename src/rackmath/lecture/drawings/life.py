"""Figures of chapters 10 to 15: training, prices, tiers, agents, ciphers, errors."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from rackmath.caching.sessions import Session, turns
from rackmath.caching.tiers import tier_costs
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.lecture import ciphers
from rackmath.lecture.drawings.lines import POINTS, line
from rackmath.training.budget import Life, budget
from rackmath.training.scaling_laws import law

_HOUR = 3600.0
_SHOWN = np.log10(1.1)
"""Claims nearer than a tenth are not drawn."""


def training() -> Figure:
    """Cost of a model's life at one loss, against how far it is over-trained."""
    scaling_law, loss, life = law("besiroglu"), 2.0, Life(answer_tokens=1e13)
    sizes = np.geomspace(1.2e10, 1.5e11, POINTS)
    lives = [budget(scaling_law, float(n), scaling_law.tokens_for(float(n), loss), life) for n in sizes]
    across = np.array([b.overtraining for b in lives])
    return Figure(
        title="One loss (2.0), ten trillion tokens served",
        panels=[
            Panel(
                across="tokens over those of the compute optimum",
                up="FLOP",
                log_across=True,
                log_up=True,
                series=[
                    line("pre-training", across, np.array([b.cost_pretrain for b in lives]), 2),
                    line("inference", across, np.array([b.cost_inference for b in lives]), 3),
                    line("both", across, np.array([b.total for b in lives]), 0),
                ],
            )
        ],
    )


def prices() -> Figure:
    """Time of a token of a long pass against context: where a cliff would stand."""
    across = np.geomspace(1_000, 1_000_000, POINTS)
    active, ratio = 100e9, 300.0
    compute = np.full_like(across, active)
    return Figure(
        title="100 B active parameters, R = 300",
        panels=[
            Panel(
                across="tokens of context",
                up="time of a prompt token, in multiply-adds",
                log_across=True,
                log_up=True,
                series=[
                    line("multiplications", across, compute, 5),
                    *(
                        line(f"cache of {kv:,.0f} bytes a token", across, across * kv * ratio)
                        for kv in (500, 1667, 70_272)
                    ),
                ],
            )
        ],
    )


def tiers() -> Figure:
    """Cost of a token's cache that waits, by tier."""
    system = catalogue.system("h200-sxm")
    costs = tier_costs(system, catalogue.tiers().values(), kv_bytes=163_840.0, prefill_time=3.7e-4, price=3.5 / _HOUR)
    across = np.geomspace(1e-2, 1e7, POINTS)
    return Figure(
        title="Llama 3.1 70B on H200: one use of a token's cache",
        panels=[
            Panel(
                across="seconds that it waits",
                up="$ per million tokens",
                log_across=True,
                log_up=True,
                series=[line(c.name, across, np.maximum((c.retrieve + c.hold * across) * 1e6, 1e-6)) for c in costs],
            )
        ],
    )


def agents() -> Figure:
    """Tokens that each call of an agent reads, with and without a cache."""
    calls = turns(Session(turns=40, instructions=8000, turn_tokens=1500, output=600, think_time=20, keep=300))
    number = np.arange(1, len(calls.prompt) + 1)
    fresh = calls.prompt - calls.hit * calls.prefix
    return Figure(
        title="Forty turns of an agent",
        panels=[
            Panel(
                across="call",
                up="tokens computed",
                series=[
                    line("without a cache", number, np.cumsum(calls.prompt), 1),
                    line("with a cache of five minutes", number, np.cumsum(fresh), 0),
                ],
            )
        ],
    )


def rounds() -> Figure:
    """Bits of a cipher's output that turn with one bit of its input."""
    across = np.arange(1, 13)
    return Figure(
        title="Avalanche of a Feistel cipher",
        panels=[
            Panel(
                across="rounds",
                up="part of the output bits that turn",
                series=[
                    Series(
                        name="one bit of the input turned",
                        x=across.tolist(),
                        y=[ciphers.avalanche(int(n)) for n in across],
                    )
                ],
            )
        ],
    )


def errors() -> Figure:
    """Predicted over measured, each without its model on its chip, as shares of rows."""
    text = (files("rackmath") / "data" / "accuracy.csv").read_text(encoding="utf-8")
    lines = [row for row in text.splitlines() if not row.startswith("#")]
    ratios: dict[str, list[float]] = {}
    for row in csv.DictReader(lines):
        ratios.setdefault(row["class"], []).append(float(row["predicted"]) / float(row["measured"]))
    classes = sorted((name for name in ratios), key=lambda name: -len(ratios[name]))[:4]
    levels = np.linspace(0.03, 0.97, 95)
    return Figure(
        title="Predicted over measured, by kind of row",
        panels=[
            Panel(
                across="predicted over measured",
                up="part of the rows below",
                series=[line(name, np.quantile(ratios[name], levels), levels) for name in classes],
            )
        ],
    )


def ledger() -> Figure:
    """How far real values are from what the lecture said, claim by claim."""
    from rackmath.lecture.claims import claims, off

    ratios = {c.id: ratio for c in claims() if (ratio := off(c)) is not None and abs(np.log10(ratio)) > _SHOWN}
    names = sorted(ratios, key=lambda name: -ratios[name])
    return Figure(
        title="Claims that are more than a tenth off",
        panels=[
            Panel(
                across="",
                up="powers of ten",
                title="real over said, at the worse end of a range, in powers of ten",
                series=[Series(name="", x=names, y=[float(np.log10(ratios[n])) for n in names], kind="horizontal")],
            )
        ],
    )
