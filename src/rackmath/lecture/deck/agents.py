"""Cards of chapter 13: agents."""

from __future__ import annotations

from math import exp, fsum

from rackmath.caching.sessions import Session, turns
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life


def _read(count: int, first: float, growth: float, output: float) -> float:
    return float(
        turns(Session(turns=count, instructions=first, turn_tokens=growth, output=output, think_time=1.0)).prompt.sum()
    )


CARDS: tuple[Card, ...] = (
    Card(
        id="tokens-read",
        chapter=13,
        question="An agent starts with 5,000 tokens; each of 20 turns adds 1,000 tokens and writes 500. How many tokens do all calls read together?",
        value=lambda: _read(20, 5000, 1000, 500),
        unit="tokens",
        why="n (s + a) + n (n - 1)/2 (a + o).",
    ),
    Card(
        id="twice-the-turns",
        chapter=13,
        question="The same agent with 40 turns instead of 20. By which factor does it read more?",
        value=lambda: _read(40, 5000, 1000, 500) / _read(20, 5000, 1000, 500),
        unit="times",
        why="The part that grows with the square of the turns is already the larger one.",
    ),
    Card(
        id="fresh-tokens",
        chapter=13,
        question="The same 20 turns, with every prefix in the cache. How many tokens are computed anew?",
        value=lambda: 5000 + 20 * 1000 + 19 * 500.0,
        unit="tokens",
        why="Each token once: s + n a + (n - 1) o.",
    ),
    Card(
        id="hit-rate",
        chapter=13,
        question="Pauses are exponential with a mean of 90 s, and a prefix is kept for 300 s. How often is it still there?",
        value=lambda: 1 - exp(-300 / 90),
        why="1 - exp(-k/z).",
    ),
    Card(
        id="slowest-of-eight",
        chapter=13,
        question="Eight agents work at once, each for an exponential time with a mean of 60 s. How long does the slowest take on average?",
        value=lambda: 60 * fsum(1 / i for i in range(1, 9)),
        unit="s",
        why="The harmonic sum times the mean.",
    ),
    Card(
        id="open-sessions",
        chapter=13,
        question="A turn is 10 s of writing and 50 s of pause; 40 sessions write at any time. How many bytes do all open sessions keep at 60,000 tokens of 70 kB?",
        value=lambda: 40 * 60 / 10 * 60_000 * 70e3,
        unit="B",
        why="Six times as many sessions are open as are running.",
    ),
    Card(
        id="wrong-at-the-end",
        chapter=13,
        question="Each of 30 turns is right with a chance of 0.98, and a mistake is seen only at the end. How many turns does the task take on average?",
        value=lambda: 30 / 0.98**30,
        unit="turns",
        why="All thirty are right with a chance of 0.98^30, and the whole is repeated until they are.",
    ),
    Card(
        id="turns-between-checks",
        chapter=13,
        question="A turn fails with a chance of 2 %, and a check costs as much as two turns. After how many turns is a check worth most, about?",
        value=lambda: float(min(range(1, 200), key=lambda j: (j + 2) / j / 0.98**j)),
        unit="turns",
        within=0.15,
        why="About sqrt(v / lambda), as between the checkpoints of a training run.",
    ),
    Card(
        id="why-agents-are-about-reading",
        chapter=13,
        question="Output is five times as dear as input. Why is an agent's bill nearly all input, without a cache?",
        says=lambda: (
            f"Each call reads everything that was said. Forty turns read {_read(40, 8000, 1500, 600) / 24_000:.0f} tokens for each one that is written."
        ),
        why="The context is read as many times as there are turns after it.",
    ),
    Card(
        id="why-cache-holds-compaction-back",
        chapter=13,
        question="Why does compaction save little once prefixes are cached?",
        says=lambda: (
            "Reading long contexts costs a tenth, while a compaction writes a summary at the price of output and makes the next prefix new."
        ),
        why="The best limit moves out by more than two.",
    ),
    Card(
        id="sketch-agent",
        chapter=13,
        question="Sketch the tokens that an agent's calls have computed, against the number of the call, without and with a cache.",
        draw=life.agents,
        why="A parabola and a straight line.",
    ),
)
