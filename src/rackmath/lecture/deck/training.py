"""Cards of chapter 10: training and over-training."""

from __future__ import annotations

from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life
from rackmath.lecture.solve import evaluate
from rackmath.training.budget import Life, at_equal_cost, cheapest
from rackmath.training.run import reliability
from rackmath.training.scaling_laws import law

_LAW = "besiroglu"

CARDS: tuple[Card, ...] = (
    Card(
        id="pretraining-flop",
        chapter=10,
        question="32 B active parameters, 15 T tokens. How many FLOP does pre-training take, attention aside?",
        value=lambda: evaluate("pretrain-compute", "F_pre", N_active=32e9, D_pre=15e12),
        unit="FLOP",
        why="6 N D: two forward, four backward.",
    ),
    Card(
        id="days-of-training",
        chapter=10,
        question="4e24 FLOP on 4,096 accelerators of 989 TFLOP/s at 40 % utilisation. How many days?",
        value=lambda: 4e24 / (4096 * 989e12 * 0.4) / 86_400,
        unit="days",
        why="FLOP over what is reached of the peak.",
    ),
    Card(
        id="over-training-of-8b",
        chapter=10,
        question="Llama 3.1 8B read 15.6 T tokens. How many times over-trained is that at 20 tokens per parameter?",
        value=lambda: evaluate("over-training", "x_over", D_pre=15.6e12, N_active=8.03e9),
        unit="times",
        why="D / (20 N).",
    ),
    Card(
        id="equal-costs-over-training",
        chapter=10,
        question="Under a law with beta = 0.3658, at which over-training are pre-training and inference equally dear at the optimum?",
        value=lambda: at_equal_cost(law(_LAW)),
        unit="times",
        why="x^beta = 1 + F_inf / F_pre = 2.",
    ),
    Card(
        id="best-size",
        chapter=10,
        question="A loss of 2.0 under Besiroglu's law, and ten trillion tokens to be written at the efficiency of training. Which size is cheapest over the whole life? In parameters.",
        value=lambda: cheapest(law(_LAW), 2.0, Life(answer_tokens=1e13)).params,
        within=0.1,
        why="`rackmath train budget --loss 2.0 --inference-tokens 10T` minimises it; the optimum is flat.",
    ),
    Card(
        id="tokens-served",
        chapter=10,
        question="Two million tokens per second for a year of 365 days. How many tokens?",
        value=lambda: evaluate("served-tokens", "N_tokens", rate_served=2e6, lifetime=365 * 86_400),
        unit="tokens",
        why="Rate times lifetime.",
    ),
    Card(
        id="bytes-of-training",
        chapter=10,
        question="A weight, a gradient, a master copy and two moments: 2 + 2 + 4 + 8 bytes. How many GB of memory does a 32 B model need for them? Answer in bytes.",
        value=lambda: 16 * 32e9,
        unit="B",
        why="Before any activation; all but the weight can be sharded.",
    ),
    Card(
        id="checkpoint-interval",
        chapter=10,
        question="A checkpoint stops a run for 60 s, and a failure comes every 4 h. How often should it be written?",
        value=lambda: reliability(1, write=60, restart=0, rate=1 / (4 * 3600)).interval,
        unit="s",
        why="sqrt(2 delta M): what is written too often and what is lost are then equal.",
    ),
    Card(
        id="half-the-critical-batch",
        chapter=10,
        question="A run takes half of the critical batch. How many times the fewest possible steps does it take?",
        value=lambda: 1 + 1 / 0.5,
        unit="times",
        why="1 + b_crit / b; the tokens are one and a half times the fewest.",
    ),
    Card(
        id="why-equal-costs-nearly-work",
        chapter=10,
        question="Equal costs are not the optimum. Why is the rule nevertheless cheap?",
        says=lambda: (
            "Near its least the sum of a falling and a rising cost is flat: a tenth dearer only at 3 or 19 times over-training, where the best is at "
            f"{cheapest(law(_LAW), 2.0, Life(answer_tokens=1e13)).overtraining:.1f}."
        ),
        why="The first derivative is nothing at an optimum.",
    ),
    Card(
        id="why-lora-saves-no-time",
        chapter=10,
        question="Low-rank adapters freeze 99.7 % of the parameters. Why does a step not take a hundredth of the time?",
        says=lambda: (
            "The forward pass and the gradient of the input still go through every frozen matrix: four of the six FLOP remain."
        ),
        why="It saves memory: gradients and moments of the adapters only.",
    ),
    Card(
        id="sketch-life",
        chapter=10,
        question="At a fixed loss, sketch the cost of pre-training, of inference and of both against over-training.",
        draw=life.training,
        why="Pre-training rises, inference falls, the sum is flat around its least.",
    ),
)
