"""The functions of the simulator's loop as machine code, made by Numba and kept for later runs.

The decorators only list a function: it stays Python, which small runs interpret. :func:`machine_code` compiles all that
are listed, as they call each other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_LISTED: dict[Callable[..., Any], bool] = {}
"""Functions of the loop, and whether each is compiled as a part of those that call it."""


def compiled(function: Function) -> Function:
    """List a function that is compiled by itself."""
    _LISTED[function] = False
    return function


def inlined(function: Function) -> Function:
    """List a function that is compiled as a part of those that call it.

    Calls copy every field of every array that they are given, some two hundred words: half of the loop's time.
    """
    _LISTED[function] = True
    return function


@cache
def machine_code(folder: str) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Compiled form of every listed function; each is compiled, or read from the folder, at its first call.

    Numba's counting of references is left out, which takes three quarters of the time here: no function of the loop
    makes an array, and the callers keep all of them alive.
    """
    # Its import takes a quarter of a second, which runs that are interpreted do not pay.
    import numba

    forms: dict[Callable[..., Any], Callable[..., Any]] = {}
    spaces: dict[str, dict[str, Any]] = {}
    with _kept_in(folder):
        for function, inline in _LISTED.items():
            source = cast(FunctionType, function)
            # Compiled functions see each other where their sources see Python's.
            space = spaces.setdefault(source.__module__, dict(source.__globals__))
            copy = FunctionType(source.__code__, space, source.__name__, source.__defaults__)
            copy.__module__, copy.__qualname__ = source.__module__, source.__qualname__
            forms[function] = _kept(with_wide_integers(cast(Any, numba).njit(_nrt=False, forceinline=inline)(copy)))
    for space in spaces.values():
        for name, value in space.items():
            if isinstance(value, FunctionType) and value in forms:
                space[name] = forms[value]
    return forms


@contextmanager
def _kept_in(folder: str) -> Generator[None]:
    """Have Numba keep machine code in a folder, as ``NUMBA_CACHE_DIR`` does for all that a process compiles."""
    from numba.core import config

    settings = cast(Any, config)
    before, settings.CACHE_DIR = settings.CACHE_DIR, folder
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def with_wide_integers(dispatcher: Any) -> Any:
    """Have integers of all widths, and constants, share one version of a function.

    Numba compiles another for each width and each constant that a call is written with, and for what it takes a
    variable's type to be on the way to knowing it: half of the compiler's time, for the same results.
    """
    import numba

    types, compile_for = cast(Any, numba).types, dispatcher.compile

    def wide(argument: Any) -> Any:
        value = types.unliteral(argument)
        return types.int64 if isinstance(value, types.Integer) and value.signed else value

    def compile_wide(arguments: tuple[Any, ...]) -> Any:
        return compile_for(tuple(wide(argument) for argument in arguments))

    dispatcher.compile = compile_wide
    return dispatcher


def _kept(dispatcher: Any) -> Any:
    # Numba raises where the folder cannot be written: this run compiles then, and so does the next.
    with suppress(RuntimeError):
        dispatcher.enable_caching()
    return dispatcher
