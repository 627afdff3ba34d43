"""Chapter 3 of the book: what a conversation keeps, and when its cache outweighs the weights."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.api.subjects import load_model
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import weight_bytes
from rackmath.units import show
from rackmath.web.inputs import Inputs, Model, named, slider, values_of
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import POINTS

_BESIDE = ("llama-3.1-70b", "deepseek-v3", "qwen3-next-80b-a3b")
"""Models whose caches grow differently: all heads, a latent vector, few layers of attention."""


class ConversationInputs(Inputs):
    """Chapter 3 of the book."""

    model: Model = named("gemma-3-27b", "model", "model")
    context: float = slider(32_768.0, 128, 1e7, "context", unit="tokens")
    batch: float = slider(16, 1, 4096, "conversations at once", whole=True)


def conversation(i: ConversationInputs) -> PageContent:
    """Cache of one conversation, and what a step reads of weights and caches."""
    model = load_model(values_of(i, "model")["model"])
    across = np.geomspace(128, 1e7, POINTS)
    models = {i.model: model} | {name: catalogue.model(name) for name in _BESIDE if name != i.model}
    growth = {name: np.asarray(cache_bytes(a, across), dtype=float) for name, a in models.items()}
    weights = float(sum(weight_bytes(model).values()))
    caches = i.batch * growth[i.model]
    cache = float(cache_bytes(model, i.context))
    # The first context of the curve from which caches are the larger part; none where they never are.
    crossing = next((float(length) for length, size in zip(across, caches, strict=True) if size >= weights), None)
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="what a conversation keeps",
                across="tokens of context",
                up="GB",
                log_across=True,
                log_up=True,
                series=[Series(name=name, x=list(across), y=list(size / 1e9)) for name, size in growth.items()],
            ),
            Panel(
                title="what a step reads",
                across="tokens of context",
                up="GB",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="weights", x=list(across), y=[weights / 1e9] * POINTS),
                    Series(name="caches of all conversations", x=list(across), y=list(caches / 1e9)),
                    Series(name="here", x=[i.context], y=[i.batch * cache / 1e9], kind="mark"),
                ],
            ),
        ],
    )
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("cache of a conversation", f"{show(cache, 'B')} at {i.context:,.0f} tokens"),
            ("of all conversations", f"{show(i.batch * cache, 'B')} beside {show(weights, 'B')} of weights"),
            (
                "caches outweigh weights",
                "at no context up to 10 M tokens" if crossing is None else f"from {crossing:,.0f} tokens",
            ),
        ],
        facts=to_plain({"cache": cache, "weights": weights, "outweighs_from": crossing}),
        command=f"rackmath lecture solve context-bytes --for bytes_seq L={i.context:g} kv={cache / i.context:g}B",
        notes=["all weights are counted as read: of a mixture few experts are, in a small batch"],
    )


def view() -> View:
    """The form and its pictures."""
    return View(
        name="conversation",
        title="A conversation's cache",
        about="What models keep of a context, and from where on a step reads more of it than of weights.",
        inputs=ConversationInputs,
        answer=conversation,
    )
