"""A solved equation of the blackboard as plain values."""

from __future__ import annotations

from typing import Any

from rackmath.lecture.solve import Solution


def solution_facts(solution: Solution) -> dict[str, Any]:
    """What ``rackmath lecture solve --json`` prints."""
    return {
        "equation": solution.equation.id,
        "symbol": solution.symbol,
        "value": solution.value,
        "low": solution.low,
        "high": solution.high,
        "others": solution.others,
        "unit": solution.unit,
        "expression": solution.expression,
        "latex": solution.latex,
        "missing": solution.missing,
        "steps": [{"text": s.text, "latex": s.latex, "note": s.note} for s in solution.steps],
    }
