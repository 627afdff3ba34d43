"""Cards of chapter 5: collectives."""

from __future__ import annotations

from math import sqrt

from rackmath.engine.collectives import all_reduce
from rackmath.io import catalogue
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving

CARDS: tuple[Card, ...] = (
    Card(
        id="ring-all-reduce",
        chapter=5,
        question="Eight ranks sum 100 MB in a ring over links of 450 GB/s in each direction. How long is the wire busy?",
        value=lambda: 2 * 7 / 8 * 100e6 / 450e9,
        unit="s",
        why="Reduce-scatter and all-gather: 2 (n-1)/n S over the bandwidth of one direction.",
    ),
    Card(
        id="switch-all-reduce",
        chapter=5,
        question="The same sum, added inside the switch. How long?",
        value=lambda: 9 / 8 * 100e6 / 450e9,
        unit="s",
        why="(n+1)/n S: each rank's bytes go up once and the sum comes down.",
    ),
    Card(
        id="bytes-of-a-reduction",
        chapter=5,
        question="A model has hidden vectors of 5,120 numbers at 16 bit. How large is one all-reduce of a decode step of 128 sequences?",
        value=lambda: 128 * 5120 * 2.0,
        unit="B",
        why="One vector for each sequence.",
    ),
    Card(
        id="latency-of-tensor-parallelism",
        chapter=5,
        question="64 layers, two all-reduces in each, 6 microseconds of latency. How much latency does tensor parallelism add to a decode step?",
        value=lambda: 64 * 2 * 6e-6,
        unit="s",
        why="They follow each other, and nothing can begin before the sum is there.",
    ),
    Card(
        id="pieces",
        chapter=5,
        question="A message takes 40 microseconds on the wire and 10 of latency. How long does it take in the best number of pieces over two hops?",
        value=lambda: (sqrt(40e-6) + sqrt(10e-6)) ** 2,
        unit="s",
        why="w + l + 2 sqrt(w l), the least of (m + 1)(l + w/m).",
    ),
    Card(
        id="two-boxes",
        chapter=5,
        question="By how much does the bound of a 67 MB all-reduce grow from 8 H100 to 16 in two boxes? As a factor.",
        value=lambda: float(
            all_reduce(67e6, 16.0, catalogue.system("h100-sxm")) / all_reduce(67e6, 8.0, catalogue.system("h100-sxm"))
        ),
        why="The slow network carries an eighth of the bytes on each of eight cards: about as long again as the fast one.",
    ),
    Card(
        id="rounds-of-a-ring",
        chapter=5,
        question="32 ranks sum in a ring, and a round has a latency of 2 microseconds. How much latency has the whole sum?",
        value=lambda: 2 * (32 - 1) * 2e-6,
        unit="s",
        why="2 (n - 1) rounds: n - 1 to reduce and n - 1 to gather. Two trees take 2 log2 n, here ten.",
    ),
    Card(
        id="why-not-eight-times",
        chapter=5,
        question="Why is a model on eight accelerators never eight times as fast?",
        says=lambda: (
            "What is read and multiplied is divided by eight; the latency of two sums in each layer is not, and grows with the ranks."
        ),
        why="Amdahl's law, with exchanges as the serial part.",
    ),
    Card(
        id="why-decode-cannot-hide",
        chapter=5,
        question="Training hides most of its exchanges. Why does decode not?",
        says=lambda: (
            "The next layer of the same tokens needs the sum; there is no other work unless the batch is split in two, and then the weights are read twice."
        ),
        why="Gradients of one layer can travel while the backward pass works on the next.",
    ),
    Card(
        id="sketch-all-reduce",
        chapter=5,
        question="Sketch the time of an all-reduce against its bytes for 2 and 8 H100, for 16 in two boxes and for 72 GB200, on logarithmic axes. Where does a decode step lie, where a prompt?",
        draw=serving.collectives,
        why="Level up to some hundred kilobytes, then in proportion: decode on the left, prompts on the right.",
    ),
)
