"""The pictures of the commands and pages as figures of Plotly, for Jupyter and marimo.

Every function takes what its command takes: ``plan("deepseek-v3", on="h200-sxm", gpus=32)`` is
``rackmath plan deepseek-v3 --on h200-sxm --gpus 32``. A flag is ``True``; options whose names are Python's words end
in an underscore. :func:`facts` gives the numbers instead.

Errors of all: :class:`~rackmath.errors.InputError` and :class:`~rackmath.errors.DoesNotFit`, as on the command line.
"""

from __future__ import annotations

from typing import Any

from rackmath.cli.ask import ask, words
from rackmath.cli.captured import Answer
from rackmath.errors import InputError
from rackmath.figures import Figure
from rackmath.figures.plotly import plotly_figure


def facts(command: str, *arguments: str, **options: Any) -> Any:
    """What a command prints with ``--json``: ``facts("model", "deepseek-v3")["active_params"]``."""
    return ask([*command.split(), *arguments, *words(options)]).facts


def estimate(model: str, *, picture: str = "batch", **options: Any) -> Any:
    """Time and cost against the batch; ``picture`` roofline or memory for the others."""
    return _figure(["estimate", model, f"--picture={picture}"], options)


def plan(model: str, **options: Any) -> Any:
    """Throughput against speed, and cost, of every deployment worth having."""
    return _figure(["plan", model], options)


def context(model: str, **options: Any) -> Any:
    """Cost of a token against its context."""
    return _figure(["context", model], options)


def racks(**options: Any) -> Any:
    """What fits which scale-up domain at what latency."""
    return _figure(["racks"], options)


def cache(model: str, **options: Any) -> Any:
    """Cost of a cached token against the time that it waits, tier by tier."""
    return _figure(["cache", model], options)


def agent(model: str, **options: Any) -> Any:
    """Cost of a session call by call, lever by lever."""
    return _figure(["agent", model], options)


def price_page(provider: str, **options: Any) -> Any:
    """Ratios of a price page beside what hypotheses foretell."""
    return _figure(["prices", "page", provider], options)


def decoded(*model: str, **options: Any) -> Any:
    """Sizes behind prices, before and after the prices are read."""
    return _figure(["prices", "decode", *model], options)


def token_costs(model: str, **options: Any) -> Any:
    """Cost of input and output against context, with the page that never loses."""
    return _figure(["prices", "cost", model], options)


def budget(**options: Any) -> Any:
    """Cost of a model's life against its size, at one loss."""
    return _figure(["train", "budget"], options)


def depth(model: str, **options: Any) -> Any:
    """Activation memory against depth."""
    return _figure(["train", "depth", model], options)


def simulate(model: str, **options: Any) -> Any:
    """Load, queues and what users see over time."""
    return _figure(["simulate", model], options)


def _figure(command: list[str], options: dict[str, Any]) -> Any:
    answer: Answer = ask([*command, *words(options)], picture=True)
    if not isinstance(answer.figure, Figure):
        raise InputError("figure", " ".join(command[:2]), "this command draws nothing with these options")
    return plotly_figure(answer.figure)
