"""Read a whole config: find the text model in it, build its layers, report what was assumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture
from rackmath.models.config.audio import audio_encoder
from rackmath.models.config.conventions import Convention, convention_of
from rackmath.models.config.fields import CONTEXT, HIDDEN, NESTED, VOCABULARY, Fields
from rackmath.models.config.irrelevant import not_understood
from rackmath.models.config.layers import build_layers
from rackmath.models.config.pattern import layer_count
from rackmath.models.config.quantisation import formats_of, read_formats
from rackmath.models.config.rotary import rotary_elements
from rackmath.models.config.special import loose_weights, mtp_layers
from rackmath.models.config.vision import vision_encoder
from rackmath.models.counts import total_params
from rackmath.models.eagle import as_head
from rackmath.models.formats import Format, weight_format

_FLATTENED = ("attn_config", "ffn_config", "ssm_cfg")
_LARGEST_MODEL = 1e15
"""Parameters above which a config is taken for a mistake. [params]"""
_SPEAKING = ("talker_config", "token2wav_config", "code2wav_config")
"""Parts of Qwen's omni models that make sound of answers: none of them is read."""


def read_config(
    config: Mapping[str, Any], name: str = "model", sidecar: Mapping[str, Any] | None = None
) -> Architecture:
    """Read a Hugging Face config by its fields.

    Parameters
    ----------
    config : mapping
        The parsed ``config.json``.
    name : str
        Name to carry along; it decides nothing.
    sidecar : mapping, optional
        The parsed ``hf_quant_config.json`` beside it.

    Returns
    -------
    Architecture
        With ``defaulted`` (fields that were absent, and what was taken) and
        ``not_understood`` (fields that nobody looked at).

    Errors: :class:`~rackmath.errors.InputError` names a field that is missing,
    contradictory or out of range; :class:`~rackmath.errors.NotUnderstood` one that
    cannot be computed.
    """
    if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("config", type(config).__name__, "a config is a JSON object")
    text, types = _text_part(config)
    fields = Fields(text)
    fields.ignore(("model_type", "architectures"))
    convention, known_type = convention_of(types)
    if known_type is None:
        fields.default("model_type", f"{types[0] if types else None} is not known: habits of Llama")
    if fields.choice("is_encoder_decoder"):
        raise InputError("is_encoder_decoder", True, "only decoder models are read; give the decoder's config")
    hidden = fields.integer(*HIDDEN)
    vocabulary = fields.integer(*VOCABULARY, kind="vocabulary")
    count = layer_count(fields)
    layers = build_layers(fields, count, hidden, convention)
    rules, cache = read_formats(fields, config, sidecar)
    with_formats = [replace(layer, formats=formats_of(rules, layer, i, hidden)) for i, layer in enumerate(layers)]
    # Qwen's models that also speak hold what they see and hear with beside their text model.
    senses = config["thinker_config"] if isinstance(config.get("thinker_config"), Mapping) else config
    encoder, encoder_exact = vision_encoder(senses, hidden)
    audio, audio_exact = audio_encoder(senses, hidden)
    longest = fields.optional(*CONTEXT, kind="tokens", low=1)
    head_bias = fields.choice("lm_head_bias")
    architecture = Architecture(
        name=name,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=tuple(with_formats),
        tied=_tied(fields, config, convention),
        head_bias=convention.head_bias if head_bias is None else head_bias,
        extras=tuple(loose_weights(fields, hidden, vocabulary, count, convention)),
        encoder=encoder,
        # A text model beside an encoder of sound has lost no other.
        encoder_exact=encoder_exact or (encoder is None and audio is not None),
        audio=audio,
        audio_exact=audio_exact,
        mtp=mtp_layers(fields, with_formats, hidden),
        residual_streams=fields.optional("hc_mult", kind="count", low=1) or 1,
        format=_element_format(fields, config),
        cache_format=cache,
        state_format=_state_format(fields),
        max_context=longest,
        rotary_elements=rotary_elements(fields, hidden, longest) if convention.positions is None else 0,
        source="config.json",
        model_type=known_type or "",
    )
    draft_tokens = fields.optional("draft_vocab_size", kind="vocabulary", low=1)
    if draft_tokens is not None:
        architecture = as_head(architecture, fields.integer("target_hidden_size", default=hidden), draft_tokens)
    total = total_params(architecture)
    if total > _LARGEST_MODEL:
        raise InputError(
            "config",
            f"{total:.2g} parameters",
            f"no model exceeds {_LARGEST_MODEL:.0e}: check widths, layers and experts",
        )
    return replace(
        architecture,
        defaulted=tuple(fields.defaulted),
        not_understood=(*not_understood(text, fields.used), *(key for key in _SPEAKING if key in config)),
    )


def _text_part(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of the text model, outer ones as fallback, and the class names to try."""
    outer = dict(config)
    types = _class_names(outer)
    inner: Mapping[str, Any] = outer
    for _ in range(3):
        inner_names = [key for key in NESTED if isinstance(inner.get(key), Mapping)]
        if not inner_names:
            break
        inner = cast("Mapping[str, Any]", inner[inner_names[0]])
        types = _class_names(inner) + types
    text_fields: dict[str, Any] = {
        k: v for k, v in outer.items() if not isinstance(v, Mapping) or k == "quantization_config"
    }
    if inner is not outer:
        # A null inside says "as the class does", which the outer level may know better.
        text_fields.update({k: v for k, v in inner.items() if v is not None or k not in text_fields})
    else:
        text_fields = outer
    for key in _FLATTENED:
        part = text_fields.get(key)
        if isinstance(part, Mapping):
            text_fields.pop(key)
            for k, v in cast("Mapping[str, Any]", part).items():
                text_fields.setdefault(k, v)
    return text_fields, types


def _class_names(config: Mapping[str, Any]) -> list[str]:
    """Return ``model_type``, then guesses from ``architectures`` (Qwen3ForCausalLM -> qwen3)."""
    names: list[str] = []
    model_type = config.get("model_type")
    if isinstance(model_type, str):
        names.append(model_type)
    classes = config.get("architectures")
    if isinstance(classes, list):
        for entry in cast("list[Any]", classes):
            if isinstance(entry, str):
                stem = re.sub(r"(For.*|LMHeadModel|Model)$", "", entry)
                names.append(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower())
    return names


def _tied(fields: Fields, outer: Mapping[str, Any], convention: Convention) -> bool:
    switch = fields.choice("tie_word_embeddings", "tie_embeddings")
    if switch is None and isinstance(outer.get("tie_word_embeddings"), bool):
        switch = bool(outer["tie_word_embeddings"])
    if switch is None:
        fields.default("tie_word_embeddings", convention.tied)
        return convention.tied
    return switch


def _element_format(fields: Fields, outer: Mapping[str, Any]) -> Format:
    """Format of tensors that no quantisation touches."""
    dtype = fields.text("torch_dtype", "dtype")
    if dtype is None:
        value = outer.get("torch_dtype") or outer.get("dtype")
        dtype = value if isinstance(value, str) else None
    if dtype is None:
        fields.default("torch_dtype", "bfloat16")
        return weight_format("bf16")
    return weight_format(dtype, "torch_dtype")


def _state_format(fields: Fields) -> Format:
    """Format of recurrent states; delta-rule and matrix memories without a field are kept in 32 bit."""
    dtype = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "inference_state_dtype")
    if dtype is not None:
        return weight_format(dtype, "mamba_ssm_cache_dtype")
    return weight_format("fp32" if fields.has("linear_attn_config") else "bf16")
