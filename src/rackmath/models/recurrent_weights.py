"""Tensors of mixers that keep a state instead of a growing cache."""

from __future__ import annotations

from collections.abc import Iterator

from rackmath.models.architecture import Weight
from rackmath.models.mixers import GatedDelta, KimiDelta, Lightning, Mamba1, Mamba2, MatrixMemory, ShortConvolution

Recurrent = GatedDelta | KimiDelta | Mamba1 | Mamba2 | Lightning | ShortConvolution | MatrixMemory

_ROLE = "recurrent"


def recurrent_weights(mixer: Recurrent, hidden: int) -> Iterator[Weight]:
    """Tensors of one linear-attention, state-space or convolution block."""
    match mixer:
        case GatedDelta():
            return _gated_delta(mixer, hidden)
        case KimiDelta():
            return _kimi_delta(mixer, hidden)
        case Mamba1():
            return _mamba1(mixer, hidden)
        case Mamba2():
            return _mamba2(mixer, hidden)
        case Lightning():
            return _lightning(mixer, hidden)
        case ShortConvolution():
            return _short_convolution(mixer, hidden)
        case MatrixMemory():
            return _matrix_memory(mixer, hidden)


def _matrix(name: str, inputs: int, outputs: int, split: str = "heads") -> Weight:
    return Weight(name=name, role=_ROLE, rows=outputs, columns=inputs, split=split)


def _vector(name: str, elements: int, split: str = "heads") -> Weight:
    return Weight(name=name, role=_ROLE, rows=elements, multiplied=False, split=split)


def _gated_delta(m: GatedDelta, hidden: int) -> Iterator[Weight]:
    keys, values = m.key_heads * m.key_dim, m.value_heads * m.value_dim
    yield _matrix("linear_attn.in_proj_qkv", hidden, 2 * keys + values)
    yield _matrix("linear_attn.in_proj_z", hidden, values * m.out_gate)
    yield _matrix("linear_attn.in_proj_b", hidden, m.value_heads)
    yield _matrix("linear_attn.in_proj_a", hidden, m.value_heads)
    yield _vector("linear_attn.conv1d", m.kernel * (2 * keys + values))
    yield _vector("linear_attn.decay", 2 * m.value_heads)
    yield _vector("linear_attn.norm", m.norm_elements)
    yield _matrix("linear_attn.out_proj", values, hidden)


def _kimi_delta(m: KimiDelta, hidden: int) -> Iterator[Weight]:
    width = m.heads * m.dim
    for leaf in ("q_proj", "k_proj", "v_proj"):
        yield _matrix(f"self_attn.{leaf}", hidden, width)
        yield _vector(f"self_attn.{leaf}.conv1d", width * m.kernel)
    if m.full_rank_decay:
        yield _matrix("self_attn.f_proj", hidden, width)
    else:
        yield _matrix("self_attn.f_a_proj", hidden, m.dim, "none")
        yield _matrix("self_attn.f_b_proj", m.dim, width)
    if m.full_rank_gate:
        yield _matrix("self_attn.g_proj", hidden, width)
    else:
        yield _matrix("self_attn.g_a_proj", hidden, m.dim, "none")
        yield _matrix("self_attn.g_b_proj", m.dim, width)
    yield _matrix("self_attn.b_proj", hidden, m.heads)
    yield _vector("self_attn.decay", m.heads + width)
    yield _vector("self_attn.o_norm", m.dim)
    yield _matrix("self_attn.o_proj", width, hidden)


def _mamba1(m: Mamba1, hidden: int) -> Iterator[Weight]:
    low = m.rank + 2 * m.state
    yield _matrix("mixer.in_proj", hidden, 2 * m.inner)
    yield _vector("mixer.in_proj.bias", 2 * m.inner * m.proj_bias)
    yield _vector("mixer.conv1d", m.inner * (m.kernel + m.conv_bias))
    yield _matrix("mixer.x_proj", m.inner, low)
    yield _matrix("mixer.dt_proj", m.rank, m.inner)
    yield _vector("mixer.dt_proj.bias", m.inner)
    yield _vector("mixer.A_log", m.inner * m.state)
    yield _vector("mixer.D", m.inner)
    yield _vector("mixer.norm", m.norm_elements)
    yield _matrix("mixer.out_proj", m.inner, hidden)
    yield _vector("mixer.out_proj.bias", hidden * m.proj_bias, "none")


def _mamba2(m: Mamba2, hidden: int) -> Iterator[Weight]:
    convolution_width = m.inner + 2 * m.groups * m.state
    projection_width = m.inner + convolution_width + m.heads
    yield _matrix("mixer.in_proj", hidden, projection_width)
    yield _vector("mixer.in_proj.bias", projection_width * m.proj_bias)
    yield _vector("mixer.conv1d", convolution_width * (m.kernel + m.conv_bias))
    yield _vector("mixer.decay", 3 * m.heads)
    yield _vector("mixer.norm", m.norm_elements)
    yield _matrix("mixer.out_proj", m.inner, hidden)
    yield _vector("mixer.out_proj.bias", hidden * m.out_bias, "none")


def _lightning(m: Lightning, hidden: int) -> Iterator[Weight]:
    width = m.heads * m.dim
    yield _matrix("self_attn.qkv_proj", hidden, 3 * width)
    yield _matrix("self_attn.output_gate", hidden, width)
    yield _vector("self_attn.norm", width)
    yield _matrix("self_attn.out_proj", width, hidden)


def _short_convolution(m: ShortConvolution, hidden: int) -> Iterator[Weight]:
    yield _matrix("conv.in_proj", hidden, 3 * hidden, "width")
    yield _vector("conv.in_proj.bias", 3 * hidden * m.bias, "width")
    yield _vector("conv.conv", hidden * (m.kernel + m.bias), "width")
    yield _matrix("conv.out_proj", hidden, hidden, "width")
    yield _vector("conv.out_proj.bias", hidden * m.bias, "none")


def _matrix_memory(m: MatrixMemory, hidden: int) -> Iterator[Weight]:
    keys, values = m.heads * m.key_dim, m.heads * m.value_dim
    for leaf, width in (("q", keys), ("k", keys), ("v", values), ("ogate_preact", values)):
        yield _matrix(f"mlstm_layer.{leaf}", hidden, width)
        yield _vector(f"mlstm_layer.{leaf}.bias", width * m.bias)
    for leaf in ("igate_preact", "fgate_preact"):
        yield _matrix(f"mlstm_layer.{leaf}", hidden, m.heads)
        yield _vector(f"mlstm_layer.{leaf}.bias", m.heads)
    yield _vector("mlstm_layer.multihead_norm", values * (2 if m.bias else 1))
    yield _matrix("mlstm_layer.out_proj", values, hidden)
    yield _vector("mlstm_layer.out_proj.bias", hidden * m.bias, "none")
