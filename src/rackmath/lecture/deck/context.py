"""Cards of chapter 3: context."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.lecture import real
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.lecture.solve import evaluate
from rackmath.models.cache import cache_bytes, kv_bytes_per_token

CARDS: tuple[Card, ...] = (
    Card(
        id="cache-of-a-token",
        chapter=3,
        question="32 layers, 8 key-value heads of width 128, 16 bit. How many bytes does a token keep?",
        value=lambda: evaluate("kv-heads", "kv", heads_kv=8, d_head=128, layers_kv=32, w_kv=2),
        unit="B",
        why="Keys and values: 2 g d l w.",
    ),
    Card(
        id="latent-of-a-token",
        chapter=3,
        question="DeepSeek-V3 keeps 512 + 64 numbers in each of 61 layers. How many bytes per token at 8 bit?",
        value=lambda: 576 * 61.0,
        unit="B",
        why="One latent for all heads, not keys and values: there is no factor of two.",
    ),
    Card(
        id="window-of-gemma",
        chapter=3,
        question="Which cache does a conversation of 100,000 tokens with Gemma 3 27B keep at 16 bit? Five layers of six look back 1,024 tokens.",
        value=lambda: float(cache_bytes(catalogue.model("gemma-3-27b"), 100_000.0)),
        unit="B",
        why="Ten of 62 layers keep all of it, 81,920 bytes a token; the others keep their window.",
    ),
    Card(
        id="full-price-doubles",
        chapter=3,
        question="A machine is full of conversations of 10,000 tokens. They grow to 30,000. By which factor does the cost of a token rise?",
        value=lambda: 30_000 / 10_000,
        why="On a full machine the cost is proportional to the context: a third as many sequences share the weights, and each reads three times the cache.",
    ),
    Card(
        id="attention-crossover-70b",
        chapter=3,
        question="Llama 3.1 70B: 64 query heads of width 128 in 80 layers, and 69.5 B parameters that a token is multiplied by. At which context does attention multiply as much as the weights?",
        value=lambda: real.crossover("llama-3.1-70b"),
        unit="tokens",
        why="alpha = 4 h d l FLOP for each token of context against 2 N: query heads count, not key-value heads.",
    ),
    Card(
        id="speed-at-a-million",
        chapter=3,
        question="A cache of 70 kB per token and a machine of 38.4 TB/s. How long does it take to read a conversation of a million tokens once?",
        value=lambda: 1e6 * kv_bytes_per_token(catalogue.model("deepseek-v3")) / 38.4e12,
        unit="s",
        why="L kappa / M for each token that is written, whatever the batch.",
    ),
    Card(
        id="shared-prefix",
        chapter=3,
        question="64 sequences of 10,000 tokens share their first 8,000. How many times less memory do their caches take if the prefix is stored once?",
        value=lambda: 64 * 10_000 / (8_000 + 64 * 2_000),
        unit="times",
        why="S + B (L - S) in place of B L; it can never exceed L / (L - S), here five.",
    ),
    Card(
        id="why-heads-save-no-flop",
        chapter=3,
        question="Grouped attention shares keys and values among eight query heads. Why does attention not multiply less?",
        says=lambda: "Every query head still meets every key and every value; only what is stored and read is shared.",
        why="FLOPs count query heads, bytes count key-value heads.",
    ),
    Card(
        id="why-latent-on-h20",
        chapter=3,
        question="Why can decoding with DeepSeek's latent be bound by compute on an H200, when decoding with grouped attention never is?",
        says=lambda: (
            f"All 128 heads share the same numbers: {2 * (128 + 128 * 512 / 576) / 2:.0f} FLOP for each byte at 16 bit, against "
            f"{989 / 4.8:.0f} FLOP that an H200 does in the time of a byte. Grouped attention has 8 or so."
        ),
        why="Arithmetic intensity of attention is the number of query heads that share a cached number.",
    ),
    Card(
        id="why-sparse-is-linear",
        chapter=3,
        question="Sparse attention lets a query meet 2,048 tokens of any context. Why does its traffic still grow with the context?",
        says=lambda: (
            "The indexer that chooses them reads a key of its own for every token: 132 bytes a layer in place of 1,152."
        ),
        why="A constant became smaller; the law did not change.",
    ),
    Card(
        id="sketch-context",
        chapter=3,
        question="Sketch the cache of one conversation against its length for grouped attention, for a latent, for windows in five layers of six, and for a state in three of four, all on logarithmic axes.",
        draw=serving.context,
        why="Parallel lines, but for windows and states, which begin level and then turn into lines.",
    ),
)
