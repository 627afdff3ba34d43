"""Equations of a chapter as MathML, and their solution step by step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sympy.printing.mathml import mathml

from rackmath.api.plain import to_plain
from rackmath.api.solve import solution_facts
from rackmath.errors import InputError
from rackmath.lecture.equations import EQUATIONS, Equation
from rackmath.lecture.equations import equation as find
from rackmath.lecture.solve import solve
from rackmath.lecture.symbols import QUANTITIES
from rackmath.web.shown import command_line

_USUAL: Mapping[str, str] = {
    "B": "64",
    "B_star": "2400",
    "B_micro": "256",
    "m": "32",
    "N_total": "671B",
    "N_active": "37B",
    "w": "1",
    "L": "2048",
    "L_star": "3420",
    "L_dense": "2048",
    "kv": "35136",
    "C": "180e15",
    "F": "360e15",
    "M": "576TB/s",
    "M_gpu": "8TB/s",
    "H": "13.8TB",
    "H_gpu": "192GB",
    "S": "18",
    "R": "312",
    "G": "72",
    "E": "256",
    "k": "8",
    "E_width": "64",
    "P": "8",
    "l_stage": "8",
    "r": "9",
    "n": "2",
    "t": "0.02",
    "t_compute": "0.005",
    "t_memory": "0.02",
    "t_hop": "0.001",
    "hops": "7",
    "price": "250USD/h",
    "price_tier": "1USD/h",
    "price_path": "1USD/h",
    "bandwidth": "460GB/s",
    "D_pre": "14.8T",
    "D_rl": "1T",
    "D_inf": "100T",
    "a_rl": "4",
    "eff_rl": "0.3",
    "eff_inf": "0.3",
    "rate_served": "50M",
    "lifetime": "60d",
    "success": "1",
    "N_tokens": "100T",
    "rising": "1",
    "p_exp": "0.35",
    "q_exp": "0.37",
    "L_pass": "1",
    "heads_kv": "8",
    "d_head": "128",
    "layers_kv": "80",
    "w_kv": "1",
    "a_flops": "1e6",
    "units_fwd": "1",
    "units_bwd": "2",
}
"""What stands in a symbol's field until somebody writes something else."""


_LONGEST = 60
"""Letters of a number with its unit."""


def of_chapter(chapter: int) -> list[dict[str, Any]]:
    """Equations of a chapter with their markup, symbols and usual values."""
    return [_described(equation) for equation in EQUATIONS if equation.chapter == chapter]


@lru_cache(maxsize=128)
def _described(equation: Equation) -> dict[str, Any]:
    unknown = equation.text.partition(" = ")[0].split("*")[-1].strip()
    unknown = unknown if unknown in QUANTITIES else equation.quantities[0].name
    return {
        "id": equation.id,
        "note": equation.note,
        "time": equation.time,
        "mathml": markup(equation.equality),
        "unknown": unknown,
        "symbols": [
            {"name": q.name, "unit": q.unit, "meaning": q.meaning, "usual": _USUAL.get(q.name, "1")}
            for q in equation.quantities
        ],
    }


def markup(expression: Any) -> str:
    """Presentation MathML that stands in a page by itself."""
    inner = mathml(expression, printer="presentation", mul_symbol="dot")
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{inner}</math>'


def solved(name: str, symbol: str, entries: Mapping[str, str]) -> dict[str, Any]:
    """What ``rackmath lecture solve`` prints for an equation and a symbol, and the line to type.

    Errors: :class:`InputError` for equations, symbols and values that are unknown or impossible.
    """
    names = [q.name for q in find(name).quantities]
    for key, value in entries.items():
        # Nothing but symbols and short numbers becomes a word of the command.
        if key not in names or len(value) > _LONGEST:
            raise InputError(key, value, f"write a short number for one of {', '.join(names)}")
    values = {key: value for key, value in entries.items() if value and key != symbol}
    words = ["lecture", "solve", name, f"--for={symbol}", *(f"{key}={value}" for key, value in values.items())]
    return to_plain(solution_facts(solve(name, symbol, values))) | {"command": command_line(words)}
