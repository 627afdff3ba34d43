"""Cards of chapter 6: pipelines."""

from __future__ import annotations

from math import sqrt

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import serving
from rackmath.lecture.solve import evaluate
from rackmath.training.pipelines import StageTimes, run

_EQUAL = StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0)

CARDS: tuple[Card, ...] = (
    Card(
        id="bubble-12",
        chapter=6,
        question="12 stages, 48 micro-batches, one forward and one backward. Which part of the time is idle?",
        value=lambda: evaluate("pipeline-bubble", "bubble", P=12, m=48),
        why="(P - 1) / (m + P - 1): idle over all time.",
    ),
    Card(
        id="microbatches-for-ten-percent",
        chapter=6,
        question="How many micro-batches bring 8 stages to 10 % idle time?",
        value=lambda: evaluate("pipeline-bubble", "m", P=8, bubble=0.1),
        unit="micro-batches",
        why="m = (P - 1)(1 - b)/b.",
    ),
    Card(
        id="kept-by-1f1b",
        chapter=6,
        question="8 stages, 24 micro-batches. How many micro-batches' activations does the first stage keep under 1F1B?",
        value=lambda: float(max(run("1f1b", 8, 24, _EQUAL).peak_activations)),
        unit="micro-batches",
        within=0.01,
        why="As many as there are stages: the backward of the first begins when its forward has passed all of them.",
    ),
    Card(
        id="ratio-of-networks",
        chapter=6,
        question="Four layers in a stage, 6 experts for each token, a slow network 9 times slower. Scale-up over scale-out time of a stage?",
        value=lambda: evaluate("pipeline-ratio", "rho", k=6, r=9, l_stage=4),
        why="2 k l / r: two exchanges with k experts in each layer against one hop.",
    ),
    Card(
        id="token-through-stages",
        chapter=6,
        question="A step takes 20 ms on one stage's worth of machines; it is cut in 4 stages with hops of 0.5 ms. How long does a token take?",
        value=lambda: evaluate("pipeline-latency", "t_token", t=0.02, hops=3, t_hop=0.0005),
        unit="s",
        why="Stages do not slow a token, hops do: three of them.",
    ),
    Card(
        id="hop-bytes",
        chapter=6,
        question="A micro-batch of 16 sequences of 8,192 tokens, vectors of 16,384 numbers at 16 bit. How many bytes pass between two stages, forward and back?",
        value=lambda: 2 * 16 * 8192 * 16384 * 2.0,
        unit="B",
        why="One vector for each token and direction.",
    ),
    Card(
        id="best-microbatches",
        chapter=6,
        question="12 stages, 80 s of work for each in a step, and 0.2 s that every micro-batch costs beside its work. Which number of micro-batches makes the step shortest?",
        value=lambda: sqrt((12 - 1) * 80 / 0.2),
        why="sqrt((P - 1) W / t0): where the bubble and the cost of cutting are equal.",
    ),
    Card(
        id="pieces-over-stages",
        chapter=6,
        question="A prompt is cut in 24 pieces of equal time and passes 8 stages. How many times as fast is it as on the machines of one stage?",
        value=lambda: 24 * 8 / (24 + 8 - 1),
        unit="times",
        why="n pieces over P stages take n + P - 1 slots of 1/(n P) of the work.",
    ),
    Card(
        id="why-training-cannot-overlap",
        chapter=6,
        question="Why can batches of training not overlap in a pipeline, when those of serving can?",
        says=lambda: (
            "The next step's forward pass needs weights that all gradients of this step have changed, so the pipeline must drain; users of a server do not wait for each other."
        ),
        why="The flush before the optimizer is what makes bubbles.",
    ),
    Card(
        id="why-cache-does-not-shrink",
        chapter=6,
        question="P stages divide the layers. Why does the cache of one accelerator stay the same?",
        says=lambda: (
            "Each sequence keeps 1/P of its cache in a stage, but P micro-batches must be in flight to keep all stages at work: the P cancels."
        ),
        why="Weights have no such factor, so they do shrink.",
    ),
    Card(
        id="why-not-for-serving",
        chapter=6,
        question="Why do planners prefer tensor or expert parallelism to stages for serving?",
        says=lambda: (
            "Tensor parallelism reads the weights with all memories at once for all users; stages read them once for each micro-batch, so that each reading is shared by fewer users, and no token gets faster."
        ),
        why="For 64 users on eight accelerators the bound is 6 ms against 20.",
    ),
    Card(
        id="sketch-bubble",
        chapter=6,
        question="Sketch the idle part of a pipeline against its micro-batches for 4, 8 and 16 stages.",
        draw=serving.pipelines,
        why="Near one on the left, one half where m = P - 1, falling like (P - 1)/m on the right.",
    ),
)
