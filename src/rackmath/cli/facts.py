"""``model``: what a config says exactly, and the models of the catalogue."""

from __future__ import annotations

from typing import Any

import click

from rackmath.cli import render
from rackmath.io import catalogue
from rackmath.models import cache, counts
from rackmath.models.architecture import Architecture, AudioEncoder, Encoder
from rackmath.models.audio import WINDOW
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.images import image_of
from rackmath.models.requantise import requantise
from rackmath.models.stated_size import size_warnings
from rackmath.units import show

_SIDE = 1024
"""Side of the image that stands for all. [pixels]"""


@click.command(epilog="Example: rackmath model deepseek-v3 --kv fp8")
@click.argument("model", metavar="[MODEL]", required=False)
@click.option("--kv", default="bf16", show_default=True, help="Format of the cache: bf16, fp8, nvfp4, fp32.")
@click.option("--weights", help="Format of the linear layers, if not the config's own: bf16, fp8, int4, nvfp4, ...")
@click.option("--explain", is_flag=True, help="Show every kind of layer with its tensors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def model(model: str | None, kv: str, weights: str | None, explain: bool, as_json: bool) -> None:
    """Count a model exactly: parameters, cache, bytes, FLOPs; without MODEL list those of the catalogue.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    if model is None:
        _list_models(as_json)
        return
    architecture = requantise(
        catalogue.model(model), weights=weight_format(weights) if weights else None, cache=cache_format(kv)
    )
    facts = model_facts(architecture)
    if as_json:
        render.show_json(facts)
        return
    _show_model(architecture, facts, kv)
    if explain:
        _explain_model(architecture)


def _image(encoder: Encoder) -> dict[str, int]:
    """What an image becomes, as an example."""
    image = image_of(encoder.sizing, _SIDE, _SIDE)
    return {
        "width": _SIDE,
        "height": _SIDE,
        "tiles": image.tiles,
        "patches": image.tiles * image.patches,
        "tokens": image.tokens,
    }


def _clip(encoder: AudioEncoder) -> dict[str, float]:
    """What a clip of sound becomes, as an example."""
    clip = encoder.windows.clip(WINDOW)
    return {"seconds": WINDOW, "positions": clip.tiles * clip.patches, "tokens": clip.tokens}


def model_facts(a: Architecture) -> dict[str, Any]:
    """Counts of a model under the keys of the contract."""
    form = a.cache_format
    return {
        "name": a.name,
        "total_params": counts.total_params(a),
        "active_params": counts.active_params(a),
        "embedding_params": counts.embedding_params(a),
        "params": counts.params_by_role(a),
        "vision_params": counts.encoder_params(a) - counts.audio_params(a),
        "vision_params_exact": a.encoder_exact,
        **({} if a.encoder is None else {"image": _image(a.encoder)}),
        **({} if a.audio is None else {"audio_params": counts.audio_params(a), "audio": _clip(a.audio)}),
        "mtp_params": counts.mtp_params(a),
        "layers": len(a.layers),
        "kv_bytes_per_token": cache.kv_bytes_per_token(a, form),
        "kv_window_bytes_per_token": cache.kv_window_bytes_per_token(a, form),
        "state_elements": cache.state_elements(a),
        "state_bytes": cache.state_bytes(a, form),
        "state_bytes_served": cache.state_bytes(a),
        "weight_bytes": sum(counts.weight_bytes(a).values()),
        "weight_bytes_by_class": counts.weight_bytes(a),
        "flops_per_token": 2 * counts.multiplied_params(a),
        "max_context": a.max_context,
        "defaulted": list(a.defaulted),
        "not_understood": list(a.not_understood),
        "warnings": list(size_warnings(a)),
    }


def _show_model(a: Architecture, facts: dict[str, Any], kv: str) -> None:
    total, active = facts["total_params"], facts["active_params"]
    pairs = [
        ("total parameters", f"{render.count(total)}  ({render.params(total)})"),
        ("active per token", f"{render.count(active)}  ({render.params(active)}, 1/{total / active:.1f} of the total)"),
        ("input embedding", render.count(facts["embedding_params"])),
        ("weight bytes", f"{show(facts['weight_bytes'], 'B')} at the formats of the config"),
        ("FLOPs per token", f"{show(facts['flops_per_token'], 'FLOP')} without attention over the context"),
        ("cache per token", f"{render.count(facts['kv_bytes_per_token'])} B at {kv}"),
    ]
    if facts["kv_window_bytes_per_token"]:
        pairs.append(
            ("  in windows", f"{render.count(facts['kv_window_bytes_per_token'])} B per token while they fill")
        )
    if facts["state_elements"]:
        pairs.append(
            (
                "state per sequence",
                f"{show(facts['state_bytes'], 'B')} at {kv}, {show(facts['state_bytes_served'], 'B')} as served",
            )
        )
    if a.encoder is not None:
        exact = "" if a.encoder_exact else " (estimate)"
        pairs.append(("vision tower, apart", f"{render.count(facts['vision_params'])}{exact}"))
        size = f"{facts['image']['patches']:,} patches, {facts['image']['tokens']:,} tokens"
        pairs.append((f"image of {_SIDE} x {_SIDE}", size))
    elif not a.encoder_exact:
        pairs.append(("vision tower, apart", "not in the config"))
    if a.audio is not None:
        pairs.append(("audio tower, apart", render.count(facts["audio_params"])))
        size = f"{facts['audio']['positions']:,} positions, {facts['audio']['tokens']:,} tokens"
        pairs.append((f"clip of {WINDOW:g} s", size))
    elif not a.audio_exact:
        pairs.append(("audio tower, apart", "of no known kind"))
    if a.mtp:
        pairs.append(("MTP layers, apart", render.count(facts["mtp_params"])))
    render.show_pairs(f"{a.name}: {len(a.layers)} layers, hidden width {a.hidden}", pairs)
    render.show_table(
        "by tensor class",
        ["class", ">parameters", ">bytes"],
        [
            (role, render.count(facts["params"].get(role, 0)), show(size, "B"))
            for role, size in facts["weight_bytes_by_class"].items()
        ],
    )
    render.show_lines("WARNING", facts["warnings"])
    render.show_lines("defaulted (absent from the config)", a.defaulted)
    render.show_lines("not understood (left out)", a.not_understood)


def _explain_model(a: Architecture) -> None:
    from rackmath.models.weights import layer_weights

    for number, (layer, repeats) in enumerate(a.groups, start=1):
        rows = []
        for w in layer_weights(layer, a.hidden):
            form = counts.weight_format_of(a, layer, w)
            shape = f"{w.rows:g} x {w.columns:g}" if w.columns else f"{w.rows:g}"
            rows.append(
                (
                    w.name,
                    w.role,
                    f"{w.copies} x {shape}" if w.copies > 1 else shape,
                    render.count(w.elements),
                    form.name,
                )
            )
        render.show_table(
            f"layer kind {number}, {repeats} of {len(a.layers)}",
            ["tensor", "class", ">shape", ">elements", "format"],
            rows,
        )


def _list_models(as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name in catalogue.model_names():
        a = catalogue.model(name)
        rows.append(
            {
                "name": name,
                "total_params": counts.total_params(a),
                "active_params": counts.active_params(a),
                "layers": len(a.layers),
                "kv_bytes_per_token": cache.kv_bytes_per_token(a, cache_format("bf16")),
                "weight_bytes": sum(counts.weight_bytes(a).values()),
                "source": catalogue.model_source(name),
            }
        )
    if as_json:
        render.show_json(rows)
        return
    render.show_table(
        f"{len(rows)} models",
        ["name", ">total", ">active", ">layers", ">cache B/token", ">weights"],
        [
            (
                m["name"],
                render.params(m["total_params"]),
                render.params(m["active_params"]),
                m["layers"],
                render.count(m["kv_bytes_per_token"]),
                show(m["weight_bytes"], "B"),
            )
            for m in rows
        ],
        note="Cache growth at bf16, without windows. --json adds where each config was read.",
    )
