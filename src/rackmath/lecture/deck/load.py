"""Cards of chapter 9: serving under load."""

from __future__ import annotations

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.serving.waits import queued

CARDS: tuple[Card, ...] = (
    Card(
        id="little-closed",
        chapter=9,
        question="64 users each wait 12 s for an answer and then think for 4 s. How many requests per second do they send?",
        value=lambda: 64 / (12 + 4),
        unit="requests/s",
        why="Little: X (R + Z) = N, whatever is inside.",
    ),
    Card(
        id="little-batch",
        chapter=9,
        question="Requests of 300 tokens come at 5 per second; a token takes 25 ms. How many sequences run at once?",
        value=lambda: 5 * 300 * 0.025,
        unit="sequences",
        why="Rate times time in the system: lambda o t.",
    ),
    Card(
        id="running-batch",
        chapter=9,
        question="A step takes 8 ms plus 0.05 ms for each sequence. Answers of 400 tokens come at 30 per second. How large is the running batch?",
        value=lambda: 30 * 400 * 0.008 / (1 - 30 * 400 * 0.05e-3),
        unit="sequences",
        why="B = lambda o a / (1 - lambda o b): the balance of load and step.",
    ),
    Card(
        id="saturation",
        chapter=9,
        question="The same server. At which rate of requests does the batch grow without end, memory aside?",
        value=lambda: 1 / (400 * 0.05e-3),
        unit="requests/s",
        why="Where lambda o b = 1: 1/b tokens per second is what even an infinite batch writes.",
    ),
    Card(
        id="interruption",
        chapter=9,
        question="A prompt takes 80 ms of reading, an answer has 250 tokens, 50 sequences run. How much do other people's prompts add to each token?",
        value=lambda: 50 * 0.08 / 250,
        unit="s",
        why="B R / o: during its o tokens a sequence sits through about B prompts.",
    ),
    Card(
        id="queue-of-prompts",
        chapter=9,
        question="Prompts of equal length take 0.2 s each, and the reader is busy 80 % of the time. How long does a prompt wait before it is read, on average?",
        value=lambda: float(queued(0.2, 0.8)),
        unit="s",
        why="M/D/1: rho / (2 (1 - rho)) times the service.",
    ),
    Card(
        id="queue-of-unlike-prompts",
        chapter=9,
        question="The same reader, but lengths vary with a coefficient of variation of 2. How long is the wait?",
        value=lambda: float(queued(0.2, 0.8)) * (1 + 2**2),
        unit="s",
        why="Pollaczek and Khinchine: times 1 + c^2.",
    ),
    Card(
        id="busy-under-a-promise",
        chapter=9,
        question="Prompts vary with a coefficient of variation of 2. How busy may a reader be, if the mean wait is not to exceed the mean time of a prompt?",
        value=lambda: 2 * 1 / (2 * 1 + 1 + 2**2),
        why="rho = 2 w / (2 w + 1 + c^2); with equal prompts it would be two thirds.",
    ),
    Card(
        id="why-no-queue-and-still-slow",
        chapter=9,
        question="Nobody waits in a queue, and yet the time per token explodes near saturation. Why?",
        says=lambda: (
            "Slower steps keep sequences longer, so more of them run at once, which makes steps slower: B = lambda o t(B) has a denominator 1 - load."
        ),
        why="The running batch is the queue.",
    ),
    Card(
        id="why-mixed-is-cheap",
        chapter=9,
        question="Why does a prompt that is read together with decode steps cost less than one read by itself?",
        says=lambda: (
            "The weights are read for the running answers anyway; the prompt adds its multiplications, which hide behind that reading, and its own attention."
        ),
        why="It costs what it adds to the step.",
    ),
    Card(
        id="sketch-queue",
        chapter=9,
        question="Sketch the mean wait for one server against how busy it is, for equal services and for exponential ones.",
        draw=serving.load,
        why="Half as long for equal services; both double between 80 and 90 % and have no end at one.",
    ),
)
