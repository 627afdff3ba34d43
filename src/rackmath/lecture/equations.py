"""Every equation of the lecture, once.

The engine never imports these: the two meet in the tests, where the engine must
return the blackboard's number under the lecture's assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sympy as sp

from rackmath.errors import InputError
from rackmath.lecture.symbols import QUANTITIES, Quantity


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation of the blackboard.

    Parameters
    ----------
    id : str
        Name on the command line.
    chapter : int
        Chapter of the lecture.
    time : str
        Place in the episode, hh:mm, or ``-`` for what the lecture leaves out.
    text : str
        ``left = right`` in the symbols of :data:`QUANTITIES`.
    note : str
        What it says, and where it bends.
    """

    id: str
    chapter: int
    time: str
    text: str
    note: str
    also: tuple[str, ...] = ()
    """The same in other symbols; the first form that holds all symbols of a question is taken."""

    def holding(self, names: Iterable[str]) -> Equation:
        """The form that holds all of some symbols; the first where none does."""
        symbol_set = set(names)
        forms = (replace(self, text=text) for text in (self.text, *self.also))
        return next((form for form in forms if symbol_set <= {q.name for q in form.quantities}), self)

    @property
    def equality(self) -> Any:
        """SymPy equation."""
        return _parsed(self.text)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Quantities in it, sorted by name."""
        names = sorted(s.name for s in self.equality.free_symbols)
        return tuple(QUANTITIES[name] for name in names)

    @property
    def latex(self) -> str:
        """LaTeX of the equation."""
        return latex(self.equality)


def latex(expression: Any) -> str:
    """LaTeX in the blackboard's symbols."""
    names = {q.symbol: q.latex for q in QUANTITIES.values()}
    return str(sp.latex(expression, symbol_names=names))


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    left, _, right = text.partition(" = ")
    symbols: dict[str, Any] = {name: q.symbol for name, q in QUANTITIES.items()}
    symbols |= {"Max": sp.Max, "Min": sp.Min, "sqrt": sp.sqrt}
    sympify: Any = sp.sympify
    sides = [sympify(side, locals=symbols) for side in (left, right)]
    return sp.Eq(sides[0], sides[1], evaluate=False)


EQUATIONS: tuple[Equation, ...] = (
    Equation("multiply-rate", 1, "00:17", "C = F/2", "vendors count a multiply-add as two"),
    Equation("compute-time", 1, "00:05", "t_compute = B*N_active/C", "every sequence multiplies all active parameters"),
    Equation("memory-time", 1, "00:06", "t_memory = (N_total*w + B*L*kv)/M", "weights are read once, each cache once"),
    Equation("step-time", 1, "00:07", "t = Max(B*N_active/C, (N_total*w + B*L*kv)/M)", "a lower bound: both overlap"),
    Equation("cost-per-token", 1, "00:09", "cost = t/B*price", "each step makes one token per sequence"),
    Equation("hardware-ratio", 1, "00:17", "R = F/2/M*w", "hardly depends on precision until a format gets extra FLOP"),
    Equation("balance-batch", 1, "00:19", "B_star = R*S", "cache neglected"),
    Equation(
        "balance-batch-context",
        1,
        "00:13",
        "B_star = (N_total*w/M)/(N_active/C - L*kv/M)",
        "grows with context and ends to exist at L*",
    ),
    Equation("balance-context", 1, "00:12", "L_star = N_active*M/(C*kv)", "where the slopes of cache and compute meet"),
    Equation("context-utilisation", 1, "00:12", "u = Min(1, L_star/L)", "at large batch, dense attention"),
    Equation("latency-floor", 1, "00:08", "t_floor = N_total*w/M", "no batch is faster than the weights"),
    Equation("cost-floor", 1, "00:10", "cost_floor = Max(N_active/C, L*kv/M)*price", "what no batch amortises"),
    Equation("sparsity", 1, "00:19", "S = N_total/N_active", "the lecture uses experts over active experts instead"),
    Equation("worst-wait", 1, "00:21", "t_worst = 2*t", "just missed one departure, then rides the next"),
    Equation("drain-time", 1, "00:22", "t_drain = H/M", "the natural period of a train"),
    Equation("throughput", 1, "00:26", "X = B/t", "tokens per second of one deployment"),
    Equation(
        "sparse-attention",
        1,
        "00:12",
        "t_kv = B*kv*sqrt(L*L_dense)/M",
        "the lecture's root; shipped designs are linear",
    ),
    Equation("experts-touched", 2, "-", "D_touched = E*(1 - (1 - k/E)**B)", "ours: small batches read few experts"),
    Equation(
        "experts-per-gpu",
        2,
        "00:34",
        "experts_each = E/G",
        "the fullest accelerator holds the next whole number; use a divisor of E",
    ),
    Equation("tokens-leaving", 2, "00:38", "f_leave = (n - 1)/n", "even routing over n racks"),
    Equation(
        "two-racks", 2, "00:38", "slowdown = Max((n - 1)/n*r, 1/n)", "against all traffic inside one rack; r is 8"
    ),
    Equation("domain-memory", 2, "00:45", "H = G*H_gpu", "what a model can spread over at full speed"),
    Equation("pipeline-ratio", 3, "00:55", "rho = k*2*l_stage/r", "wants to be at least 1"),
    Equation("microbatches", 3, "01:09", "B = m*B_micro", "a full pipeline has m = P"),
    Equation(
        "pipeline-memory",
        3,
        "01:10",
        "bytes_gpu = N_total*w/(E_width*P) + B_micro*L*kv/E_width",
        "with m = P the stages cancel in the cache term",
    ),
    Equation("pipeline-bubble", 3, "00:58", "bubble = (P - 1)/(m + P - 1)", "all forward, then all backward"),
    Equation("pipeline-latency", 3, "01:15", "t_token = t + hops*t_hop", "stages do not slow a token, hops do"),
    Equation("weight-fetch", 3, "01:18", "t_floor = N_total*w/(G*M_gpu)", "all accelerators of a domain read at once"),
    Equation("pretrain-compute", 4, "01:21", "F_pre = 6*N_active*D_pre", "forward 2, backward 4"),
    Equation("rl-compute", 4, "01:23", "F_rl = a_rl*N_active*D_rl/eff_rl", "2 to 6, by the share that is trained on"),
    Equation("inference-compute", 4, "01:24", "F_inf = 2*N_active*D_inf/eff_inf", "forward only"),
    Equation(
        "lifetime-compute",
        4,
        "01:25",
        "F_all = 6*N_active*D_pre + a_rl*N_active*D_rl/eff_rl + 2*N_active*D_inf/eff_inf",
        "what a model costs in all",
    ),
    Equation(
        "equal-costs",
        4,
        "01:26",
        "6*D_pre = a_rl*D_rl/eff_rl",
        "pre-training, RL and inference cost the same: 6 D_pre = a D_rl / eff_rl = 2 D_inf / eff_inf",
        also=("6*D_pre = 2*D_inf/eff_inf", "a_rl*D_rl/eff_rl = 2*D_inf/eff_inf"),
    ),
    Equation("served-tokens", 4, "01:31", "N_tokens = rate_served*lifetime", "of one model until its successor"),
    Equation("expected-tokens", 4, "01:33", "D_inf = success*N_tokens", "derated by the chance of failure"),
    Equation("chinchilla", 4, "01:32", "D_pre = 20*N_active", "a rule of thumb for one law and one budget"),
    Equation("over-training", 4, "01:32", "x_over = D_pre/(20*N_active)", "tokens over the compute optimum"),
    Equation(
        "power-optimum",
        4,
        "01:21",
        "p_exp*falling = q_exp*rising",
        "a x^-p + b x^q is least here: equal costs only for equal exponents",
    ),
    Equation(
        "context-cliff",
        5,
        "01:37",
        "kv = N_active*w/(R*L)",
        "if the price steps where memory overtakes compute; the lecture's 300 is multiply-adds per byte at one byte per"
        " parameter (8 bit on H100: 295); at 16 bit R is the same with w of 2",
        also=("kv = N_active*M/(C*L)",),
    ),
    Equation("kv-heads", 5, "01:39", "kv = 2*heads_kv*d_head*layers_kv*w_kv", "keys and values of grouped attention"),
    Equation(
        "pass-token-time",
        5,
        "01:48",
        "t_token = Max(N_active/C, (N_total*w/B + L*kv)/(M*L_pass))",
        "a long pass divides what it fetches",
    ),
    Equation("output-input", 5, "01:48", "ratio_out = t_memory/t_compute", "if prefill is bound by compute"),
    Equation("attention-crossover", 5, "01:54", "L_cross = 2*N_active/a_flops", "attention FLOPs match weight FLOPs"),
    Equation("rebuild-cost", 5, "01:57", "cost_rebuild = N_active/C*price", "compute the cache again"),
    Equation("hold-cost", 5, "01:58", "cost_hold = kv/H*price_tier", "share of a tier that a token occupies"),
    Equation("fetch-cost", 5, "01:58", "cost_fetch = kv/bandwidth*price_path", "share of a path that it is busy"),
    Equation(
        "hold-break-even",
        5,
        "01:59",
        "t_hold = (N_active/C*price - kv/bandwidth*price_path)/(kv/H*price_tier)",
        "hold shorter than this, rebuild after",
    ),
    Equation("context-bytes", 5, "01:56", "bytes_seq = kv*L", "what one sequence occupies"),
    Equation(
        "reversible-compute",
        6,
        "02:13",
        "ratio_rev = (2*units_fwd + units_bwd)/(units_fwd + units_bwd)",
        "one more forward pass rebuilds the activations",
    ),
)


def equation(name: str) -> Equation:
    """Look up an equation by id.

    Errors: :class:`~rackmath.errors.InputError` lists near ids.
    """
    for entry in EQUATIONS:
        if entry.id == name:
            return entry
    import difflib

    close = difflib.get_close_matches(name, [e.id for e in EQUATIONS], n=3, cutoff=0.4)
    raise InputError(
        "EQUATION", name, f"did you mean {', '.join(close) or 'another'}? `rackmath lecture solve` lists all"
    )
