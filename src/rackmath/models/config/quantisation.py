"""Quantisation fields of a config and its sidecar -> a number format per tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from rackmath.errors import InputError, NotUnderstood
from rackmath.models.architecture import Layer
from rackmath.models.config.fields import Fields
from rackmath.models.config.tensor_names import checked, matches, placed
from rackmath.models.formats import (
    AWQ,
    BF16,
    FP8,
    FP8_CHANNEL,
    FP8_TENSOR,
    FP8_UE8M0,
    GPTQ,
    INT4,
    INT8,
    MXFP4,
    MXFP4_FP8,
    MXFP8,
    NVFP4,
    NVFP4_A16,
    PURE_FP8,
    Format,
    cache_format,
    weight_format,
)
from rackmath.models.requantise import CONVERTED
from rackmath.models.weights import layer_weights

_ALGORITHMS = {
    "FP8": FP8_TENSOR,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_CHANNEL,
    "FP8_PB_WO": FP8,
    "FP8_BLOCK_SCALES": FP8,
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": NVFP4_A16,
    "MXFP8": MXFP8,
    "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4_FP8,
    "W4A16_AWQ": AWQ,
    "INT4_AWQ": AWQ,
    "W8A16": INT8,
    "W8A8_SQ_PER_CHANNEL": INT8,
}
"""Names of NVIDIA ModelOpt."""


@dataclass(frozen=True, slots=True)
class TensorFormats:
    """Which tensor has which format; ``special`` wins over ``default``, ``kept`` means 16 bit."""

    default: Format
    kept: Mapping[str | None, Sequence[str]] = field(default_factory=dict[str | None, Sequence[str]])
    """Patterns by layer, None for those of all layers."""
    special: Mapping[str | None, Sequence[tuple[int, str, Format]]] = field(
        default_factory=dict[str | None, Sequence[tuple[int, str, Format]]]
    )
    """The same, with the place in the config: the first that matches holds."""
    experts: Format | None = None
    only_experts: bool = False


def read_formats(
    fields: Fields, outer: Mapping[str, Any], sidecar: Mapping[str, Any] | None
) -> tuple[TensorFormats, Format]:
    """Return the rules of the weights and the format of the KV cache.

    Errors: :class:`NotUnderstood` for a quantisation method nobody here knows.
    """
    block = fields.mapping("quantization_config", "compression_config")
    fields.ignore(("compression_config",))
    if block is None:
        quantisation = outer.get("quantization_config") or outer.get("compression_config")
        block = cast("Mapping[str, Any]", quantisation) if isinstance(quantisation, Mapping) else None
    side = sidecar.get("quantization") if sidecar else None
    cache = _cache_format(block, side)
    expert = fields.text("expert_dtype")
    if isinstance(side, Mapping):
        return _modelopt(cast("Mapping[str, Any]", side)), cache
    if block is None:
        return TensorFormats(BF16), cache
    rules = _inline(Fields(block))
    if expert is not None and rules.experts is None and not rules.special:
        # Weights of 4 bit meet activations of 8 bit, in blocks of 32 (DeepSeek V4).
        expert_format = MXFP4_FP8 if expert == "fp4" else weight_format(expert, "expert_dtype")
        rules = TensorFormats(rules.default, rules.kept, rules.special, experts=expert_format)
    return rules, cache


def formats_of(rules: TensorFormats, layer: Layer, index: int, hidden: int) -> tuple[tuple[str, Format], ...]:
    """Formats of the tensors of layer ``index`` that differ from 16 bit."""
    if rules.default == BF16 and not rules.special and rules.experts is None:
        return ()
    everywhere, here = rules.special.get(None, ()), rules.special.get(str(index), ())
    special = [(pattern, form) for _, pattern, form in sorted((*everywhere, *here), key=itemgetter(0))]
    exceptions = (*rules.kept.get(None, ()), *rules.kept.get(str(index), ()))
    formats: list[tuple[str, Format]] = []
    for weight in layer_weights(layer, hidden):
        if weight.columns == 0 or weight.role not in CONVERTED:
            continue
        form = _format(rules, special, exceptions, weight.name, weight.role)
        if form != BF16:
            formats.append((weight.name, form))
    return tuple(formats)


def _format(
    rules: TensorFormats, special: Sequence[tuple[str, Format]], exceptions: Sequence[str], name: str, role: str
) -> Format:
    """Format of one tensor under the rules of its layer."""
    for pattern, special_format in special:
        if matches(pattern, name):
            return special_format
    if any(matches(pattern, name) for pattern in exceptions):
        return BF16
    if role == "experts" and rules.experts is not None:
        return rules.experts
    if rules.only_experts and role != "experts":
        return BF16
    return rules.default


def _kept(names: object, field: str) -> Mapping[str | None, Sequence[str]]:
    if names is None:
        return {}
    if not isinstance(names, list):
        raise InputError(field, names, "write a list of module names")
    for name in cast("list[Any]", names):
        if not isinstance(name, str):
            raise InputError(field, name, "write module names")
    checked(cast("list[str]", names), field)
    exceptions: defaultdict[str | None, list[str]] = defaultdict(list)
    for layer, pattern in dict.fromkeys(placed(name) for name in cast("list[str]", names)):
        exceptions[layer].append(pattern)
    return exceptions


def _by_layer(rules: Iterable[tuple[str, Format]]) -> Mapping[str | None, Sequence[tuple[int, str, Format]]]:
    """Patterns with their formats by layer, None for those of all layers."""
    special: defaultdict[str | None, list[tuple[int, str, Format]]] = defaultdict(list)
    for place, (name, layer_format) in enumerate(rules):
        layer, pattern = placed(name)
        special[layer].append((place, pattern, layer_format))
    return special


def _modelopt(block: Mapping[str, Any]) -> TensorFormats:
    """ModelOpt: an algorithm, exclusions, or one algorithm per layer."""
    fields = Fields(block)
    algorithm = fields.text("quant_algo")
    exceptions = _kept(block.get("exclude_modules") or block.get("ignore"), "exclude_modules")
    layers = fields.mapping("quantized_layers")
    if layers is not None:
        special: list[tuple[str, Format]] = []
        checked(list(layers), "quantized_layers")
        for name, value in layers.items():
            entry = Fields(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None
            algo = entry.text("quant_algo") if entry else None
            special.append((name, _algorithm(algo)))
        return TensorFormats(BF16 if block.get("quant_method") != "fp8" else FP8, exceptions, _by_layer(special))
    if algorithm is None:
        return TensorFormats(BF16, exceptions)
    return TensorFormats(_algorithm(algorithm), exceptions)


def _algorithm(name: str | None) -> Format:
    if name is None or name not in _ALGORITHMS:
        raise NotUnderstood("quant_algo", name, f"known algorithms are {', '.join(_ALGORITHMS)}")
    return _ALGORITHMS[name]


def _inline(fields: Fields) -> TensorFormats:
    block = fields.data
    method = fields.text("quant_method")
    if fields.has("quant_algo"):
        return _modelopt(block)
    exceptions = _kept(
        block.get("modules_to_not_convert") or block.get("ignore") or block.get("ignored_layers"), "ignore"
    )
    match method:
        case "fp8" | "fbgemm_fp8":
            return TensorFormats(_fp8(fields), exceptions)
        case "mxfp4":
            return TensorFormats(MXFP4, exceptions, only_experts=True)
        case "awq" | "gptq" | "gptqmodel" | "auto-round":
            return TensorFormats(_integer(fields, AWQ if method == "awq" else GPTQ), exceptions)
        case "bitsandbytes":
            return TensorFormats(
                INT8 if fields.choice("load_in_8bit") else Format(name="nf4", bits=4.5, compute="bf16"), exceptions
            )
        case "compressed-tensors" | None if fields.has("config_groups"):
            return _groups(fields, exceptions)
        case "modelopt":
            return _modelopt(block)
        case _:
            raise NotUnderstood(
                "quant_method", method, "known are fp8, mxfp4, awq, gptq, bitsandbytes, compressed-tensors, modelopt"
            )


def _fp8(fields: Fields) -> Format:
    size = fields.items("weight_block_size")
    if not size:
        return FP8_TENSOR if fields.text("activation_scheme") == "static" else FP8_CHANNEL
    rows, columns = (int(s) if isinstance(s, int) and s > 0 else 0 for s in (*size, 0)[:2])
    if not rows or not columns:
        raise InputError("weight_block_size", size, "write two positive integers")
    base = FP8_UE8M0 if fields.text("scale_fmt") == "ue8m0" else FP8
    return Format(
        name=base.name, bits=base.bits, compute=base.compute, block=(rows, columns), scale_bytes=base.scale_bytes
    )


def _integer(fields: Fields, base: Format) -> Format:
    """AWQ and GPTQ: a 16-bit scale and a zero point per group."""
    bits = fields.integer("bits", "w_bit", kind="count", default=4)
    group = fields.optional("group_size", "q_group_size", kind="width", low=-1) or 128
    block = (1, group) if group > 0 else (1, 0)
    return Format(name=base.name, bits=bits, compute="bf16", block=block, scale_bytes=2 + bits / 8)


def _groups(fields: Fields, exceptions: Mapping[str | None, Sequence[str]]) -> TensorFormats:
    """compressed-tensors: groups of targets with widths; ``Linear`` means all."""
    groups = fields.mapping("config_groups") or {}
    default: Format | None = None
    special: list[tuple[str, Format]] = []
    for group in groups.values():
        if not isinstance(group, Mapping):
            raise InputError("config_groups", group, "write an object per group")
        inner = Fields(cast("Mapping[str, Any]", group))
        group_format = _group_format(inner)
        targets = inner.items("targets") or ["Linear"]
        checked([target for target in targets if isinstance(target, str)], "targets")
        for target in targets:
            if target == "Linear":
                default = group_format
            elif isinstance(target, str):
                special.append((target, group_format))
    return TensorFormats(default or BF16, exceptions, _by_layer(special))


def _group_format(group: Fields) -> Format:
    weights = group.mapping("weights")
    if weights is None:
        raise InputError("config_groups", sorted(group.data), "each group needs weights")
    w = Fields(weights)
    bits, kind = w.integer("num_bits", kind="count"), w.text("type") or "int"
    size = w.optional("group_size", kind="width", low=0)
    activations = group.mapping("input_activations")
    wide = activations is None or Fields(activations).optional("num_bits", kind="count") == 16
    if kind == "float" and bits == 4:
        if size == 32:
            return MXFP4 if wide else MXFP4_FP8
        return NVFP4_A16 if wide else NVFP4
    if kind == "float" and bits == 8:
        by_tensor = w.text("strategy") in (None, "tensor")
        base = FP8_TENSOR if by_tensor else FP8_CHANNEL
        block = w.items("block_structure")
        return _fp8(Fields({"weight_block_size": block})) if block else base
    if kind == "int" and bits == 8:
        return INT8
    if kind == "int" and bits <= 4:
        return Format(name=INT4.name, bits=bits, compute="bf16", block=(1, size or 0), scale_bytes=2)
    raise NotUnderstood("num_bits", bits, f"weights of type {kind} with this width are not known")


def _cache_format(block: Mapping[str, Any] | None, side: object) -> Format:
    """KV cache format: ModelOpt states it as a name, others as an object or not at all."""
    for source in (side, block):
        if not isinstance(source, Mapping):
            continue
        data = cast("Mapping[str, Any]", source)
        scheme = data.get("kv_cache_quant_algo") or data.get("kv_cache_scheme")
        if isinstance(scheme, str):
            return cache_format(scheme, "kv_cache_quant_algo")
        if isinstance(scheme, Mapping):
            bits = Fields(cast("Mapping[str, Any]", scheme)).integer("num_bits", kind="count", default=8)
            return PURE_FP8 if bits == 8 else cache_format("nvfp4")
    return BF16
