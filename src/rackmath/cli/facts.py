"""``model``: what a config says exactly, and the models of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from rackmath.api.model import SIDE, ModelRequest, run_model
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.models import counts
from rackmath.models.architecture import Architecture, Layer, Weight
from rackmath.models.audio import WINDOW
from rackmath.units import count, short_count, show


@click.command(epilog="Example: rackmath model deepseek-v3 --kv fp8")
@request_options(ModelRequest)
@click.option("--explain", is_flag=True, help="Show every kind of layer with its tensors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def model(request: ModelRequest, explain: bool, as_json: bool) -> None:
    """Count a model exactly: parameters, cache, bytes, FLOPs; without MODEL list those of the catalogue.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    result = run_model(request)
    if as_json:
        render.show_json(result.facts)
    elif request.model is None:
        _show_models(result.facts)
    else:
        _show_model(result.details, result.facts, request)
        if explain:
            _explain_model(result.details)


def _show_model(a: Architecture, facts: dict[str, Any], request: ModelRequest) -> None:
    total, active, kv = facts["total_params"], facts["active_params"], request.kv
    formats = "at the formats of the config" if request.weights is None else f"as {request.weights.lower()}"
    pairs = [
        ("total parameters", f"{count(total)}  ({short_count(total)})"),
        ("active per token", f"{count(active)}  ({short_count(active)}, 1/{total / active:.1f} of the total)"),
        ("input embedding", count(facts["embedding_params"])),
        (
            "weight bytes",
            f"{show(facts['weight_bytes'], 'B')} {formats}, {facts['bits_per_weight']:.2f} bits per parameter",
        ),
        ("FLOPs per token", f"{show(facts['flops_per_token'], 'FLOP')} without attention over the context"),
        ("cache per token", f"{count(facts['kv_bytes_per_token'])} B at {kv}"),
    ]
    if facts["kv_window_bytes_per_token"]:
        pairs.append(("  in windows", f"{count(facts['kv_window_bytes_per_token'])} B per token while they fill"))
    if facts["state_elements"]:
        pairs.append(
            (
                "state per sequence",
                f"{show(facts['state_bytes'], 'B')} at {kv}, {show(facts['state_bytes_served'], 'B')} as served",
            )
        )
    if a.encoder is not None:
        exact = "" if a.encoder_exact else " (estimate)"
        pairs.append(("vision tower, apart", f"{count(facts['vision_params'])}{exact}"))
        size = f"{facts['image']['patches']:,} patches, {facts['image']['tokens']:,} tokens"
        pairs.append((f"image of {SIDE} x {SIDE}", size))
    elif not a.encoder_exact:
        pairs.append(("vision tower, apart", "not in the config"))
    if a.audio is not None:
        pairs.append(("audio tower, apart", count(facts["audio_params"])))
        size = f"{facts['audio']['positions']:,} positions, {facts['audio']['tokens']:,} tokens"
        pairs.append((f"clip of {WINDOW:g} s", size))
    elif not a.audio_exact:
        pairs.append(("audio tower, apart", "of no known kind"))
    if a.mtp:
        pairs.append(("MTP layers, apart", count(facts["mtp_params"])))
    render.show_pairs(f"{a.name}: {len(a.layers)} layers, hidden width {a.hidden}", pairs)
    render.show_table(
        "by tensor class",
        ["class", ">parameters", ">bytes", "formats"],
        [
            (
                role,
                count(facts["params"].get(role, 0)),
                show(size, "B"),
                _parts(facts["elements_by_format"][role]),
            )
            for role, size in facts["weight_bytes_by_class"].items()
        ],
    )
    render.show_lines("WARNING", facts["warnings"])
    render.show_lines("defaulted (absent from the config)", a.defaulted)
    render.show_lines("not understood (left out)", a.not_understood)


def _parts(sizes: dict[str, float]) -> str:
    """Formats of a tensor class with the part of each, where several have a thousandth or more."""
    total = sum(sizes.values())
    parts = {name: elements / total for name, elements in sizes.items() if elements >= total / 1000}
    return next(iter(parts)) if len(parts) == 1 else ", ".join(f"{name} {part:.1%}" for name, part in parts.items())


def _explain_model(a: Architecture) -> None:
    from rackmath.models.weights import layer_weights, model_weights

    _show_tensors("outside the layers", a, None, model_weights(a))
    for number, (layer, repeats) in enumerate(a.groups, start=1):
        _show_tensors(f"layer kind {number}, {repeats} of {len(a.layers)}", a, layer, layer_weights(layer, a.hidden))


def _show_tensors(title: str, a: Architecture, layer: Layer | None, weights: Iterable[Weight]) -> None:
    rows: list[tuple[str, ...]] = []
    for w in weights:
        shape = f"{w.rows:g} x {w.columns:g}" if w.columns else f"{w.rows:g}"
        rows.append(
            (
                w.name,
                w.role,
                f"{w.copies} x {shape}" if w.copies > 1 else shape,
                count(w.elements),
                counts.weight_format_of(a, layer, w).name,
            )
        )
    render.show_table(title, ["tensor", "class", ">shape", ">elements", "format"], rows)


def _show_models(rows: list[dict[str, Any]]) -> None:
    render.show_table(
        f"{len(rows)} models",
        ["name", ">total", ">active", ">layers", ">cache B/token", ">weights"],
        [
            (
                m["name"],
                short_count(m["total_params"]),
                short_count(m["active_params"]),
                m["layers"],
                count(m["kv_bytes_per_token"]),
                show(m["weight_bytes"], "B"),
            )
            for m in rows
        ],
        note="Cache growth at bf16, without windows. --json adds where each config was read.",
    )
