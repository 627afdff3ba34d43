"""Fields of a config -> the state-keeping mixer of one layer."""

from __future__ import annotations

from rackmath.errors import InputError, NotUnderstood
from rackmath.models.config.attention import HEAD_DIM, query_heads
from rackmath.models.config.conventions import LLAMA, Convention
from rackmath.models.config.fields import Fields
from rackmath.models.mixers import GatedDelta, KimiDelta, Lightning, Mamba1, Mamba2, MatrixMemory, ShortConvolution
from rackmath.models.recurrent_weights import Recurrent

_MAMBA2_HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "mamba_nheads")
_STATE = ("mamba_d_state", "ssm_state_size", "state_size", "d_state")
_KERNEL = ("mamba_d_conv", "conv_kernel", "d_conv")


def recurrent_mixer(fields: Fields, hidden: int, convention: Convention = LLAMA) -> Recurrent:
    """Tell the kind by the fields that are present.

    Errors: :class:`NotUnderstood` where a recurrent layer is announced, but no known
    family of fields describes it.
    """
    if fields.has("linear_num_value_heads"):
        return _gated_delta(fields)
    if fields.has("linear_attn_config", "linear_num_heads", "kda_lower_bound", "kda_safe_gate"):
        return _kimi_delta(fields, convention)
    if fields.has("conv_L_cache"):
        return ShortConvolution(kernel=fields.integer("conv_L_cache"), bias=fields.flag("conv_bias", default=False))
    if fields.has("qk_dim_factor"):
        return _matrix_memory(fields, hidden)
    if fields.has(*_MAMBA2_HEADS) or (fields.has("n_groups") and fields.has(*_STATE)):
        return _mamba2(fields, hidden)
    if fields.has(*_STATE):
        return _mamba1(fields, hidden)
    if fields.has("attn_type_list", "linear_attn_alpha_factor", "layernorm_linear_attention_alpha"):
        heads = query_heads(fields)
        dim = fields.optional(*HEAD_DIM) or hidden // heads
        return Lightning(heads=heads, dim=dim)
    raise NotUnderstood(
        "layer_types", "a recurrent layer", "its fields (linear_*, mamba_*, conv_*) are not in the config"
    )


def _gated_delta(fields: Fields) -> GatedDelta:
    value_heads = fields.integer("linear_num_value_heads", kind="heads")
    value_dim = fields.integer("linear_value_head_dim")
    key_heads = fields.integer("linear_num_key_heads", kind="heads")
    if value_heads % key_heads:
        raise InputError("linear_num_key_heads", key_heads, f"must divide linear_num_value_heads {value_heads}")
    return GatedDelta(
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=fields.integer("linear_key_head_dim"),
        value_dim=value_dim,
        kernel=fields.integer("linear_conv_kernel_dim", default=4),
        norm_elements=value_dim,
    )


def _kimi_delta(fields: Fields, convention: Convention) -> KimiDelta:
    linear_fields = fields.mapping("linear_attn_config")
    inner = fields if linear_fields is None else Fields(linear_fields)
    if linear_fields is not None:
        inner.ignore(("kda_layers", "full_attn_layers"))
    mixer = KimiDelta(
        heads=inner.integer("linear_num_heads", "num_heads", "num_attention_heads", kind="heads"),
        dim=inner.integer("linear_head_dim", "head_dim"),
        kernel=inner.integer("short_conv_kernel_size", "linear_conv_kernel_dim", default=4),
        full_rank_gate=bool(inner.choice("use_full_rank_gate")) or convention.full_rank_gates,
        full_rank_decay=convention.full_rank_gates,
    )
    fields.defaulted += [entry for entry in inner.defaulted if entry not in fields.defaulted]
    return mixer


def _mamba2(fields: Fields, hidden: int) -> Mamba2:
    heads = fields.integer(*_MAMBA2_HEADS, "num_heads", kind="heads")
    dim = fields.optional("mamba_d_head", "mamba_head_dim", "mamba_headdim", low=1)
    if dim is None and not fields.has(*_MAMBA2_HEADS):
        dim = fields.optional("head_dim", low=1)
    if dim is None:
        expand = fields.integer("mamba_expand", "expand", default=2)
        if (expand * hidden) % heads:
            raise InputError("mamba_d_head", None, f"{expand} x {hidden} does not divide by {heads} heads; give it")
        dim = expand * hidden // heads
    fields.ignore(("mamba_expand", "expand", "mamba_d_ssm", "mamba_chunk_size", "chunk_size"))
    has_norm = fields.choice("mamba_rms_norm")
    has_bias = bool(fields.choice("mamba_proj_bias", "add_bias_linear", "use_bias"))
    out_biased = fields.choice("projectors_bias")
    return Mamba2(
        heads=heads,
        head_dim=dim,
        groups=fields.integer("mamba_n_groups", "mamba_ngroups", "n_groups", kind="heads", default=1),
        state=fields.integer(*_STATE),
        kernel=fields.integer(*_KERNEL, default=4),
        conv_bias=fields.flag("mamba_conv_bias", "use_conv_bias", default=True),
        proj_bias=has_bias,
        out_bias=has_bias if out_biased is None else out_biased,
        norm_elements=0 if has_norm is False else heads * dim,
    )


def _mamba1(fields: Fields, hidden: int) -> Mamba1:
    inner = fields.integer("mamba_expand", "expand", default=2) * hidden
    if not fields.has("mamba_expand", "num_attention_heads"):
        # Pure Mamba states its inner width; an expansion beside it is not read.
        inner = fields.optional("intermediate_size", low=1) or inner
    state = fields.integer(*_STATE)
    step_rank = fields.find("mamba_dt_rank", "time_step_rank")
    if step_rank is None or step_rank[1] == "auto":
        rank = -(-hidden // 16)
        fields.default("mamba_dt_rank", f"{rank} (hidden_size / 16)")
    else:
        rank = fields.integer(step_rank[0])
    # Jamba normalises the low-rank inputs; pure Mamba has no attention beside it and no norms.
    has_norms = fields.has("attn_layer_period", "layers_block_type")
    return Mamba1(
        inner=inner,
        state=state,
        rank=rank,
        kernel=fields.integer(*_KERNEL, default=4),
        conv_bias=fields.flag("mamba_conv_bias", "use_conv_bias", default=True),
        proj_bias=bool(fields.choice("mamba_proj_bias", "use_bias")),
        norm_elements=rank + 2 * state if has_norms else 0,
    )


def _matrix_memory(fields: Fields, hidden: int) -> MatrixMemory:
    heads = fields.integer("num_heads", "num_attention_heads", kind="heads")
    round_up = fields.integer("mlstm_round_up_to_multiple_of", default=64)
    key = _rounded(hidden * fields.number("qk_dim_factor", default=0.5), round_up)
    value = _rounded(hidden * fields.number("v_dim_factor", default=1.0), round_up)
    if key % heads or value % heads:
        raise InputError("num_heads", heads, f"must divide the widths {key} and {value}")
    fields.ignore(HEAD_DIM)
    return MatrixMemory(
        heads=heads,
        key_dim=key // heads,
        value_dim=value // heads,
        bias=bool(fields.choice("use_bias")),
    )


def _rounded(width: float, multiple: int) -> int:
    return int(-(-width // multiple) * multiple)
