"""Cards of chapter 15: how wrong are we."""

from __future__ import annotations

from math import ceil, log, sqrt
from statistics import median

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life

CARDS: tuple[Card, ...] = (
    Card(
        id="relative-error",
        chapter=15,
        question="A time of 12 ms was predicted as 15 ms. How large is the relative error?",
        value=lambda: 15 / 12 - 1,
        why="Predicted over measured, less one.",
    ),
    Card(
        id="median-of-errors",
        chapter=15,
        question="Five rows were predicted with ratios 0.5, 0.9, 1.1, 1.2 and 3. What is the median absolute error?",
        value=lambda: median(abs(ratio - 1) for ratio in (0.5, 0.9, 1.1, 1.2, 3.0)),
        why="Errors are 0.5, 0.1, 0.1, 0.2 and 2: the median does not see how bad the worst is, p90 does.",
    ),
    Card(
        id="expected-outside",
        chapter=15,
        question="Of 240 rows left out, how many should lie outside of an honest 90 % range?",
        value=lambda: 240 * (1 - 0.9),
        unit="rows",
        within=0.01,
        why="One in ten. None outside would be a range that is too wide.",
    ),
    Card(
        id="spread-of-coverage",
        chapter=15,
        question="With 100 independent rows, by how much does the part inside a true 90 % range scatter (one standard deviation)?",
        value=lambda: sqrt(0.9 * 0.1 / 100),
        why="sqrt(p (1 - p) / n): 84 % inside is two deviations low, so that groups of a few rows say little.",
    ),
    Card(
        id="upper-end",
        chapter=15,
        question="The time per token is predicted as 20 ms with a range of 0.7 to 1.6 times. Above which measured time does a run lie outside?",
        value=lambda: 0.020 * 1.6,
        unit="s",
        within=0.02,
        why="The range is relative to what was predicted.",
    ),
    Card(
        id="rows-for-a-quantile",
        chapter=15,
        question="The largest of n left-out errors is to be a valid upper end for the next row with a chance of at least 95 %. How many rows are needed?",
        value=lambda: float(ceil(1 / 0.05 - 1)),
        unit="rows",
        within=0.01,
        why="Among n + 1 alike rows each is the largest with chance 1/(n + 1): that is conformal prediction.",
    ),
    Card(
        id="factor-as-a-log",
        chapter=15,
        question="A factor of two is which difference of natural logarithms?",
        value=lambda: log(2),
        within=0.02,
        why="Ratios are compared as logarithms, so that twice too fast and twice too slow are equally wrong.",
    ),
    Card(
        id="worth-of-a-source",
        chapter=15,
        question="A source has 400 rows whose errors are correlated by 0.2. How many independent rows are they worth?",
        value=lambda: 400 / (1 + 399 * 0.2),
        unit="rows",
        why="m / (1 + (m - 1) r), which never exceeds 1 / r.",
    ),
    Card(
        id="why-sources-are-left-out",
        chapter=15,
        question="Why is leaving out single rows not enough to score a model of performance?",
        says=lambda: (
            "Rows of one run share machine, day, harness and flags: the neighbours of a left-out row tell its answer. A user's question comes from another source."
        ),
        why="Leave out what a user's case would not have: its source.",
    ),
    Card(
        id="why-structure-is-fitted",
        chapter=15,
        question="No constant has seen the rows of a source. Why may its score still be too good?",
        says=lambda: (
            "Somebody looked at it when the form of the equations was chosen. So a third of the sources takes part in no choice."
        ),
        why="Structure is fitted too.",
    ),
    Card(
        id="why-outcomes-near-saturation",
        chapter=15,
        question="Near saturation even a perfect mean says little. Why?",
        says=lambda: (
            "A step five per cent slower means a queue without end, five per cent faster means none: the outcome is a distribution, and so is that of the real server."
        ),
        why="1 / (1 - load) turns small errors into large ones.",
    ),
    Card(
        id="sketch-errors",
        chapter=15,
        question="Sketch how predicted over measured is distributed for four kinds of questions. Where should the curves cross one half?",
        draw=life.errors,
        why="At a ratio of one; the steeper, the better.",
    ),
)
