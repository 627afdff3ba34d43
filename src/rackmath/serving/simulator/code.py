"""The loop's entrances in either form: Python, or machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rackmath.serving.simulator.compiled import machine_code
from rackmath.serving.simulator.interpreted import interpreted
from rackmath.serving.simulator.places import fail
from rackmath.serving.simulator.prefix import settle
from rackmath.serving.simulator.route import converse, drain, route

_ENTRANCES = (route, converse, drain, fail, settle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Functions that ``run`` calls, by the names of their sources."""

    route: Callable[..., Any]
    converse: Callable[..., Any]
    drain: Callable[..., Any]
    fail: Callable[..., Any]
    settle: Callable[..., Any]
    whole: bool
    """Whether a run is made in as few calls as can be: each one copies all of its state."""


def python_code() -> Code:
    """The loop as Python."""
    return Code(**{f.__name__: interpreted(f) for f in _ENTRANCES}, whole=True)


def compiled_code(folder: str) -> Code:
    """The loop as machine code: made at the first call of each entrance, or read from a folder.

    Types that are compiled know how many kinds of replicas a fleet has: another number is compiled anew.
    """
    forms = machine_code(folder)
    return Code(**{f.__name__: forms[f] for f in _ENTRANCES}, whole=False)
