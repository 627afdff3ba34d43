"""How the simulator's functions are compiled."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function")

_compile: Any = cast(Any, numba).njit(_nrt=False)
_inline: Any = cast(Any, numba).njit(_nrt=False, forceinline=True)


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep it for later runs.

    Numba's counting of references is left out, which takes three quarters of the time here: no function of the loop
    makes an array, and the callers keep all of them alive.
    """
    return _kept(_compile(function))


def inlined(function: Function) -> Function:
    """Compile a function as a part of those that call it.

    Calls copy every field of every array that they are given, some two hundred words: half of the loop's time.
    """
    return _kept(_inline(function))


def _kept(dispatcher: Any) -> Any:
    """Keep machine code for later runs, where the package, the user or ``NUMBA_CACHE_DIR`` has a folder for it."""
    # Numba raises where there is no such folder: this run compiles then, and so does the next.
    with suppress(RuntimeError):
        dispatcher.enable_caching()
    return dispatcher
