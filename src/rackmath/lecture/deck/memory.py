"""Cards of chapter 7: memory and capacity."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.counts import total_params, weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise

CARDS: tuple[Card, ...] = (
    Card(
        id="gib",
        chapter=7,
        question="A log says 16.4 GiB. How many GB (of 10^9 bytes) are that? Answer in bytes.",
        value=lambda: 16.4 * 2**30,
        unit="B",
        within=0.01,
        why="A GiB is 2^30 bytes, 7.4 % more than a GB.",
    ),
    Card(
        id="scales-of-nvfp4",
        chapter=7,
        question="NVFP4 stores 4 bits for each number and one byte of scale for 16 numbers. How many bits is that for each?",
        value=lambda: 4 + 8 / 16,
        unit="bits",
        within=0.01,
        why="The scale adds half a bit.",
    ),
    Card(
        id="bits-of-an-8-bit-8b",
        chapter=7,
        question="Llama 3.1 8B at 8 bit keeps embeddings and head at 16 bit, 13 % of its parameters. How many bits has a parameter on average?",
        value=lambda: (
            8
            * sum(weight_bytes(requantise(catalogue.model("llama-3.1-8b"), weights=weight_format("fp8"))).values())
            / total_params(catalogue.model("llama-3.1-8b"))
        ),
        unit="bits",
        within=0.02,
        why="0.87 x 8 + 0.13 x 16.",
    ),
    Card(
        id="conversations",
        chapter=7,
        question="58 GB are left for caches of 131 kB per token. How many conversations of 8,000 tokens fit?",
        value=lambda: 58e9 // (8000 * kv_bytes_per_token(catalogue.model("llama-3.1-8b"))),
        unit="conversations",
        why="Bytes over bytes; blocks of 16 tokens lose half a block each, which is nothing here.",
    ),
    Card(
        id="logits",
        chapter=7,
        question="1,024 sequences are sampled from 128,256 words at 32 bit. How large are the logits?",
        value=lambda: 1024 * 128_256 * 4.0,
        unit="B",
        why="One number for each word and sequence; sorting makes copies.",
    ),
    Card(
        id="adapter",
        chapter=7,
        question="A low-rank adapter of rank 16 on a matrix of 4,096 by 14,336, at 16 bit. How many bytes?",
        value=lambda: 16 * (4096 + 14_336) * 2.0,
        unit="B",
        why="r (d_in + d_out) parameters.",
    ),
    Card(
        id="heads-on-16",
        chapter=7,
        question="A model with 8 key-value heads is cut over 16 tensor-parallel ranks. How many times is each cached number stored?",
        value=lambda: 16 / 8,
        within=0.01,
        why="A head cannot be cut: two ranks hold the same one.",
    ),
    Card(
        id="gain-of-doubling",
        chapter=7,
        question="Weights take 40 % of the memory of a machine. By which factor does the throughput of each accelerator rise when their number is doubled, exchanges aside?",
        value=lambda: (1 - 0.4 / 2) / (1 - 0.4),
        unit="times",
        why="(1 - f/2) / (1 - f): what the weights leave free, after and before.",
    ),
    Card(
        id="preempted",
        chapter=7,
        question="A model of 32 B parameters computes the cache of 6,000 tokens again at 400 TFLOP/s, attention aside. How long does it take?",
        value=lambda: 2 * 32e9 * 6000 / 400e12,
        unit="s",
        why="A preempted sequence is a prompt once more: 2 N FLOP a token.",
    ),
    Card(
        id="why-dp-attention",
        chapter=7,
        question="Why do engines give each rank sequences of its own when they serve DeepSeek-V3?",
        says=lambda: (
            "The latent has one head, so that every tensor-parallel rank would store the whole cache of every sequence; with data-parallel attention each rank stores other sequences."
        ),
        why="The same memory holds eight times as many conversations on eight ranks.",
    ),
    Card(
        id="why-more-than-the-fewest",
        chapter=7,
        question="A model fits on two accelerators. Why may four be cheaper per token?",
        says=lambda: (
            "On two, weights fill the memory and almost no cache is left; on four the weights are shared by twice as many and each has room for many conversations."
        ),
        why="Throughput goes with the memory that weights leave free.",
    ),
    Card(
        id="sketch-memory",
        chapter=7,
        question="Sketch the memory of one H100 that serves Llama 3.1 70B at 16 bit on 2, 4, 8 and 16 of them: weights, working memory, cache.",
        draw=serving.memory,
        why="Weights halve from bar to bar, working memory stays, the cache takes the rest.",
    ),
)
