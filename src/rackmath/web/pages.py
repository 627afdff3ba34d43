"""All pages, and the views that stand on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rackmath.web.book import chapters
from rackmath.web.page import Page
from rackmath.web.shown import View
from rackmath.web.views import accuracy, lecture, money, sizing, tools, traffic, training


@lru_cache(maxsize=1)
def views() -> Mapping[str, View]:
    """All views by name."""
    all_views = [v for module in (lecture, tools, sizing, money, training, traffic, accuracy) for v in module.views()]
    return {view.name: view for view in all_views}


@lru_cache(maxsize=1)
def pages() -> Mapping[str, Page]:
    """All pages by their address, in the order of the navigation."""
    every_page = (*chapters(), *_deployments(), *_money_and_time(), _ledger(), _quiz())
    return {page.path: page for page in every_page}


def _ledger() -> Page:
    return Page(
        path="/ledger",
        title="Ledger",
        short="Ledger",
        views=[],
        text=["What the lecture said, what real chips and models say, and what became of each claim."],
    )


def _quiz() -> Page:
    return Page(
        path="/quiz",
        title="Quiz",
        short="Quiz",
        views=[],
        text=[
            "Cards of the book, asked at growing intervals: numbers that are checked, reasons, and sketches to draw "
            "and compare. What was known is kept in a file on this machine, which the command rackmath quiz reads too."
        ],
    )


def _deployments() -> list[Page]:
    return [
        Page(
            path="/estimate",
            title="Estimate",
            short="Estimate",
            views=["estimate"],
            text=[
                "One forward pass of a model on a system, as an engine of that year runs it, with the range in which "
                "90 % of published measurements lie."
            ],
        ),
        Page(
            path="/plan",
            title="Plan",
            short="Plan",
            views=["plan"],
            text=[
                "Every sensible layout, batch, format and draft length of a budget of accelerators, in one pool or "
                "two. Click a point for its layout, its breakdown and its launch flags; up to four are compared."
            ],
        ),
        Page(
            path="/memory",
            title="Memory",
            short="Memory",
            views=["memory"],
            text=["What an engine takes of an accelerator's memory at its start, and the cache that is left."],
        ),
        Page(
            path="/fit",
            title="What fits",
            short="Fit",
            views=["fit"],
            text=["Which models run on the accelerators that are there, in which formats, and how fast."],
        ),
        Page(
            path="/explore",
            title="What an answer depends on",
            short="Explore",
            views=["explore"],
            text=["How strongly time, speed and cost of a pass follow each number of the hardware and of the model."],
        ),
    ]


def _money_and_time() -> list[Page]:
    return [
        Page(
            path="/prices",
            title="Prices",
            short="Prices",
            views=["page", "decode", "cache", "agent"],
            text=["What a price page says and what it cannot say; where a cache waits; what an agent's day costs."],
        ),
        Page(
            path="/training",
            title="Training",
            short="Training",
            views=["train", "budget", "pipeline"],
            text=["What a run takes; how large, how long; and in which order the stages of a pipeline work."],
        ),
        Page(
            path="/simulate",
            title="Simulate",
            short="Simulate",
            views=["simulate"],
            text=["A fleet that serves a trace, or traffic made up on the spot, event by event."],
        ),
        Page(
            path="/accuracy",
            title="Accuracy",
            short="Accuracy",
            views=["accuracy"],
            text=[
                "How far predictions are from thousands of published measurements, each predicted without its model on "
                "its chip."
            ],
        ),
    ]
