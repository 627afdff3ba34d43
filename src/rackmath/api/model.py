"""Exact counts of a model: parameters, cache, bytes, FLOPs; and of all models of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rackmath.api import options
from rackmath.api.fields import read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model
from rackmath.io import catalogue
from rackmath.models import cache, counts
from rackmath.models.architecture import Architecture, AudioEncoder, Encoder
from rackmath.models.audio import WINDOW
from rackmath.models.formats import cache_format
from rackmath.models.images import image_of
from rackmath.models.stated_size import size_warnings
from rackmath.serving.variants import as_read

SIDE = 1024
"""Side of the image that stands for all. [pixels]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A model to be counted, or all of the catalogue."""

    model: Annotated[str | Architecture | None, options.MODEL.but(metavar="[MODEL]")] = None
    kv: Annotated[str, options.CACHE.but(help="Format of the cache: bf16, fp8, nvfp4, fp32.")] = "bf16"
    weights: Annotated[str | None, options.WEIGHTS] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_model(r: ModelRequest) -> Result:
    """Count a model exactly, or each of the catalogue in short; ``details`` is the architecture that was counted.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown, and those of a config.
    """
    if r.model is None:
        return Result(request=r, facts=_all())
    architecture, _ = as_read(load_model(r.model), "", r.weights, r.kv)
    return Result(request=r, facts=model_facts(architecture), details=architecture)


def _all() -> list[dict[str, Any]]:
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
    return rows


def _image(encoder: Encoder) -> dict[str, int]:
    """What an image becomes, as an example."""
    image = image_of(encoder.sizing, SIDE, SIDE)
    return {
        "width": SIDE,
        "height": SIDE,
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
    form, weight_bytes = a.cache_format, counts.weight_bytes(a)
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
        "weight_bytes": sum(weight_bytes.values()),
        "weight_bytes_by_class": weight_bytes,
        "bits_per_weight": 8 * sum(weight_bytes.values()) / counts.total_params(a),
        "elements_by_format": {
            role: {form.name: elements for form, elements in formats.items()}
            for role, formats in counts.elements_by_format(a).items()
        },
        "flops_per_token": 2 * counts.multiplied_params(a),
        "max_context": a.max_context,
        "defaulted": list(a.defaulted),
        "not_understood": list(a.not_understood),
        "warnings": list(size_warnings(a)),
    }
