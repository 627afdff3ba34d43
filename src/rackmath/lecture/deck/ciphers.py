"""Cards of chapter 14: ciphers and reversible networks."""

from __future__ import annotations

from math import sqrt

from rackmath.lecture import ciphers
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life
from rackmath.lecture.solve import evaluate
from rackmath.training.depth import memory_with_depth

CARDS: tuple[Card, ...] = (
    Card(
        id="reversible-step",
        chapter=14,
        question="The backward pass costs twice the forward pass. How many times as much does a step of a reversible network cost as one that keeps everything?",
        value=lambda: evaluate("reversible-compute", "ratio_rev", units_fwd=1, units_bwd=2),
        unit="times",
        within=0.02,
        why="One more forward pass: (2 + 2) / (1 + 2).",
    ),
    Card(
        id="reversible-step-cheap-backward",
        chapter=14,
        question="In fine-tuning with adapters backward costs as much as forward. And now?",
        value=lambda: evaluate("reversible-compute", "ratio_rev", units_fwd=1, units_bwd=1),
        unit="times",
        within=0.02,
        why="(2 + 1) / (1 + 1).",
    ),
    Card(
        id="memory-of-depth",
        chapter=14,
        question="A layer keeps 34 units of activations and its input is 2. How many units do 48 layers keep with a checkpoint at each layer?",
        value=lambda: memory_with_depth(34.0, 2.0, 48, "per block"),
        unit="units",
        why="48 inputs, and the inside of the layer that is being worked on.",
    ),
    Card(
        id="avalanche-limit",
        chapter=14,
        question="A good cipher: one bit of the input turns. Which part of the output bits turn?",
        value=lambda: ciphers.avalanche(16),
        why="Not all of them: an output in which everything turns hides as little as one in which nothing does.",
    ),
    Card(
        id="avalanche-of-two",
        chapter=14,
        question="Two rounds of Feistel's cipher on 64 bits. Which part of the bits turn with one bit of the input, on average?",
        value=lambda: ciphers.avalanche(2),
        within=0.15,
        why="Half of the first bits reach one half of the block; those of the second reach both.",
    ),
    Card(
        id="feistel-undone",
        chapter=14,
        question="(x, y) became (x, y + f(x)) with x = 9, f(9) = 1,000,003 and a result of (9, 1,000,045). What was y?",
        value=lambda: 1_000_045 - 1_000_003.0,
        within=0.001,
        why="Compute f(x) again and subtract; f is never inverted.",
    ),
    Card(
        id="least-with-checkpoints",
        chapter=14,
        question="100 layers keep 34 units of activations each and their input is 2. What is the least memory over all numbers of segments, by the formula?",
        value=lambda: 2 * sqrt(100 * 34 * 2),
        unit="units",
        why="2 sqrt(l a c), at sqrt(l a / c) segments: 41, not the textbook's 10.",
    ),
    Card(
        id="cipher-and-network",
        chapter=14,
        question="What do a block cipher and a network have in common?",
        says=lambda: (
            "Feistel's round: one half is changed by a function of the other, which can be undone whatever the function is. A cipher uses it to decrypt, a reversible network to rebuild activations."
        ),
        why="(x, y) -> (x, y + f(x)).",
    ),
    Card(
        id="cipher-against-network",
        chapter=14,
        question="What do a cipher and a network want of small changes?",
        says=lambda: (
            "A cipher wants one bit to turn half of all others; a network wants small changes for small changes. Differential cryptanalysis differentiates a cipher; an adversarial example is avalanche in a network."
        ),
        why="One makes derivatives large and random, the other keeps them small.",
    ),
    Card(
        id="cache-against-reversible",
        chapter=14,
        question="In which sense is a KV cache the opposite of a reversible network?",
        says=lambda: (
            "The cache pays memory to save compute, reversible layers pay compute to save memory; the ratio of the two on the machine says which is right."
        ),
        why="Both could recompute what they keep, or keep what they recompute.",
    ),
    Card(
        id="sketch-avalanche",
        chapter=14,
        question="Sketch the part of a cipher's output bits that turn with one bit of its input, against the number of rounds.",
        draw=life.rounds,
        why="A few per cent after one round, a quarter after two, one half from three on.",
    ),
)
