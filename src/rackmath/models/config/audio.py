"""The encoder of sound of a config: a transformer over windows of spectra, and its projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rackmath.models.architecture import Architecture, AudioEncoder, Dense, Layer, Weight
from rackmath.models.audio import FRAMES, Windows
from rackmath.models.config.fields import Fields
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector

_KERNEL = 3
"""Width of both convolutions."""
_POOLED = 2
"""Positions that Qwen's encoders average to a token."""
Weights = tuple[Weight, ...]


def audio_encoder(config: Mapping[str, Any], text_hidden: int) -> tuple[AudioEncoder | None, bool]:
    """Encoder of sound, which stands outside every total.

    Known are Whisper's encoder behind the projections of Voxtral and of Qwen2-Audio, and that of Qwen2.5-Omni, told by
    the fields that only they have and checked against transformers.

    Returns
    -------
    (AudioEncoder or None, bool)
        None without one, and whether all of it is known.
    """
    thinker = config.get("thinker_config")
    outer = cast("Mapping[str, Any]", thinker) if isinstance(thinker, Mapping) else config
    block = outer.get("audio_config")
    if not isinstance(block, Mapping):
        return None, True
    tower, whole = Fields(cast("Mapping[str, Any]", block)), Fields(outer)
    if not tower.has("num_mel_bins") or tower.has("conv_chunksize"):
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


def _whisper(tower: Fields, positions: int | None = None) -> tuple[Architecture, int, int, int]:
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
    # Two shifted norms, and the bias of values: keys have none.
    layer = Layer(
        mixers=(attention,), feed_forwards=(Dense(width=width, gated=False, bias=True),), norm_elements=5 * hidden
    )
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
