"""Named quantities of the blackboard, with units."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import sympy as sp

Dimension = tuple[Fraction, Fraction, Fraction]
"""Exponents of seconds, bytes and dollars. Counts (tokens, parameters, FLOP) have none."""

NONE: Dimension = (Fraction(0), Fraction(0), Fraction(0))
_SECOND: Dimension = (Fraction(1), Fraction(0), Fraction(0))
_BYTE: Dimension = (Fraction(0), Fraction(1), Fraction(0))
_DOLLAR: Dimension = (Fraction(0), Fraction(0), Fraction(1))

_COUNTS = ("1", "tokens", "sequences", "params", "FLOP", "layers", "experts", "stages", "accelerators", "racks", "hops")
_PARTS = {"s": _SECOND, "B": _BYTE, "USD": _DOLLAR, **dict.fromkeys(_COUNTS, NONE), "token": NONE, "param": NONE}


def dimension(unit: str) -> Dimension:
    """Exponents of a unit such as ``B/s`` or ``USD/s``."""
    top, _, bottom = unit.partition("/")
    return minus(_PARTS[top], _PARTS[bottom] if bottom else NONE)


def plus(a: Dimension, b: Dimension) -> Dimension:
    """Dimension of a product."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Dimension, b: Dimension) -> Dimension:
    """Dimension of a quotient."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def times(a: Dimension, n: Fraction) -> Dimension:
    """Dimension of a power."""
    return (a[0] * n, a[1] * n, a[2] * n)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A named symbol of the blackboard."""

    name: str
    latex: str
    unit: str
    meaning: str

    @property
    def symbol(self) -> sp.Symbol:
        """SymPy symbol, positive."""
        return sp.Symbol(self.name, positive=True)


_TABLE = """
B | B | sequences | batch: sequences that each get one new token in a pass
B_star | B^{*} | sequences | batch at which compute and memory time are equal
B_micro | b | sequences | sequences of one micro-batch
m | m | 1 | micro-batches in flight
N_total | N_\\mathrm{total} | params | parameters stored
N_active | N_\\mathrm{active} | params | parameters multiplied per token
w | w | B/param | bytes per stored parameter
L | L | tokens | context length of a sequence
L_star | L^{*} | tokens | context at which cache and compute take equal time
L_dense | L_0 | tokens | context up to which sparse attention is dense
L_cross | L_\\times | tokens | context at which attention and weight FLOPs are equal
kv | \\kappa | B/token | cache bytes per token of context, all layers
C | C | 1/s | multiplies per second of the system
F | F | FLOP/s | FLOP per second; a multiply-add is two
M | M | B/s | memory bandwidth of the system
M_gpu | M_1 | B/s | memory bandwidth of one accelerator
H | H | B | memory capacity
H_gpu | H_1 | B | memory capacity of one accelerator
S | S | 1 | sparsity: stored over active parameters
R | R | 1 | hardware ratio: multiplies per byte times bytes per parameter
G | G | accelerators | accelerators in a scale-up domain
E | E | experts | experts of a layer
k | k | experts | experts that a token meets
D_touched | D | experts | distinct experts that a batch touches
E_width | E_p | accelerators | expert-parallel width
P | P | stages | pipeline stages
l_stage | l | layers | layers per stage
r | r | 1 | scale-up over scale-out bandwidth
n | n | racks | scale-up domains that share a layer
t | t | s | time of one decode step
t_compute | t_\\mathrm{compute} | s | time of its multiplications
t_memory | t_\\mathrm{memory} | s | time to read weights and cache
t_kv | t_\\kappa | s | time to read the cache
t_floor | t_\\mathrm{floor} | s | latency floor: time to read the weights
t_drain | t_\\mathrm{drain} | s | time to read all memory once
t_worst | t_\\mathrm{worst} | s | longest wait of a request
t_token | t_\\mathrm{token} | s | time per token of a pass
t_hop | t_\\mathrm{hop} | s | time of one hop between stages
t_hold | t_\\mathrm{hold} | s | how long a cache waits
hops | h | hops | hops between stages
price | p | USD/s | price of the system per second
price_tier | p_H | USD/s | price per second of the whole tier
price_path | p_\\beta | USD/s | price per second of what is busy during retrieval
cost | c | USD | cost of one token
cost_floor | c_\\mathrm{floor} | USD | cost of one token that batching cannot lower
cost_rebuild | c_\\mathrm{rebuild} | USD | cost to compute the cache of one token again
cost_hold | c_\\mathrm{hold} | USD/s | cost to keep the cache of one token for a second
cost_fetch | c_\\mathrm{fetch} | USD | cost to fetch the cache of one token
bandwidth | \\beta | B/s | bandwidth out of a tier
X | X | 1/s | throughput: tokens per second
u | u | 1 | compute utilisation
f_leave | f | 1 | fraction of the tokens that leaves the rack
slowdown | \\sigma | 1 | all-to-all time over that inside one rack
rho | \\rho | 1 | scale-up over scale-out time of a stage
experts_each | e | experts | experts per accelerator
bytes_gpu | h_1 | B | memory per accelerator
bubble | \\phi | 1 | idle fraction of a flushed pipeline
N_tokens | D_\\mathrm{served} | tokens | tokens served in a lifetime
D_pre | D_\\mathrm{pre} | tokens | tokens of pre-training
D_rl | D_\\mathrm{RL} | tokens | tokens of reinforcement learning
D_inf | D_\\mathrm{inf} | tokens | tokens of inference
F_pre | F_\\mathrm{pre} | FLOP | compute of pre-training
F_rl | F_\\mathrm{RL} | FLOP | compute of reinforcement learning
F_inf | F_\\mathrm{inf} | FLOP | compute of inference
F_all | F_\\mathrm{all} | FLOP | compute of all three
a_rl | a | 1 | FLOP per active parameter and token of reinforcement learning, 2 to 6
eff_rl | \\eta_\\mathrm{RL} | 1 | utilisation of its decode relative to training
eff_inf | \\eta_\\mathrm{inf} | 1 | utilisation of inference relative to training
rate_served | q | 1/s | tokens per second of one model
lifetime | T | s | time that a model is served
success | s | 1 | probability that the model is served at all
x_over | x | 1 | over-training: tokens over those of the compute optimum
falling | A | 1 | cost that falls as x^-p, at the optimum
rising | Q | 1 | cost that rises as x^q, at the optimum
p_exp | p_e | 1 | exponent of the falling cost
q_exp | q_e | 1 | exponent of the rising cost
L_pass | p_L | tokens | tokens of one sequence in a pass
heads_kv | g | 1 | key-value heads
d_head | d | 1 | width of a head
layers_kv | l_\\kappa | layers | layers with a cache of their own
w_kv | w_\\kappa | B/param | bytes per cached number
a_flops | \\alpha | FLOP/token | attention FLOPs per query and token of context
bytes_seq | b_L | B | cache bytes of one sequence
ratio_out | \\pi | 1 | output over input price
units_fwd | \\phi_f | 1 | compute of a forward pass
units_bwd | \\phi_b | 1 | compute of a backward pass
ratio_rev | \\rho_r | 1 | compute of a reversible step over a stored one
"""


def _read() -> dict[str, Quantity]:
    rows = (line.split(" | ") for line in _TABLE.strip().splitlines())
    return {name: Quantity(name, latex, unit, meaning) for name, latex, unit, meaning in rows}


QUANTITIES = _read()
"""All quantities of the blackboard by name."""


LECTURE = MappingProxyType(
    {
        "R": "300", "S": "8", "N_active": "100B", "L": "200k", "w": "1", "r": "8", "E": "256", "G": "64", "t": "20ms",
        "t_hop": "2.5ms", "hops": "4", "a_rl": "2..6", "eff_rl": "0.3", "eff_inf": "1", "lifetime": "2mo",
        "rate_served": "50M", "H_gpu": "288GB", "M_gpu": "20TB/s", "P": "4", "m": "4", "heads_kv": "8", "d_head": "128",
        "n": "2", "B": "2000", "units_fwd": "1", "units_bwd": "2", "success": "1",
    }
)  # fmt: skip
"""What the lecture puts in for a symbol, where it says a number."""


def dimension_of(expression: Any) -> Dimension:
    """Dimension of an expression.

    Errors: :class:`ValueError` where unlike things are added, compared or raised.
    """
    if expression.is_number:
        return NONE
    if isinstance(expression, sp.Symbol):
        return dimension(QUANTITIES[expression.name].unit)
    parts = [dimension_of(a) for a in expression.args]
    if isinstance(expression, sp.Mul):
        total = NONE
        for part in parts:
            total = plus(total, part)
        return total
    if isinstance(expression, sp.Pow):
        exponent: Any = expression.args[1]
        if exponent.is_Rational:
            return times(parts[0], Fraction(int(exponent.p), int(exponent.q)))
        if parts[0] == NONE and parts[1] == NONE:
            return NONE
        raise ValueError(f"{expression}: a quantity with a unit has a symbolic exponent")
    if isinstance(expression, (sp.Add, sp.Max, sp.Min)):
        if any(part != parts[0] for part in parts):
            raise ValueError(f"{expression}: unlike units {parts}")
        return parts[0]
    if all(part == NONE for part in parts):
        return NONE
    raise ValueError(f"{expression}: units inside {type(expression).__name__}")
