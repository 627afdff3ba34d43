"""Cards of chapter 1: the roofline and the batch."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.lecture.solve import evaluate
from rackmath.models.counts import active_params, total_params, weight_bytes


def _sparsity(name: str) -> float:
    model = catalogue.model(name)
    return total_params(model) / active_params(model)


def _weights(name: str) -> float:
    return float(sum(weight_bytes(catalogue.model(name)).values()))


CARDS: tuple[Card, ...] = (
    Card(
        id="ratio-h200",
        chapter=1,
        question="An H200 does 1,979 TFLOP/s at 8 bit and reads 4.8 TB/s. What is its hardware ratio R?",
        value=lambda: evaluate("hardware-ratio", "R", F=1979e12, M=4.8e12, w=1),
        why="R = (F/2) w / M: half of the FLOP are multiply-adds, and a parameter is one byte.",
    ),
    Card(
        id="balance-gpt-oss",
        chapter=1,
        question="gpt-oss-120b stores 117 B parameters and multiplies 5.7 B of them. At which batch do weights and products "
        "take equal time on a machine with R = 295?",
        value=lambda: 295 * _sparsity("gpt-oss-120b"),
        unit="sequences",
        why="B* = R S, with S of stored over active parameters; the cache is left out.",
    ),
    Card(
        id="floor-70b",
        chapter=1,
        question="Llama 3.1 70B is stored in 141 GB at 16 bit. Which time per token can four H100 (3.35 TB/s each) not beat, "
        "whatever the batch?",
        value=lambda: _weights("llama-3.1-70b") / (4 * 3.35e12),
        unit="s",
        why="The latency floor: all weights are read once per pass, by all accelerators at the same time.",
    ),
    Card(
        id="context-of-equal-slopes",
        chapter=1,
        question="A model multiplies 70 B parameters and keeps 328 kB of cache per token. A machine does 495 T multiply-adds "
        "per second and reads 3.35 TB/s. Past which context is no batch bound by compute?",
        value=lambda: evaluate("balance-context", "L_star", N_active=70e9, M=3.35e12, C=495e12, kv=328e3),
        unit="tokens",
        why="L* = N_active M / (C kappa): there the cache's slope equals that of the products.",
    ),
    Card(
        id="cost-of-one",
        chapter=1,
        question="A step takes 20 ms at a batch of 64 on eight accelerators of 3.50 $ an hour each. What do a million tokens "
        "cost, in dollars?",
        value=lambda: evaluate("cost-per-token", "cost", t=0.02, B=64, price=8 * 3.5 / 3600) * 1e6,
        unit="$",
        why="c = t p / B: the step's time, times the price of all accelerators, over the tokens that it makes.",
    ),
    Card(
        id="cost-floor",
        chapter=1,
        question="A model of 37 B active parameters runs on a machine of 2.5e15 multiply-adds per second that costs 10.50 $ "
        "an hour. Below which cost per million tokens does no batch bring it, short contexts taken? In dollars.",
        value=lambda: (
            evaluate("cost-floor", "cost_floor", N_active=37e9, C=2.5e15, L=1, kv=1, M=8e12, price=10.5 / 3600) * 1e6
        ),
        unit="$",
        why="What nobody shares: each token's own multiplications, N_active / C seconds of the machine.",
    ),
    Card(
        id="why-flat",
        chapter=1,
        question="Why does a step of two sequences take as long as a step of one?",
        says=lambda: (
            "Both read all weights once, and reading is the longer part. The second sequence only adds "
            "multiplications, which were idle, and its own cache."
        ),
        why="Time is flat while what all sequences share takes the longest.",
    ),
    Card(
        id="why-floor-not-zero",
        chapter=1,
        question="Cost falls with the batch. Why is its floor not zero?",
        says=lambda: (
            "Weights are shared by the batch; a sequence's own multiplications and the reading of its own cache are "
            "not. From the balance batch on the step grows as fast as the batch."
        ),
        why="Dividing t by B leaves max(N_active / C, L kappa / M), which has no B in it.",
    ),
    Card(
        id="why-precision-cancels",
        chapter=1,
        question="Halve the bytes of every parameter. Why does the balance batch hardly move?",
        says=lambda: (
            "Weights are read in half the time, and the machine multiplies twice as many narrow numbers per second: "
            "R = (F/2) w / M keeps its value until a format gets more FLOP than its width explains."
        ),
        why="F is inversely proportional to w on most chips; GB300's 4-bit rate is the exception.",
    ),
    Card(
        id="sketch-time",
        chapter=1,
        question="Sketch the time of a step against the batch, with the line of the multiplications, the line of what is read, "
        "and what a step takes. Mark the balance batch.",
        draw=serving.batch_time,
        why="The memory line starts at the latency floor and rises with the caches; the compute line starts at nothing and is "
        "the steeper at short contexts; the step is the upper of the two.",
    ),
    Card(
        id="sketch-cost",
        chapter=1,
        question="Sketch the cost of a token against the batch, with what the weights cost, what the cache costs and what the "
        "multiplications cost apart.",
        draw=serving.batch_cost,
        why="Weights are a hyperbola, the other two are level: no batch amortises them.",
    ),
)
