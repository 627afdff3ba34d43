"""The arithmetic of how large language models are trained, served and priced.

>>> import rackmath
>>> answer = rackmath.estimate("llama-3.1-8b", "h100-sxm", batch=8, context=4000, gpus=1)
>>> bound = rackmath.estimate("llama-3.1-8b", "h100-sxm", batch=8, context=4000, gpus=1, ideal=True)
>>> bool(answer.step.time > bound.step.time)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackmath.version import __version__

if TYPE_CHECKING:
    from rackmath.answers import Answer, estimate

__all__ = ["Answer", "__version__", "estimate"]


def __getattr__(name: str) -> Any:
    """Import what Python users ask for when they first ask: the package itself stays light."""
    if name in ("Answer", "estimate"):
        from rackmath import answers

        return getattr(answers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
