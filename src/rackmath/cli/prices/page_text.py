"""How ``prices page`` prints and draws what it found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rackmath.cli import render
from rackmath.io.catalogue import sources
from rackmath.prices import page
from rackmath.prices.decode import Interval
from rackmath.prices.hypotheses import CONVENTION

_SHOWN = (page.OUTPUT, page.CACHED, page.WRITE, page.WRITE_HOUR, "batch", "flex", "priority", "fast")
_EQUATIONS = (
    "out = 1 + r 295 / B + c / L          cost of an output token, in units of using its weights",
    "in  = 1 + r 295 / K + c / (2 A)      of an input token",
    "r total over active parameters; B sequences, K tokens of a prompt that share a read of the weights; c context",
    "L, A contexts at which KV reads, and attention's FLOPs, take as long as the weights: of all open-weight models",
    "cached / input = u 3.35 TB/s / (L link)    to load a token's KV, over computing it again at utilisation u",
    "write / input = 1 + KV x time x rent / price       rent of HBM 0.029 $, of flash 4.3e-6 $ per GB and hour",
    "fast = 1 / (1 - y (s - 1)), y = r 295 / B          speed s by smaller batches alone",
    "log10 BF = log10 P(cell | hypothesis) - log10 P(cell | what other providers print); ten cells per decade",
)


def show_page(facts: Mapping[str, Any], explain: bool) -> None:
    """One provider."""
    rows = [_line(model["model"], model) for model in facts["models"]]
    title = f"{facts['provider']}: what is sold by the token, $ per million and multiples"
    heads = ["model", ">input", ">output/in", ">cached/in", ">write", ">hour", ">batch", ">flex", ">prio", ">fast"]
    render.show_table(title, [*heads, ">above"], rows)
    render.show_table(
        "what each ratio would imply",
        ["ratio", ">value", ">models", "hypothesis", ">foretold (90 %)", ">log10 BF", "implies, median (90 %)"],
        [row for reading in facts["readings"] for row in hypothesis_rows(reading)],
        "log10 BF: Bayes factor against convention, what other providers print; -2 is a hundred to one against",
    )
    _show_changes(facts["changes"])
    if explain:
        render.show_lines("equations", _EQUATIONS)
    render.show_lines("assumed", _assumed(facts))


def show_market(pages: Sequence[Mapping[str, Any]]) -> None:
    """All providers."""
    heads = ["provider", ">models", ">output/in", ">cached/in", ">write", ">hour", ">batch", ">flex", ">prio", ">fast"]
    rows = [
        (page["provider"], str(len(page["models"])), *_middles(page["models"]), _cliffs(page["models"]))
        for page in sorted(pages, key=lambda page: -len(page["models"]))
    ]
    render.show_table("medians over models", [*heads, "cliffs (models)"], rows)
    kinds: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for page_facts in pages:
        own_ratios: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for reading in page_facts["readings"]:
            for entry in reading["hypotheses"]:
                own_ratios[reading["kind"], entry["hypothesis"]].append(entry["log10_bayes_factor"])
        for (kind, hypothesis), values in own_ratios.items():
            kinds[kind][hypothesis].append(float(np.median(values)))
    render.show_table(
        "how well each hypothesis foretells a ratio, against convention: log10 Bayes factor per ratio",
        ["ratio", "hypothesis", ">providers", ">median", ">least", ">most"],
        [
            (kind, name, str(len(v)), f"{np.median(v):+.2f}", f"{min(v):+.2f}", f"{max(v):+.2f}")
            for kind, entry in kinds.items()
            for name, v in entry.items()
            if name != CONVENTION
        ],
        "one number per provider: the median of its ratios; 0 is even, -2 is a hundred to one against",
    )


def hypothesis_rows(reading: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Lines of one ratio: name, value, models, hypothesis, foretold, log10 Bayes factor, what it would imply."""
    name = reading["kind"] + (f" {reading['above'] / 1000:.4g}k" if reading["above"] else "")
    if reading["kind"] == page.CLIFF:
        name = page.CLIFF
    value = f"{reading['value']:g}"
    rows: list[tuple[str, ...]] = []
    for hypothesis in reading["hypotheses"]:
        convention = hypothesis["hypothesis"] == CONVENTION
        meaning = "nothing"
        if convention:
            meaning = f"nothing; {hypothesis['probability']:.0%} of the others print it"
        elif hypothesis["implied"] is not None:
            meaning = f"{hypothesis['implies']}: {_span(hypothesis['implied'])}"
        if hypothesis["impossible"] > 0.005:
            meaning += f"; cannot be in {hypothesis['impossible']:.0%} of models"
        foretold = "" if hypothesis["predicted"] is None else _span(hypothesis["predicted"])
        factor = "0" if convention else f"{hypothesis['log10_bayes_factor']:+.1f}"
        head = (name, value, str(len(reading["models"]))) if not rows else ("", "", "")
        rows.append((*head, hypothesis["hypothesis"], foretold, factor, meaning))
    return rows


def _span(span: Interval) -> str:
    return f"{_number(span.median)} ({_number(span.low90)} to {_number(span.high90)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def _line(name: str, model: Mapping[str, Any]) -> tuple[str, ...]:
    values = {(ratio["kind"], ratio["above"]): ratio["value"] for ratio in model["ratios"]}
    cells = [f"{values[kind, None]:.3g}" if (kind, None) in values else "-" for kind in _SHOWN]
    above = [
        f"{start / 1000:.4g}k: {value:.3g} {values.get((page.OUTPUT_ABOVE, start), 0):.3g}"
        for (kind, start), value in values.items()
        if kind == page.INPUT_ABOVE
    ]
    return (name, f"{model['input']:g}", *cells, "; ".join(above) or "-")


def _middles(models: Sequence[Mapping[str, Any]]) -> list[str]:
    cells: list[str] = []
    for kind in _SHOWN:
        values = [ratio["value"] for model in models for ratio in model["ratios"] if ratio["kind"] == kind]
        cells.append(f"{np.median(values):.3g}" if values else "-")
    return cells


def _cliffs(models: Sequence[Mapping[str, Any]]) -> str:
    starts: defaultdict[float, int] = defaultdict(int)
    for model in models:
        for ratio in model["ratios"]:
            if ratio["kind"] == page.CLIFF:
                starts[ratio["value"]] += 1
    return ", ".join(f"{start / 1000:.4g}k ({count})" for start, count in sorted(starts.items())) or "-"


def _show_changes(changes: Sequence[page.Change]) -> None:
    if not changes:
        return
    files = sources()
    render.show_table(
        "what changed, as far as it is dated",
        ["day", "model", "what", ">from", ">to", "source"],
        [
            (change.day, change.model, change.what, change.before, change.after, files[change.source].publisher)
            if change.source in files
            else (change.day, change.model, change.what, change.before, change.after, change.source)
            for change in changes
        ],
    )


def _assumed(facts: Mapping[str, Any]) -> list[str]:
    lines = [
        "models behind the page are drawn as open-weight models are priced, given the input price",
        "convention: other providers' other models, each provider once, and one provider's worth of an even spread",
        "a hypothesis is given 1 % for being right about a page that it does not describe",
        "ratios of one provider are not independent: their factors must not be multiplied",
    ]
    if any(reading["above"] for reading in facts["readings"]):
        lines.append("above a cliff: requests from its start to the next, or to five times the last")
    return lines
