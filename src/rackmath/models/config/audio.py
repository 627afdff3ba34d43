"""The encoder of sound of a config: a transformer over windows of spectra, and its projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from rackmath.models.architecture import Architecture, AudioEncoder, Dense, Layer, Weight
from rackmath.models.audio import FRAMES, Windows, halved
from rackmath.models.config.fields import Fields
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector

_KERNEL = 3
"""Width of both convolutions."""
_HALVINGS = 3
"""Convolutions of Qwen3-Omni's encoder, each of which takes every other place."""
_POOLED = 2
"""Positions that Qwen's encoders average to a token."""
Weights = tuple[Weight, ...]


def audio_encoder(config: Mapping[str, Any], text_hidden: int) -> tuple[AudioEncoder | None, bool]:
    """Encoder of sound, which stands outside every total.

    Known are Whisper's encoder behind the projections of Voxtral and of Qwen2-Audio, and those of Qwen2.5-Omni and of
    Qwen3-Omni, told by the fields that only they have and checked against transformers.

    Returns
    -------
    (AudioEncoder or None, bool)
        None without one, and whether all of it is known.
    """
    block = config.get("audio_config")
    if not isinstance(block, Mapping):
        return None, True
    tower, whole = Fields(cast("Mapping[str, Any]", block)), Fields(config)
    if not tower.has("num_mel_bins"):
        return None, False
    if tower.has("downsample_hidden_size") and tower.has("n_window"):
        return _omni3(tower, text_hidden), True
    if tower.has("conv_chunksize"):
        return None, False
    if tower.has("n_window"):
        return _omni(tower, text_hidden), True
    if whole.has("projector_hidden_act"):
        return _voxtral(tower, text_hidden), True
    if tower.has("encoder_layers"):
        return _qwen2(tower, text_hidden), True
    return None, False


def _voxtral(tower: Fields, text: int) -> AudioEncoder:
    whisper, hidden, width, positions = _whisper(tower)
    return AudioEncoder(
        tower=whisper,
        projector=(
            matrix("projector.1", "other", width, text),
            matrix("projector.2", "other", text, text),
        ),
        windows=Windows(positions=positions, joined=width // hidden, silence=True),
    )


def _qwen2(tower: Fields, text: int) -> AudioEncoder:
    whisper, hidden, _, positions = _whisper(tower)
    return AudioEncoder(
        tower=whisper,
        projector=(matrix("projector", "other", hidden, text), vector("projector.bias", "other", text)),
        windows=Windows(positions=positions, joined=_POOLED, silence=False, most=1),
    )


def _omni(tower: Fields, text: int) -> AudioEncoder:
    """Positions by a formula, windows of their own, and a table of two marks."""
    window = tower.integer("n_window", kind="tokens")
    whisper, hidden, _, _ = _whisper(tower, positions=0)
    out = tower.integer("output_dim", default=text)
    projection = matrix("projector", "other", hidden, out), vector("projector.bias", "other", out)
    return AudioEncoder(
        tower=whisper,
        # Marks are looked up, one at each end of a clip.
        projector=(*projection, vector("marks", "other", 2 * out)),
        # A window has twice as many spectra.
        windows=Windows(positions=window, length=2 * window / FRAMES, joined=_POOLED, silence=False),
    )


def _omni3(tower: Fields, text: int) -> AudioEncoder:
    """Pieces of a second through three convolutions over time and pitch, attention over several of them.

    Source: transformers' ``Qwen3OmniMoeAudioEncoder``.
    """
    frames = 2 * tower.integer("n_window", kind="tokens")
    channels = tower.integer("downsample_hidden_size")
    pitches = tower.integer("num_mel_bins", kind="count")
    places = [halved(frames, n) * halved(pitches, n) / halved(frames, _HALVINGS) for n in (1, 2, 3)]
    whisper, hidden, _, _ = _whisper(tower, positions=0, key_bias=True)
    extras = (
        *(
            replace(matrix(f"convolution.{n}", "other", _KERNEL**2 * inputs, channels), uses=places[n - 1])
            for n, inputs in ((1, 1), (2, channels), (3, channels))
        ),
        matrix("convolution.out", "other", channels * halved(pitches, _HALVINGS), hidden),
        # Biases of the convolutions, and the last norm; positions are a formula.
        vector("loose", "other", _HALVINGS * channels + 2 * hidden),
    )
    out = tower.integer("output_dim", default=text)
    pieces = max(tower.integer("n_window_infer", kind="tokens", default=frames) // frames, 1)
    return AudioEncoder(
        tower=replace(whisper, extras=extras),
        projector=(
            matrix("projector.1", "other", hidden, hidden),
            vector("projector.1.bias", "other", hidden),
            matrix("projector.2", "other", hidden, out),
            vector("projector.2.bias", "other", out),
        ),
        windows=Windows(
            positions=pieces * halved(frames, _HALVINGS),
            length=pieces * frames / FRAMES,
            joined=1,
            silence=False,
            halvings=_HALVINGS,
            piece=frames,
        ),
    )


def _whisper(tower: Fields, positions: int | None = None, key_bias: bool = False) -> tuple[Architecture, int, int, int]:
    """Whisper's encoder, with its hidden width, that of its feed-forward blocks, and the positions that it learns."""
    layers = tower.integer("num_hidden_layers", "encoder_layers", kind="layers", default=32)
    hidden = tower.integer("hidden_size", "d_model", default=1280)
    width = tower.integer("intermediate_size", "encoder_ffn_dim", default=4 * hidden)
    heads = tower.integer("num_attention_heads", "encoder_attention_heads", kind="heads", default=20)
    spectrum = tower.integer("num_mel_bins", kind="count", default=128)
    if positions is None:
        positions = tower.integer("max_source_positions", kind="tokens", default=1500)
    attention = Grouped(
        query_heads=heads,
        kv_heads=heads,
        key_dim=hidden // heads,
        value_dim=hidden // heads,
        query_bias=True,
        out_bias=True,
        bidirectional=True,
    )
    # Two shifted norms, and the biases of values and of keys.
    loose = (6 if key_bias else 5) * hidden
    layer = Layer(mixers=(attention,), feed_forwards=(Dense(width=width, gated=False, bias=True),), norm_elements=loose)
    extras = (
        # The first convolution sees twice as many positions: a thousandth of the work, left out.
        matrix("convolution.1", "other", _KERNEL * spectrum, hidden),
        matrix("convolution.2", "other", _KERNEL * hidden, hidden),
        vector("loose", "other", 2 * hidden + positions * hidden + 2 * hidden),
    )
    encoder = Architecture(
        name="audio encoder", hidden=hidden, vocabulary=0, layers=(layer,) * layers, head=False, extras=extras
    )
    return encoder, hidden, width, positions
