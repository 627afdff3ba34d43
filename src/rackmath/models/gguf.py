"""Tensor types inside a GGUF file: which of llama.cpp's quantisations each tensor of a model gets.

A file type such as Q4_K_M is a mix: values of attention and the second matrix of a feed-forward block are wider in
some layers, the output projection is wider, norms and routers stay in 32 bit. What a file weighs, and what a step
reads, follows from the mix, not from one mean per file type.

Source: ``llama_tensor_get_type_impl``, ``tensor_allows_quantization`` and ``tensor_type_fallback`` in
``src/llama-quant.cpp`` of llama.cpp, commit 007dbbf3. Left out: the rules of Falcon. Types that need a matrix of
importances are taken as made with one, others as made without. Files of other quantisers (Unsloth's dynamic ones)
choose types by a model's own sensitivity, which nobody publishes as a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rackmath.models.architecture import Architecture, Experts, Layer, Weight
from rackmath.models.formats import GGUF_FILES, GGUF_TENSORS, Format
from rackmath.models.mixers import GatedDelta, Grouped, Latent
from rackmath.models.weights import layer_weights, model_weights

_KINDS = {
    "embed_tokens": "embedding",
    "embed_tokens_per_layer": "embedding",
    "lm_head": "output",
    "self_attn.q_proj": "query",
    "self_attn.q_proj.gate": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.qkv_proj": "value",
    "linear_attn.in_proj_qkv": "value",
    "self_attn.o_proj": "attention_output",
    "mlp.gate_proj": "gate",
    "mlp.experts.gate_proj": "gate",
    "mlp.shared_experts.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.experts.up_proj": "up",
    "mlp.shared_experts.up_proj": "up",
    "mlp.down_proj": "down",
    "mlp.experts.down_proj": "down",
    "mlp.shared_experts.down_proj": "down",
}
"""Kinds of tensors that the rules tell apart, by name; any other matrix has the file's main type."""
_FUSED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
"""One matrix in some checkpoints, with the type of values."""
_WIDE = {
    "mlp.gate": "f32",
    "mlp.shared_expert_gate": "f32",
    "positions": "f32",
    "per_layer_model_projection": "f16",
    "self_attn.index_q_proj": "f16",
    "self_attn.index_k_proj": "f16",
}
"""Matrices that are not quantised."""
_LOWEST = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
_EMBEDDINGS = {
    "iq1_s": "q2_k",
    "iq1_m": "q2_k",
    "iq2_xxs": "q2_k",
    "iq2_xs": "q2_k",
    "iq2_s": "iq3_s",
    "iq2_m": "iq3_s",
    "iq3_xxs": "iq3_s",
}
"""Types of embeddings that are not the main one."""
_FALLBACKS = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""Types in blocks of 32 for rows that blocks of 256 do not divide; ``iq4_nl`` for those with codebooks."""


@dataclass(frozen=True, slots=True)
class _Model:
    """What the rules ask of a model."""

    layers: int
    value_tensors: int
    """Value projections of all layers, those fused with queries and keys among them."""
    queries_per_key: int
    """Query heads for each head of keys in the first layer; 0 where it has a state instead."""
    experts: int


def in_file(architecture: Architecture, file: str) -> Architecture:
    """Return a model with each tensor as a GGUF file of type ``file`` has it.

    Parameters
    ----------
    architecture : Architecture
        The model.
    file : str
        Of :data:`~rackmath.models.formats.GGUF_FILES`, e.g. ``"q4_k_m"``.
    """
    main = GGUF_TENSORS[GGUF_FILES[file]]
    model = _facts(architecture)
    values, downs = 0, 0
    layers: list[Layer] = []
    for place, layer in enumerate(architecture.layers):
        formats: list[tuple[str, Format]] = []
        is_fused = any(isinstance(m, Grouped) and m.fused for m in layer.mixers)
        # llama.cpp counts tensors in the order of their names, and some rules go by these counts.
        for weight in sorted(layer_weights(layer, architecture.hidden), key=lambda w: w.name):
            kind = "value" if is_fused and weight.name in _FUSED else _KINDS.get(weight.name, "other")
            stored_format = _format(file, weight, kind, model, place, values, downs)
            if weight.name == "self_attn.kv_b_proj":
                stored_format = _expansion(file, layer, stored_format)
            if stored_format != main:
                formats.append((weight.name, stored_format))
            values += _KINDS.get(weight.name) == "value"
            downs += kind == "down"
        layers.append(replace(layer, formats=tuple(formats)))
    outside = {
        weight.name: _format(file, weight, _KINDS.get(weight.name, "other"), model, 0, 0, 0)
        for weight in model_weights(architecture)
    }
    if architecture.tied and "lm_head" in outside:
        outside["embed_tokens"] = outside["lm_head"]
    return replace(
        architecture,
        format=main,
        formats=tuple((name, form) for name, form in outside.items() if form != main),
        layers=tuple(layers),
    )


def _facts(architecture: Architecture) -> _Model:
    weights = [w for layer in architecture.layers for w in layer_weights(layer, architecture.hidden)]
    blocks = (b for layer in architecture.layers for b in layer.feed_forwards)
    return _Model(
        layers=len(architecture.layers),
        value_tensors=sum(_KINDS.get(w.name) == "value" for w in weights),
        queries_per_key=_queries_per_key(architecture),
        experts=next((b.experts for b in blocks if isinstance(b, Experts)), 0),
    )


def _queries_per_key(architecture: Architecture) -> int:
    """Of layer 0; of linear attention those of the layers between, as its files state one number for all."""
    mixers = [m for layer in architecture.layers for m in layer.mixers]
    if mixers and isinstance(mixers[0], GatedDelta):
        mixers = [m for m in mixers if isinstance(m, Grouped)]
    match mixers[:1]:
        case [Grouped(query_heads=queries, kv_heads=keys)]:
            return queries // keys
        case [Latent(query_heads=queries)]:
            return queries
        case _:
            return 0


def _format(file: str, weight: Weight, kind: str, model: _Model, place: int, values: int, downs: int) -> Format:
    if weight.columns == 0:
        return GGUF_TENSORS["f32"]
    if weight.name in _WIDE:
        return GGUF_TENSORS[_WIDE[weight.name]]
    main = GGUF_FILES[file]
    if file == "f16":
        return GGUF_TENSORS[main]
    if file == "mxfp4_moe":
        return GGUF_TENSORS["mxfp4" if weight.role == "experts" else "q8_0"]
    if kind == "output":
        output_format = _output(file, main, weight.columns)
    elif kind == "embedding":
        output_format = _EMBEDDINGS.get(file, main)
    elif file in _LOWEST:
        output_format = _lowest(file, main, kind, model, downs)
    else:
        output_format = next(_exceptions(file, kind, model, place, values), main)
        if kind == "value":
            output_format = _value(output_format, model)
    return GGUF_TENSORS[_divisible(output_format, weight.columns)]


def _output(file: str, main: str, columns: float) -> str:
    if columns % _block(main):
        return "q8_0"
    if file in _LOWEST or file == "iq3_xxs":
        return "q5_k"
    return main if main == "q8_0" else "q6_k"


def _lowest(file: str, main: str, kind: str, model: _Model, downs: int) -> str:
    """Types of files of one and two bits."""
    wider = "iq3_s" if file in ("iq2_s", "iq2_m") else "q2_k"
    if kind == "value":
        return "q4_k" if model.queries_per_key >= 4 or model.experts >= 4 else wider
    if kind == "key" and model.experts == 8:
        return "q4_k"
    if kind == "down" and downs < model.layers // 8:
        return wider
    if kind == "attention_output":
        if model.experts == 8:
            return "q5_k"
        return {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}.get(file, main)
    return main


def _exceptions(file: str, kind: str, model: _Model, place: int, values: int) -> Iterator[str]:
    """Type of a tensor that is not the main one, if a rule says so: the first counts."""
    eighth = model.layers // 8
    if kind == "value":
        yield from _values(file, model, values)
    elif kind == "key":
        if model.experts == 8:
            yield "q8_0"
        yield from _queries_and_keys(file)
    elif kind == "query":
        yield from _queries_and_keys(file)
    elif kind == "attention_output":
        yield from _attention_outputs(file, model)
    elif kind in ("gate", "up"):
        if file == "iq3_xs" and eighth <= place < 7 * model.layers // 8:
            yield "iq3_xxs"
    elif kind == "down":
        yield from _downs(file, model, place)


def _values(file: str, model: _Model, values: int) -> Iterator[str]:
    shares_keys = model.queries_per_key >= 4
    if file == "q2_k":
        yield "q4_k" if shares_keys else "q3_k"
    if (file in ("q2_k_s", "iq3_xxs", "iq3_xs", "iq3_s") and shares_keys) or file == "iq3_m":
        yield "q4_k"
    if file == "q3_k_m":
        yield "q5_k" if values < 2 else "q4_k"
    if file == "q3_k_l" or (file in ("iq4_nl", "iq4_xs") and shares_keys) or (file == "q4_k_s" and values < 4):
        yield "q5_k"
    if file in ("q4_k_m", "q5_k_m") and _more_bits(values, model.value_tensors):
        yield "q6_k"


def _value(file_type: str, model: _Model) -> str:
    """Values once more: models of 80 layers with shared keys (70B), and of eight experts."""
    if model.experts == 8:
        return "q8_0"
    seventy = model.layers == 80 and model.queries_per_key > 1 and not model.experts
    return "q5_k" if seventy and file_type in ("q3_k", "q4_k") else file_type


def _queries_and_keys(file: str) -> Iterator[str]:
    if file == "iq3_xs":
        yield "iq3_xxs"
    if file == "iq3_xxs":
        yield "iq2_s"


def _attention_outputs(file: str, model: _Model) -> Iterator[str]:
    if model.experts == 8:
        narrow = ("q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m")
        if file in (*narrow, "iq4_xs"):
            yield "q5_k"
        return
    wider = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
    if file in wider:
        yield wider[file]


def _downs(file: str, model: _Model, place: int) -> Iterator[str]:
    first = place < model.layers // 8
    if file == "q2_k":
        yield "q3_k"
    if file == "q2_k_s" and first:
        yield "q4_k"
    if file == "q3_k_m":
        yield "q5_k" if place < model.layers // 16 else "q4_k"
    if file == "iq3_m" and (first or (model.experts == 8 and _more_bits(place, model.layers))):
        yield "q4_k"
    if file == "q3_k_l" or (file in ("iq4_nl", "iq4_xs", "q4_k_s") and first):
        yield "q5_k"
    if file in ("q4_k_m", "q5_k_m") and _more_bits(place, model.layers):
        yield "q6_k"


def _more_bits(place: int, tensors: int) -> bool:
    """Whether a tensor is among the first or last eighth, or every third between."""
    eighth = tensors // 8
    return place < eighth or place >= 7 * tensors // 8 or (place - eighth) % 3 == 2


def _block(name: str) -> int:
    """Elements of a block of a tensor type."""
    small = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "mxfp4")
    return 32 if name in small else 256


def _divisible(name: str, columns: float) -> str:
    """The type, or one in smaller blocks where rows of this width do not divide into its blocks."""
    if columns > 1 and columns % _block(name):
        name = _FALLBACKS.get(name, "iq4_nl" if _block(name) == 256 else name)
        return "f16" if columns % _block(name) else name
    return name


def _expansion(file: str, layer: Layer, values: Format) -> Format:
    """Mean of the two matrices that a file keeps of ``kv_b_proj``: that of keys has rows of one head's width."""
    latent = next(m for m in layer.mixers if isinstance(m, Latent))
    if file in ("f16", "mxfp4_moe"):
        return values
    keys = GGUF_TENSORS[_divisible(GGUF_FILES[file], latent.nope_dim)]
    bits = (latent.nope_dim * keys.bits + latent.value_dim * values.bits) / (latent.nope_dim + latent.value_dim)
    return replace(values, name=values.name if keys == values else f"{keys.name}+{values.name}", bits=bits)
