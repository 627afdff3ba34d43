"""Text of the lecture's six chapters, in our words; every number in it is computed here."""

from __future__ import annotations

from rackmath.lecture.ciphers import avalanche
from rackmath.lecture.solve import evaluate
from rackmath.web.page import Exercise, Page


def _number(equation: str, symbol: str, **values: float) -> float:
    return float(evaluate(equation, symbol, **values))


def _batch() -> Page:
    balance = _number("balance-batch", "B_star", R=312.5, S=17.9)
    drain = _number("drain-time", "t_drain", H=80e9, M=3.35e12)
    return Page(
        path="/lecture/1",
        title="1. Batch size, latency, cost",
        short="1 Batch",
        chapter=1,
        views=["batch"],
        text=[
            "One decode step gives every sequence in the batch one token. Each sequence multiplies all active parameters; the "
            "weights are read from memory once for all of them, each sequence's cache once for itself. Both go on at the same "
            "time, so the step takes the longer of the two.",
            "The time is flat while reading the weights is the longest, then it rises. Divide it by the batch and you have the "
            "cost of a token: a hyperbola, for the weights are shared by more and more, down to what nobody can share, the "
            "multiplications and the cache.",
            "Where both times are equal lies the balance batch, the hardware ratio R times the sparsity S if the cache is left "
            "out. The cache tilts the memory line: past the context L* its slope is the steeper one, and no batch is bound by "
            "compute any more.",
            "A batch leaves like a train, one every step. Who just missed it waits for one and rides one: twice the period at "
            "worst. The natural period is the time to read all memory once.",
        ],
        exercises=[
            Exercise(
                question="DeepSeek-V3 stores 17.9 times what it multiplies; a GB200 multiplies 312.5 times per byte read. At "
                "which batch do weights and products take equal time?",
                answer=f"B* = R S = 312.5 x 17.9 = {balance:,.0f} sequences.",
            ),
            Exercise(
                question="An H100 holds 80 GB and reads 3.35 TB/s. What is its natural period, and how long does the unluckiest "
                "request take per token?",
                answer=f"80 GB / 3.35 TB/s = {drain * 1e3:.1f} ms; twice that, {2 * drain * 1e3:.1f} ms.",
            ),
        ],
    )


def _rack() -> Page:
    slow = _number("two-racks", "slowdown", n=4, r=9)
    return Page(
        path="/lecture/2",
        title="2. A mixture of experts on a rack",
        short="2 Rack",
        chapter=2,
        views=["rack"],
        text=[
            "Experts are dealt to the accelerators of a rack. Every token goes to the few that its router chose and comes back: "
            "an all-to-all, twice in every layer.",
            "Inside one rack every accelerator reaches every other at full speed. Over n racks a part (n - 1)/n of the tokens "
            "leaves, over a network that is r times slower; soon that is what the layer waits for.",
            "A small batch does not touch all experts, so its step is quicker than reading all weights would be; and a token "
            "whose k experts sit on fewer than k ranks travels fewer times.",
        ],
        exercises=[
            Exercise(
                question="Four racks share a layer, and the scale-out network is nine times slower. How much longer is the "
                "all-to-all?",
                answer=f"max(r (n - 1)/n, 1/n) = 9 x 3/4 = {slow:.3g} times.",
            ),
            Exercise(
                question="256 experts, 8 for each token. How many does a batch of 32 touch on average?",
                answer=f"E (1 - (1 - k/E)^B) = {_number('experts-touched', 'D_touched', E=256, k=8, B=32):.0f} of them.",
            ),
        ],
    )


def _pipelines() -> Page:
    bubble = _number("pipeline-bubble", "bubble", P=16, m=64)
    fewer = _number("pipeline-bubble", "m", P=16, bubble=0.05)
    return Page(
        path="/lecture/3",
        title="3. Pipelines of racks",
        short="3 Pipelines",
        chapter=3,
        views=["stages"],
        text=[
            "Layers on different racks need little of the slow network: a stage hands over activations, not experts. Each stage "
            "stores its own part of the weights. But to keep P stages at work, P micro-batches must be in flight, so the cache "
            "of an accelerator stays what it was: the P cancels.",
            "Latency stays as well, but for the hops. In training a step must flush: while the pipeline fills and drains, stages "
            "idle. Schedules that cut the backward pass in two fill most of these bubbles.",
        ],
        exercises=[
            Exercise(
                question="16 stages and 64 micro-batches, all forward and then all backward: which part of the time is idle?",
                answer=f"(P - 1)/(m + P - 1) = 15/79 = {bubble:.1%}.",
            ),
            Exercise(
                question="How many micro-batches bring it to 5 %?",
                answer=f"m = (P - 1)(1 - b)/b = {fewer:.0f}.",
            ),
        ],
    )


def _over_training() -> Page:
    over = _number("over-training", "x_over", D_pre=15.6e12, N_active=405e9)
    served = _number("served-tokens", "N_tokens", rate_served=2e6, lifetime=365 * 86_400)
    return Page(
        path="/lecture/4",
        title="4. Over-training",
        short="4 Over-training",
        chapter=4,
        views=["lifetime"],
        text=[
            "A model is paid for three times: pre-training, reinforcement learning, and serving. Training it longer than is best "
            "for the training bill makes it smaller for the same quality, and everything served later cheaper.",
            "A falling cost and a rising one together are least near where they are equal. Exactly there only if their exponents "
            "are: the heuristic gives the size of over-training badly and the bill well, because the optimum is flat.",
        ],
        exercises=[
            Exercise(
                question="Llama 3.1 405B read 15.6 trillion tokens. By how much was it over-trained, at 20 tokens per parameter?",
                answer=f"15.6e12 / (20 x 405e9) = {over:.2f} times.",
            ),
            Exercise(
                question="Two million tokens per second for a year: how many tokens is that?",
                answer=f"{served:.3g}.",
            ),
        ],
    )


def _prices() -> Page:
    heads = _number("kv-heads", "kv", heads_kv=8, d_head=128, layers_kv=80, w_kv=1)
    cliff = _number("context-cliff", "kv", N_active=100e9, w=1.0, R=300.0, L=1e6)
    return Page(
        path="/lecture/5",
        title="5. Reading prices",
        short="5 Prices",
        chapter=5,
        views=["cliff"],
        text=[
            "A price list says something of the machine behind it. If the price steps up where reading the cache overtakes the "
            "multiplications, the step gives the cache of a token. Output costs more than input, because reading a prompt "
            "divides the same weights among all its tokens.",
            "A cached prefix is cheap because it is only fetched. Whether to keep it, and where, is settled by the time that it "
            "waits: each tier is cheapest for waits near the time in which it can be read once.",
            "Where architecture and list are both public the first rule fails. A step in a price is a decision before it is a "
            "measurement.",
        ],
        exercises=[
            Exercise(
                question="8 key-value heads of width 128, a cache in each of 80 layers, one byte a number: how many bytes per token?",
                answer=f"2 x 8 x 128 x 80 x 1 = {heads:,.0f} B.",
            ),
            Exercise(
                question="100 B active parameters, R = 300, and a step at a million tokens: which cache would that imply?",
                answer=f"N / (R L) = {cliff:.0f} B per token, a {heads / cliff:.0f}th of the one above.",
            ),
        ],
    )


def _ciphers() -> Page:
    rebuilt = _number("reversible-compute", "ratio_rev", units_fwd=1, units_bwd=2)
    return Page(
        path="/lecture/6",
        title="6. Ciphers and networks",
        short="6 Ciphers",
        chapter=6,
        views=["rounds"],
        text=[
            "(x, y) becomes (x, y + f(x)): whatever f is, this can be undone by subtracting f(x) again. Ciphers chain such "
            "rounds, and so do reversible networks, which rebuild their activations on the way back instead of keeping them.",
            "A cipher wants one turned bit to turn half of all others; a network wants the opposite, small changes for small "
            "changes. Keeping a cache of keys and values is the opposite trade of a reversible network: memory for compute.",
        ],
        exercises=[
            Exercise(
                question="Backward costs twice forward. What does a reversible step cost over one that keeps everything?",
                answer=f"(2 x 1 + 2)/(1 + 2) = {rebuilt:.3f} times.",
            ),
            Exercise(
                question="A round mixes one half of the word into the other. How many rounds can carry one bit everywhere?",
                answer="Two: the first turns bits of the other half, the second brings them back into its own. Reach is not "
                f"balance: of all bits {avalanche(2):.0%} turn after two rounds of the cipher here, {avalanche(4):.0%} after four.",
            ),
        ],
    )


def chapters() -> list[Page]:
    """One page each."""
    return [_batch(), _rack(), _pipelines(), _over_training(), _prices(), _ciphers()]
