"""Images and sound in the prompts of requests: their fields, and the model whose encoder meets them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from rackmath.api import kinds
from rackmath.api.adapters import adapter_note, with_adapters
from rackmath.api.fields import Option, refuse_without
from rackmath.api.routing import ServedFields, eager_note, routing_note, with_routing
from rackmath.api.subjects import load_model
from rackmath.engine.encoding import TP_MODES
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture, Images
from rackmath.models.images import image_of

_DEFAULT_SIZE = "1024x1024"
_MOST = 1000.0
"""Images of a prompt at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFields(ServedFields):
    """Fields of every request whose prompts may hold images or sound."""

    images: Annotated[
        float,
        Option(help="Images in each prompt; their tokens come on top of the text's.", kind=kinds.NUMBER),
    ] = 0.0
    image_size: Annotated[str, Option(help="Pixels of an image, width by height.", metavar="WxH")] = _DEFAULT_SIZE
    audio: Annotated[
        float,
        Option(
            help="Length of a clip of sound in each prompt, as 30s; its tokens come on top of the text's.",
            kind=kinds.SECONDS,
        ),
    ] = 0.0
    mm_encoder_tp_mode: Annotated[
        str,
        Option(
            help="How tensor-parallel ranks share the encoder: weights split, or each image or window on one rank "
            "(data).",
            kind=kinds.choice(*TP_MODES),
            flags={"vllm": "--mm-encoder-tp-mode", "sglang": "--mm-enable-dp-encoder"},
        ),
    ] = TP_MODES[0]


def served_fields(r: PromptFields) -> dict[str, Any]:
    """Fields of adapters, routing and images that are not at their defaults."""
    values = {f.name: (getattr(r, f.name), f.default) for f in fields(PromptFields)}
    return {name: value for name, (value, default) in values.items() if value != default}


def served_model(r: PromptFields, model: str | Architecture, system: System) -> Architecture:
    """The model of a request with its adapters, its routing and the images or the sound of its prompts.

    Errors: :class:`InputError` for what the model does not have, and for images and clips that are none.
    """
    architecture = with_routing(with_adapters(load_model(model), r, system), r)
    if not r.images:
        refuse_without(r, "--images", "image_size")
        if not r.audio:
            refuse_without(r, "--images or --audio", "mm_encoder_tp_mode")
    return with_sound(architecture, r) if r.audio else with_images(architecture, r)


def with_images(architecture: Architecture, r: PromptFields) -> Architecture:
    """The model with the images of a request.

    Errors: :class:`InputError` for a model without an encoder, or whose config does not hold it.
    """
    if not 0 <= r.images <= _MOST:
        raise InputError("--images", r.images, f"write a number from 0 to {_MOST:g}")
    width, height = _size(r.image_size)
    if not r.images:
        return architecture
    if architecture.encoder is None:
        missing = "takes no images" if architecture.encoder_exact else "holds no encoder of images in its config"
        raise InputError("--images", r.images, f"{architecture.name} {missing}")
    image = image_of(architecture.encoder.sizing, width, height)
    return replace(architecture, images=Images(count=r.images, image=image, tp_mode=r.mm_encoder_tp_mode))


def with_sound(architecture: Architecture, r: PromptFields) -> Architecture:
    """The model with the clip of sound of a request.

    Errors: :class:`InputError` for a model without such an encoder, for a clip that is none, and beside images.
    """
    if r.images:
        raise InputError("--audio", r.audio, "leave --images out: one encoder is computed at a time")
    if architecture.audio is None:
        missing = "takes no sound" if architecture.audio_exact else "has an encoder of sound of no known kind"
        raise InputError("--audio", r.audio, f"{architecture.name} {missing}")
    clip = architecture.audio.windows.clip(r.audio)
    return replace(architecture, images=Images(count=1.0, image=clip, tp_mode=r.mm_encoder_tp_mode, sound=True))


def prompt_notes(r: PromptFields, architecture: Architecture, sequences: float | None = None) -> tuple[str, ...]:
    """What a reader has to know of images, adapters, experts and graphs, in lines; ``sequences`` of one pass."""
    return (
        *image_note(architecture),
        *adapter_note(architecture, sequences),
        *routing_note(architecture),
        *eager_note(r),
    )


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise InputError("--image-size", text, "write width by height in pixels, as 1024x768")
    return int(parts[0]), int(parts[1])


def image_tokens(architecture: Architecture) -> float:
    """Tokens that the images or the sound of a prompt become; 0 without any. [tokens]"""
    return 0.0 if architecture.images is None else architecture.images.tokens


def image_facts(architecture: Architecture) -> dict[str, Any]:
    """Numbers of the images or of the sound of a prompt, under their key; empty without any."""
    images = architecture.images
    if images is None:
        return {}
    positions = images.image.tiles * images.image.patches
    if images.sound:
        sound = {"windows": images.image.tiles, "positions": positions, "tokens_per_prompt": images.tokens}
        return {"audio": sound | {"encoder": images.tp_mode}}
    return {
        "images": {
            "per_prompt": images.count,
            "tiles": images.image.tiles,
            "patches": positions,
            "tokens": images.image.tokens,
            "tokens_per_prompt": images.tokens,
            "encoder": images.tp_mode,
        }
    }


def image_note(architecture: Architecture) -> tuple[str, ...]:
    """What a reader has to know of them, in lines; nothing without any."""
    images = architecture.images
    if images is None:
        return ()
    image = images.image
    if images.sound:
        return _sound_note(images)
    tiles = f" in {image.tiles} tiles" if image.tiles > 1 else ""
    split = "encoder weights split over" if images.tp_mode == TP_MODES[0] else "whole images spread over"
    notes = (
        f"{images.count:g} image{'s' * (images.count != 1)} in each prompt: {image.tiles * image.patches:,} patches"
        f"{tiles} become {image.tokens:,} tokens each, on top of the text; {split} the tensor-parallel ranks",
        "encoder times rest on nine measured encodes by two engines (docs/accuracy-of-encoders.md); "
        "decoding and resizing of images on the host are left out",
    )
    if not architecture.encoder_exact:
        notes += (f"the encoder of {architecture.name} is of no known kind: a plain transformer of its widths",)
    return notes


def _sound_note(sound: Images) -> tuple[str, ...]:
    """What a reader has to know of a clip, in lines."""
    count, clip = sound.image.tiles, sound.image
    windows = f"{count} windows of {clip.patches:,} positions" if count > 1 else f"{clip.patches:,} positions"
    split = "encoder weights split over" if sound.tp_mode == TP_MODES[0] else "whole windows spread over"
    return (
        f"a clip of sound in each prompt: {windows} become {clip.tokens:,} tokens, on top of the text; {split} the "
        "tensor-parallel ranks",
        "encoder times rest on measured encodes of images, none of sound (docs/accuracy-of-encoders.md); decoding of "
        "files and spectra on the host are left out",
    )
