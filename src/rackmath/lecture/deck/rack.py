"""Cards of chapter 4: a mixture of experts on a rack."""

from __future__ import annotations

from math import sqrt

from rackmath.engine.collectives import distinct_ranks
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.lecture.solve import evaluate

CARDS: tuple[Card, ...] = (
    Card(
        id="experts-touched",
        chapter=4,
        question="A layer has 128 experts, 4 for each token. How many distinct ones does a batch of 32 touch on average?",
        value=lambda: evaluate("experts-touched", "D_touched", E=128, k=4, B=32),
        unit="experts",
        why="E (1 - (1 - k/E)^B): an expert is missed by all of them with chance (1 - k/E)^B.",
    ),
    Card(
        id="experts-on-48",
        chapter=4,
        question="160 experts are dealt to 48 accelerators. How many does the fullest hold?",
        value=lambda: float(-(-160 // 48)),
        unit="experts",
        within=0.01,
        why="The next whole number above 160/48: the step ends with the fullest.",
    ),
    Card(
        id="three-racks",
        chapter=4,
        question="A layer is spread over three racks; the network between them is nine times slower than inside. How many times longer is the all-to-all than inside one rack?",
        value=lambda: evaluate("two-racks", "slowdown", n=3, r=9),
        why="Two thirds of the tokens leave, nine times slower.",
    ),
    Card(
        id="ranks-of-a-token",
        chapter=4,
        question="256 experts on 16 ranks, 8 for each token. On how many distinct ranks do they sit, on average?",
        value=lambda: float(distinct_ranks(256, 8, 16.0)),
        unit="ranks",
        why="A rank is missed with chance C(240, 8) / C(256, 8).",
    ),
    Card(
        id="dispatch-bytes",
        chapter=4,
        question="A vector of 7,168 numbers is sent at 8 bit with a scale of 4 bytes for each 128 numbers, to 7.68 ranks. How many bytes leave for one token in one layer?",
        value=lambda: 7168 * (1 + 4 / 128) * 7.68,
        unit="B",
        why="Once for each distinct rank; the scales add three per cent.",
    ),
    Card(
        id="latency-of-exchanges",
        chapter=4,
        question="58 layers of experts, two exchanges in each, 5 microseconds of latency an exchange. How much time does a token spend in latency alone?",
        value=lambda: 58 * 2 * 5e-6,
        unit="s",
        why="They follow each other; at small batches the bytes are nothing beside it.",
    ),
    Card(
        id="chance-imbalance",
        chapter=4,
        question="512 tokens choose 8 of 256 experts each at random; 64 accelerators hold four experts each. By which part of its mean does the load of an accelerator scatter (one standard deviation)?",
        value=lambda: sqrt(512 * 8 * (4 / 256) * (252 / 256) * (248 / 255)) / (512 * 8 / 64),
        why="The mean is 64 and the deviation about its root: an eighth, without any popular expert.",
    ),
    Card(
        id="why-total-is-bounded-by-the-domain",
        chapter=4,
        question="Why are total parameters bounded by the scale-up domain, and active parameters not?",
        says=lambda: (
            "All experts must be reached at full speed by every token, so they must lie in one domain's memory; active parameters cost multiplications, which money buys anywhere."
        ),
        why="Over two racks half of the tokens leave, over a network eight times slower.",
    ),
    Card(
        id="what-limits-a-domain",
        chapter=4,
        question="What keeps a scale-up domain from being ten times as large?",
        says=lambda: (
            "Ports of a switch chip, then wires: pairs of copper grow with accelerators times bandwidth and reach no further than a rack; then power, cooling and weight."
        ),
        why=f"A GB200 rack has {round(2 * 900e9 * 8 / 200e9 * 72):,} pairs in its spine.",
    ),
    Card(
        id="sketch-experts",
        chapter=4,
        question="Sketch the distinct experts that a batch touches (256 experts, 8 for each token), from batch 1 to 4,096; beside it, the time of an all-to-all over one to eight racks.",
        draw=serving.rack,
        why="The first starts at 8 and is full at a few hundred; the second jumps at two racks and then flattens towards r.",
    ),
)
