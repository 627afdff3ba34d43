"""Cards of chapter 8: kernels."""

from __future__ import annotations

from math import sqrt

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving

CARDS: tuple[Card, ...] = (
    Card(
        id="product-bytes",
        chapter=8,
        question="16 rows meet a matrix of 8,192 by 8,192 at 16 bit on an H100 (989 TFLOP/s, 3.35 TB/s). How long does the bound say?",
        value=lambda: max(2 * 16 * 8192**2 / 989e12, (2 * 8192**2 + 2 * 16 * 2 * 8192) / 3.35e12),
        unit="s",
        why="Reading the matrix: 134 MB over the bandwidth. The products take a twentieth of it.",
    ),
    Card(
        id="starts",
        chapter=8,
        question="80 layers of 10 kernels, 3 microseconds to start each. How much of a step is starting?",
        value=lambda: 800 * 3e-6,
        unit="s",
        why="Kernels follow each other; graphs bring the starts closer together but not to nothing.",
    ),
    Card(
        id="rows-half",
        chapter=8,
        question="Compute of a kernel takes a factor 1 + 128/m longer with m rows than with very many. Which part of its best does it reach at 384 rows?",
        value=lambda: 1 / (1 + 128 / 384),
        why="Tiles of 128 rows: a quarter is lost.",
    ),
    Card(
        id="root-of-squares",
        chapter=8,
        question="A kernel would multiply for 30 microseconds and read for 40. How long does it take by the curve of this chapter, without its start?",
        value=lambda: sqrt(30e-6**2 + 40e-6**2),
        unit="s",
        why="The root of the sum of squares, between the longer of the two and their sum.",
    ),
    Card(
        id="sum-of-maxima",
        chapter=8,
        question="Kernel A multiplies for 1 ms and reads for 3, kernel B multiplies for 4 ms and reads for 1. By which factor is the bound of the two kernels above that of a roofline over both together?",
        value=lambda: (3 + 4) / max(1 + 4, 3 + 1),
        why="A's multiplications cannot hide behind B's reading: 3 + 4 against the larger of 5 and 4.",
    ),
    Card(
        id="rows-of-an-expert",
        chapter=8,
        question="A batch of 512 tokens, 8 experts of 256 for each. How many rows does an expert see on average?",
        value=lambda: 512 * 8 / 256,
        unit="rows",
        why="B k / E: far below the hundreds that a product needs to be bound by compute.",
    ),
    Card(
        id="rounds-of-tiles",
        chapter=8,
        question="1,536 rows and 4,096 columns in tiles of 128 by 256, on 132 cores that take one tile at a time. Which part of the time are the cores busy?",
        value=lambda: 1536 / 128 * 4096 / 256 / (2 * 132),
        why="192 tiles take two rounds of 132: the second is less than half full.",
    ),
    Card(
        id="why-int4-on-a100",
        chapter=8,
        question="Why is a 4-bit model on an A100 faster for one user and no faster for a hundred?",
        says=lambda: (
            "The chip has no 4-bit units: each weight is expanded to 16 bit by the cores that should multiply. At batch 1 that hides behind the reading; at larger batches it does not."
        ),
        why="Bytes are saved, multiplications are not, and expanding comes on top.",
    ),
    Card(
        id="why-not-the-maximum",
        chapter=8,
        question="Why is the roofline of a whole step too low a bound?",
        says=lambda: (
            "It lets one kernel's multiplications hide behind another's reading, but kernels run one after the other: the sum of maxima is never below the maximum of sums."
        ),
        why="max(a1 + a2, b1 + b2) <= max(a1, b1) + max(a2, b2).",
    ),
    Card(
        id="sketch-product",
        chapter=8,
        question="Sketch the part of the peak that a large product reaches against its rows: the roofline, and what is measured.",
        draw=serving.kernels,
        why="Both rise in proportion; the roofline bends at R rows to one, the measured curve bends later and lower.",
    ),
)
