"""A rack: what lies on each accelerator, and what crosses its links in a pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.engine import Layout
from rackmath.engine.rack_map import LinkTraffic, RankMemory, link_traffic, rack_map
from rackmath.figures.record import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.units import counted, show

_MOST = 72
"""Accelerators that are drawn; those beyond repeat them."""
_PARTS = (
    ("weights", "weights"),
    ("experts", "expert_weights"),
    ("cache", "cache"),
    ("activations", "activations"),
)


def rack_figure(
    title: str, architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any], note: str
) -> Figure:
    """Memory of each accelerator as a stacked bar that says what it holds, and collectives by their time at the bound.

    Parameters
    ----------
    settings : mapping
        Other arguments of :func:`rackmath.engine.estimate`, numbers instead of arrays.
    """
    ranks = rack_map(architecture, system, layout, settings)
    traffic = link_traffic(architecture, system, layout, settings)
    capacity = system.chip.usable_memory
    first_ranks = ranks[:_MOST]
    names = [str(r.rank) for r in first_ranks]
    labels = [_label(r) for r in first_ranks]
    series = [
        Series(name=name, kind="bars", x=names, y=[getattr(r, field) / 1e9 for r in first_ranks], labels=labels)
        for name, field in _PARTS
        if any(getattr(r, field) for r in first_ranks)
    ]
    series.append(Series(name="memory", x=names, y=[capacity / 1e9] * len(names), colour=5))
    beyond = f", of {len(ranks)}" if len(first_ranks) < len(ranks) else ""
    panels = [Panel(across=f"accelerator{beyond}", up="GB", series=series, title="what lies on each accelerator")]
    if traffic:
        bars = Series(
            name="at the bound",
            kind="horizontal",
            x=[t.name for t in traffic],
            y=[1e3 * (t.wire + t.latency) for t in traffic],
            labels=[_crossing(t) for t in traffic],
        )
        panels.append(Panel(across="", up="ms", series=[bars], title="what crosses the links in a pass"))
    return Figure(title=title, panels=panels, note=note)


def _label(r: RankMemory) -> str:
    """What a reader sees at an accelerator."""
    place = "experts only" if r.group < 0 else f"stage {r.stage}, group {r.group}, tensor rank {r.tensor}"
    experts = f", experts {r.experts.start} to {r.experts.stop - 1}" if len(r.experts) else ""
    cache = f", caches of {counted(r.sequences, 'sequence')}" if r.sequences else ""
    layers = f"layers {r.layers.start} to {r.layers.stop - 1}"
    return f"accelerator {r.rank}: {place}, {layers}{experts}{cache}, {show(r.total, 'B')}"


def _crossing(t: LinkTraffic) -> str:
    link = "scale-up links" if t.scale_up else "scale-out links"
    seconds = f"{show(t.wire, 's')} on the wire, {show(t.latency, 's')} latency"
    return f"{t.name}: {t.ranks:,} accelerators over {link}, {seconds}"
