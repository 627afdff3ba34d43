"""Cards of chapter 2: batches that depart."""

from __future__ import annotations

from math import fsum

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.lecture.solve import evaluate
from rackmath.serving.trains import expected_waits

CARDS: tuple[Card, ...] = (
    Card(
        id="worst-wait",
        chapter=2,
        question="A pass starts every 25 ms and takes 25 ms. How long does the unluckiest request take, from its arrival to the end of its pass?",
        value=lambda: expected_waits(0.025).worst,
        unit="s",
        why="It just misses one departure, waits a period and rides for one.",
    ),
    Card(
        id="median-wait",
        chapter=2,
        question="The same timetable of 25 ms. How long does the median request take?",
        value=lambda: expected_waits(0.025).median,
        unit="s",
        why="The wait is uniform between 0 and a period: half a period at the median, and one period for the pass.",
    ),
    Card(
        id="drain-b300",
        chapter=2,
        question="A chip has 270 GB of memory and reads 8 TB/s. What is its natural period?",
        value=lambda: evaluate("drain-time", "t_drain", H=270e9, M=8e12),
        unit="s",
        why="In one pass no byte has to be read twice, so a pass reads at most the whole memory: H / M.",
    ),
    Card(
        id="static-batch",
        chapter=2,
        question="Answers have exponential lengths. A batch of 32 is run until its longest answer ends. Which part of its places is in use, on average?",
        value=lambda: 1 / fsum(1 / i for i in range(1, 33)),
        why="The longest of B exponentials is the harmonic sum 1 + 1/2 + ... + 1/B times their mean.",
    ),
    Card(
        id="tokens-of-a-full-machine",
        chapter=2,
        question="141 GB of memory at 4.8 TB/s, 70 GB of weights, conversations of 4,000 tokens of 164 kB each. How many tokens per second does a full machine write, at the bound?",
        value=lambda: 4.8e12 / (4000 * 164e3) * (1 - 70e9 / 141e9),
        unit="tokens/s",
        why="X = M / (L kappa) times the part of the memory that the weights leave free: what fits, once per drain time.",
    ),
    Card(
        id="unequal-passes",
        chapter=2,
        question="After every four passes of 25 ms comes one of 100 ms. How long does an arrival wait for the end of the pass that it meets, on average?",
        value=lambda: (4 * 0.025**2 + 0.100**2) / (2 * (4 * 0.025 + 0.100)),
        unit="s",
        why="E[t^2] / (2 E[t]): an arrival meets long passes more often, in proportion to their length.",
    ),
    Card(
        id="why-drain-is-steady",
        chapter=2,
        question="Capacity and bandwidth of accelerators grew tenfold. Why did the time to read all memory hardly change?",
        says=lambda: (
            "Memory is sold in stacks that each bring capacity and bandwidth; more or newer stacks give more of both."
        ),
        why="H / M is a property of a stack, not of how many there are.",
    ),
    Card(
        id="why-rate-does-not-matter",
        chapter=2,
        question="Why does the rate of arrivals not appear in the wait for a departure?",
        says=lambda: (
            "All who wait find a place in the next batch, whether ten or ten thousand; only the period counts, until memory is full."
        ),
        why="A timetable has no queue as long as a batch can hold everybody.",
    ),
    Card(
        id="why-pieces-shorten-waits",
        chapter=2,
        question="A prompt that is read in ten pieces takes as long as before. Why do others wait less?",
        says=lambda: (
            "The wait grows with the square of a pass's length: a long pass is met by more arrivals, and each of them waits longer."
        ),
        why="Ten passes that are a little longer have a smaller sum of squares than one that is ten times as long.",
    ),
    Card(
        id="sketch-drain",
        chapter=2,
        question="Draw a bar for the time in which A100, H100, H200, B200, GB300, Rubin, a TPU v7 and an RTX 4090 read all of their memory.",
        draw=serving.departures,
        why="Between 13 ms and 40 ms for all of them.",
    ),
)
