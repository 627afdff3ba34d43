"""Cards of chapter 11: prices."""

from __future__ import annotations

from rackmath.lecture import real
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life
from rackmath.lecture.solve import evaluate

CARDS: tuple[Card, ...] = (
    Card(
        id="cliff",
        chapter=11,
        question="If a price stepped where reading the cache overtakes the multiplications: 60 B active parameters at one byte, R = 300, a step at 128,000 tokens. How many bytes of cache per token?",
        value=lambda: evaluate("context-cliff", "kv", N_active=60e9, R=300, w=1, L=128_000),
        unit="B",
        why="N w / (R L).",
    ),
    Card(
        id="one-layer-of-cache",
        chapter=11,
        question="Eight key-value heads of width 128 in one layer at 8 bit. How many bytes per token?",
        value=lambda: evaluate("kv-heads", "kv", heads_kv=8, d_head=128, layers_kv=1, w_kv=1),
        unit="B",
        why="2 g d l w: what the lecture finds behind a step at 200,000 tokens.",
    ),
    Card(
        id="input-cost",
        chapter=11,
        question="A prompt of a model with 37 B active parameters is read at 60 % of 2.5e15 multiply-adds per second on a machine of 10.50 $ an hour. What do a million prompt tokens cost, attention aside? In dollars.",
        value=lambda: 37e9 / (0.6 * 2.5e15) * 10.5 / 3600 * 1e6,
        unit="$",
        why="N / (a C) seconds of the machine for each token.",
    ),
    Card(
        id="bill",
        chapter=11,
        question="Input 3 $, cached input 0.30 $, output 15 $ per million tokens. A request of 20,000 tokens, 18,000 of them cached, writes 500. What does it cost, in dollars?",
        value=lambda: (2000 * 3 + 18_000 * 0.3 + 500 * 15) / 1e6,
        unit="$",
        why="Each kind of token at its price.",
    ),
    Card(
        id="cliff-of-qwen",
        chapter=11,
        question="Qwen3-Coder-480B's price steps at 32,000 tokens. How many times larger is its true cache than the step would imply?",
        value=lambda: real.cliff_error("qwen3-coder-480b", 32_000),
        unit="times",
        within=0.15,
        why="A step is a decision before it is a measurement.",
    ),
    Card(
        id="fall-in-four-years",
        chapter=11,
        question="The price of a capability falls to a third each year. By which factor in four years?",
        value=lambda: 3.0**4,
        unit="times",
        why="Powers, not sums.",
    ),
    Card(
        id="floor-from-a-price",
        chapter=11,
        question="A fast mode on the same machine is twice as fast at four times the price, with the same margin. At how many times its floor does the normal tier run?",
        value=lambda: (4 * 2 - 1) / (4 - 1),
        unit="times",
        why="r = (tau - 1) / (tau - k), solved for tau.",
    ),
    Card(
        id="discount-for-waiting",
        chapter=11,
        question="A fleet is half busy and sells all the rest at half price. By which part does its revenue rise?",
        value=lambda: (1 - 0.5) * (1 - 0.5) / 0.5,
        why="(1 - rho)(1 - d) / rho; it costs electricity.",
    ),
    Card(
        id="why-output-is-dearer",
        chapter=11,
        question="Why does a token that is written cost more than one that is read?",
        says=lambda: (
            "A prompt's tokens share the reading of the weights within one pass and are bound by compute; a written token has a pass to itself, shared only with other users' tokens."
        ),
        why="The ratio of costs depends on the batch; the printed ratio is a convention.",
    ),
    Card(
        id="why-batch-is-half",
        chapter=11,
        question="Batch tiers cost half. Why is it not the larger batch that pays for it?",
        says=lambda: (
            "Past the balance batch nothing is left to amortise. What pays is capacity that is bought for the peak and idle at night."
        ),
        why="Work that can wait costs little more than electricity.",
    ),
    Card(
        id="what-prices-cannot-tell",
        chapter=11,
        question="What of a model can a price page not tell?",
        says=lambda: (
            "The cache per token, and margin, utilisation and rent apart: only their product appears. Active parameters come out within a factor of four, nine times in ten."
        ),
        why="The input price is proportional to active parameters times that product.",
    ),
    Card(
        id="sketch-cliff",
        chapter=11,
        question="Sketch the time of one prompt token against context: its multiplications, and its cache at 500, 1,667 and 70,272 bytes per token. Where would a step stand?",
        draw=life.prices,
        why="Where a rising line meets the level one: 667 k, 200 k and 5 k tokens.",
    ),
)
