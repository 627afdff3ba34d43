"""Fields of a config -> the feed-forward of one layer."""

from __future__ import annotations

from rackmath.errors import InputError
from rackmath.models.architecture import Dense, Experts
from rackmath.models.config.conventions import Convention
from rackmath.models.config.fields import Fields

EXPERTS = (
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_routed_experts",
    "n_experts",
)
ACTIVE = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "n_activated_experts",
)
EXPERT_WIDTH = (
    "moe_intermediate_size",
    "expert_intermediate_size",
    "expert_ffn_hidden_size",
    "moe_ffn_hidden_size",
    "ffn_hidden_size_per_expert",
)
DENSE_WIDTH = (
    "dense_intermediate_size",
    "intermediate_size_mlp",
    "intermediate_size",
    "ffn_hidden_size",
    "ffn_dim",
    "n_inner",
    "inner_hidden_size",
)
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "share_expert_dim",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
)
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
LATENT = ("moe_latent_size", "routed_expert_hidden_size")

_UNGATED = {"relu2", "relu", "gelu_new", "gelu_fast", "xielu"}


def expert_count(fields: Fields, layer: int) -> int:
    """Routed experts of a layer; 0 for a dense model."""
    if fields.choice("is_moe", "use_moe") is False:
        return 0
    return fields.per_layer(*EXPERTS, layer=layer, kind="experts") or 0


def dense(fields: Fields, layer: int, hidden: int, convention: Convention) -> Dense:
    """Feed-forward block that every token passes."""
    width = fields.per_layer(*DENSE_WIDTH, layer=layer)
    if not width and fields.has("ffn_proj_factor"):
        multiple = fields.integer("ffn_round_up_to_multiple_of", default=64)
        width = int(-(-fields.number("ffn_proj_factor", default=2.667) * hidden // multiple) * multiple)
    fields.ignore(DENSE_WIDTH)
    if not width:
        factor = fields.integer("expansion_ratio", kind="count", default=4)
        fields.default("intermediate_size", f"{factor * hidden} ({factor} x hidden_size)")
        width = factor * hidden
    if fields.choice("block_auto_adjust_ff_dim"):
        width = _adjusted(fields, width)
    if convention.fused_width:
        if width % 2:
            raise InputError("intermediate_size", width, "this class stores twice the width; write an even number")
        width //= 2
    return Dense(width=width, gated=_gated(fields, convention), bias=_bias(fields, convention))


def experts(fields: Fields, layer: int, hidden: int, convention: Convention) -> Experts:
    """Mixture of experts of a layer."""
    count = expert_count(fields, layer)
    active = fields.per_layer(*ACTIVE, layer=layer, kind="experts", low=1)
    if active is None:
        raise InputError(ACTIVE[0], None, "the config has experts but not how many a token meets; give its value")
    zero = fields.optional("zero_expert_num", kind="experts") or 0
    if active > count + zero:
        raise InputError(ACTIVE[0], active, f"a token cannot meet more than the {count} experts there are")
    width = fields.per_layer(*EXPERT_WIDTH, layer=layer, low=1)
    if width is None:
        width = fields.per_layer("intermediate_size", "ffn_hidden_size", layer=layer, low=1)
        if width is None:
            raise InputError(EXPERT_WIDTH[0], None, "the config has experts but not their width; give its value")
        fields.default(EXPERT_WIDTH[0], f"{width} (intermediate_size)")
    fields.ignore(DENSE_WIDTH)
    shared_total, gate = _shared(fields, layer, width, convention)
    latent = fields.optional(*LATENT) or None
    scales = {"experts": count, "gemma4": count + hidden}.get(convention.router_scales, 0)
    return Experts(
        experts=count,
        active=active,
        width=width,
        gated=_gated(fields, convention),
        bias=convention.moe_bias,
        latent=latent,
        latent_norm=bool(fields.choice("latent_moe_use_norm")) and latent is not None,
        shared_width=shared_total,
        shared_gate=gate,
        router_bias=convention.router_bias or bool(fields.choice("router_bias")),
        router_elements=scales,
        zero_experts=zero,
        # A router of several layers stands among the loose tensors of its layer.
        router=not fields.has("router_hidden_size"),
    )


def _shared(fields: Fields, layer: int, width: int, convention: Convention) -> tuple[int, bool]:
    """Width of all shared experts together, and whether a gate scales them (Qwen)."""
    width_field = fields.find(*SHARED_WIDTH)
    count = fields.per_layer(*SHARED_COUNT, layer=layer, kind="experts")
    if width_field is not None:
        total = fields.per_layer(width_field[0], layer=layer) or 0
        if count == 0:
            total = 0
        has_gate = convention.shared_gate
        if has_gate is None:
            has_gate = width_field[0] == "shared_expert_intermediate_size"
        return total, has_gate and total > 0
    if count is None:
        count = convention.shared_experts
    return count * width, False


def _gated(fields: Fields, convention: Convention) -> bool:
    """Whether the block has a gate: by its activation, else by the habit of its class."""
    kind = fields.text("mlp_type")
    if kind is not None:
        return kind != "default"
    act = fields.text("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function", "activation")
    if act in _UNGATED:
        return False
    return convention.gated


def _bias(fields: Fields, convention: Convention) -> bool:
    switch = fields.choice("mlp_bias", "use_bias", "bias", "add_bias_linear", "enable_bias")
    return convention.mlp_bias if switch is None else switch


def _adjusted(fields: Fields, width: int) -> int:
    """LFM2 stores the width of an ungated block and shrinks it by 2/3, rounded up."""
    width = int(2 * width / 3)
    width = int(fields.number("block_ffn_dim_multiplier", default=1.0) * width)
    multiple = fields.integer("block_multiple_of", default=256)
    return multiple * -(-width // multiple)
