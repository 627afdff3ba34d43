"""What a model class does without saying so in its config.

``model_type`` names the class that interprets a config, like the version of a
schema. Some of its habits have no field: Qwen2 always has biases on queries, keys
and values; Qwen3 always normalises heads; Gemma 2 has four norms per layer. This
table holds those habits, checked against transformers. It never holds a size: sizes
come from fields. An unknown class is read as a Llama-like one, and the reader
reports that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rackmath.errors import NotUnderstood


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Habits of one model class; the defaults are those of Llama."""

    tied: bool = False
    gated: bool = True
    norm_vectors: int = 1
    """Vectors per norm: 1 scale, 2 scale and shift, 0 without parameters."""
    norms: int = 2
    final_norm: bool = True
    query_bias: bool = False
    kv_bias: bool | None = None
    """Bias on keys and values if it differs from that on queries."""
    out_bias: bool | None = None
    """Bias on the output projection; None follows the ``attention_bias`` field."""
    mlp_bias: bool = False
    qk_norm: str = "none"
    """none, head (one norm per head width), full (whole projection), free (no weights)."""
    qk_norm_if_on: str = "head"
    output_gate: bool = False
    positions: int | None = None
    """Extra rows of a learnt position table; None without a table."""
    head_bias: bool = False
    parallel: bool = False
    window_period: int | None = None
    """Every n-th layer is global where the config gives a window but no pattern."""
    window_everywhere: bool = True
    """Whether a window without any pattern applies to all layers."""
    shared_experts: int = 0
    router_bias: bool = False
    router_scales: str = "none"
    """none, experts (one element each), gemma4 (hidden + experts)."""
    moe_bias: bool = False
    sinks: bool = False
    extra_norms_elements: int = 0
    fused_queries: bool = False
    """Whether checkpoints hold queries, keys and values as one matrix."""
    fused_width: bool = False
    """True where ``intermediate_size`` counts gate and up together (twice the width)."""
    embedding_norm: bool = False
    full_rank_gates: bool = False
    """Whether gates of a delta rule are one matrix each, and attention has a gate per head."""
    expert_norm: bool = False
    """Whether a norm follows each mixture of experts."""
    shared_gate: bool | None = None
    """Whether a gate scales the shared expert; None tells by the name of its width field."""


LLAMA = Convention()
LAYER_NORM = Convention(norm_vectors=2)
_GPT = Convention(
    tied=True,
    gated=False,
    norm_vectors=2,
    query_bias=True,
    out_bias=True,
    mlp_bias=True,
    positions=0,
    fused_queries=True,
)
_GEMMA = Convention(tied=True)
_GEMMA2 = Convention(tied=True, norms=4, window_period=2)
_GEMMA3 = Convention(tied=True, norms=4, qk_norm="head", window_period=6)
_QWEN2 = Convention(query_bias=True, out_bias=False, window_everywhere=False)
_QWEN3 = Convention(qk_norm="head", window_everywhere=False)
_QWEN_NEXT = Convention(qk_norm="head", output_gate=True)
_COHERE = Convention(tied=True, norms=1, parallel=True, qk_norm_if_on="full", window_period=4)

CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "afmoe": Convention(norms=4, qk_norm="head", output_gate=True, router_scales="experts"),
        "apertus": Convention(gated=False, qk_norm="head", extra_norms_elements=2),
        "arcee": Convention(gated=False),
        "axk1": Convention(expert_norm=True),
        "bailing_hybrid": Convention(full_rank_gates=True),
        "bamba": LLAMA,
        "biogpt": replace(_GPT, positions=2, fused_queries=False),
        "bloom": replace(_GPT, positions=None, embedding_norm=True),
        "chatglm": Convention(fused_queries=True),
        "codegen": Convention(
            gated=False, norm_vectors=2, norms=1, mlp_bias=True, head_bias=True, parallel=True, out_bias=False
        ),
        "cohere": _COHERE,
        "cohere2": _COHERE,
        "cohere2_moe": _COHERE,
        "cwm": Convention(window_period=4),
        "dbrx": Convention(norm_vectors=1, fused_queries=True),
        "deepseek": LLAMA,
        "deepseek_v2": LLAMA,
        "deepseek_v3": LLAMA,
        "deepseek_v32": LLAMA,
        "deepseek_v4": LLAMA,
        "dots1": Convention(qk_norm="head"),
        "ernie4_5": Convention(tied=True),
        "ernie4_5_moe": Convention(tied=True, router_scales="experts"),
        "exaone4": Convention(qk_norm="head", window_period=4),
        "exaone_moe": Convention(qk_norm="head", window_period=4),
        "falcon": Convention(tied=True, gated=False, norm_vectors=2, fused_queries=True),
        "falcon_h1": LLAMA,
        "falcon_mamba": Convention(tied=True),
        "flex_olmo": Convention(qk_norm="full"),
        "gemma": _GEMMA,
        "gemma2": _GEMMA2,
        "gemma3": _GEMMA3,
        "gemma3n": _GEMMA3,
        "gemma4": replace(_GEMMA3, router_scales="gemma4"),
        "glm": Convention(query_bias=True, out_bias=False),
        "glm4": Convention(query_bias=True, out_bias=False, norms=4),
        "glm4_moe": Convention(out_bias=False),
        "glm4_moe_lite": LLAMA,
        "glm_moe_dsa": LLAMA,
        "gpt2": _GPT,
        "gpt_bigcode": _GPT,
        "gpt_neo": replace(_GPT, query_bias=False, fused_queries=False),
        "gpt_neox": Convention(
            gated=False, norm_vectors=2, query_bias=True, mlp_bias=True, parallel=True, fused_queries=True
        ),
        "gpt_oss": Convention(query_bias=True, sinks=True, router_bias=True, moe_bias=True, window_period=2),
        "gptj": Convention(
            gated=False, norm_vectors=2, norms=1, mlp_bias=True, head_bias=True, parallel=True, out_bias=False
        ),
        "granite": LLAMA,
        "granite_swa": Convention(tied=True, sinks=True),
        "granitemoe": LLAMA,
        "granitemoehybrid": LLAMA,
        "granitemoeshared": LLAMA,
        "helium": LLAMA,
        "hunyuan_v1_dense": Convention(qk_norm="head"),
        "hunyuan_v1_moe": Convention(qk_norm="head"),
        "inkling2": Convention(window_everywhere=False),
        "internlm3": LLAMA,
        "iquestcoder": LLAMA,
        "jais2": Convention(gated=False, norm_vectors=2, query_bias=True, mlp_bias=True),
        "jamba": LLAMA,
        "kimi_k2": LLAMA,
        "kimi_linear": LLAMA,
        "hy_v3": Convention(qk_norm="head"),
        "kolibri1": Convention(norms=4, qk_norm="head", shared_gate=False),
        "laguna": Convention(qk_norm="head", router_scales="experts", shared_gate=False),
        "lfm2": Convention(tied=True, qk_norm="head"),
        "lfm2_moe": Convention(tied=True, qk_norm="head"),
        "lfm3": Convention(tied=True, qk_norm="head"),
        "llama": LLAMA,
        "llama4": Convention(qk_norm="free", qk_norm_if_on="free", shared_experts=1),
        "longcat_flash": LLAMA,
        "mamba": Convention(tied=True),
        "mamba2": LLAMA,
        "mimo": _QWEN2,
        "mimo_v2_flash": LLAMA,
        "minicpm": Convention(tied=True),
        "minicpm3": Convention(tied=True),
        "minimax": LLAMA,
        "minimax_m1": LLAMA,
        "minimax_m2": Convention(qk_norm="full", qk_norm_if_on="full"),
        "minimax_m3_vl": Convention(qk_norm="head"),
        "ministral": LLAMA,
        "mistral": LLAMA,
        "mixtral": LLAMA,
        "mpt": Convention(tied=True, gated=False, fused_queries=True),
        "nanochat": Convention(gated=False, norm_vectors=0, qk_norm="free"),
        "nemotron": Convention(gated=False, norm_vectors=2),
        "nemotron-nas": LLAMA,
        "nemotron_h": Convention(gated=False, norms=1),
        "olmo": Convention(norm_vectors=0),
        "mellum": Convention(qk_norm="head"),
        "olmo_hybrid": Convention(qk_norm="full"),
        "olmo2": Convention(qk_norm="full"),
        "olmo3": Convention(qk_norm="full", window_period=4),
        "olmoe": Convention(qk_norm="full"),
        "opt": replace(_GPT, positions=2, fused_queries=False),
        "orion": LAYER_NORM,
        "persimmon": Convention(gated=False, norm_vectors=2, query_bias=True, out_bias=True, mlp_bias=True),
        "phi": Convention(
            gated=False,
            norm_vectors=2,
            norms=1,
            query_bias=True,
            out_bias=True,
            mlp_bias=True,
            head_bias=True,
            parallel=True,
        ),
        "phi3": Convention(fused_queries=True),
        "phimoe": LAYER_NORM,
        "qwen": Convention(query_bias=True, out_bias=False, fused_width=True),
        "qwen2": _QWEN2,
        "qwen2_moe": _QWEN2,
        "qwen3": _QWEN3,
        "qwen3_moe": _QWEN3,
        "qwen3_next": _QWEN_NEXT,
        "qwen3_5": _QWEN_NEXT,
        "qwen3_5_moe": _QWEN_NEXT,
        "seed_oss": Convention(query_bias=True, out_bias=False),
        "smollm3": Convention(tied=True),
        "solar_open": LLAMA,
        "stablelm": Convention(norm_vectors=2, out_bias=False),
        "starcoder2": Convention(tied=True, gated=False, norm_vectors=2, query_bias=True, out_bias=True, mlp_bias=True),
        "vaultgemma": Convention(tied=True, window_period=2),
        "xlstm": LLAMA,
        "youtu": Convention(tied=True),
        "zamba2": Convention(tied=True),
        "zaya": Convention(tied=True),
    }
)

UNREADABLE: Mapping[str, str] = MappingProxyType(
    {
        "axk2": "its gated norms are not modelled",
        "diffllama": "differential attention is not modelled",
        "doge": "its dynamic mask attention is not modelled",
        "dots3_note": "its layer-wise latent widths are not modelled",
        "hy_v4": "its hyper-connections are not those of DeepSeek V4",
        "inkling": "its convolutions and relative positions are not modelled",
        "jetmoe": "its attention is itself a mixture of experts",
        "recurrent_gemma": "its gated linear recurrence is not modelled",
        "reformer": "hashed attention is not modelled",
        "rwkv": "its time mixing is not modelled",
        "xlnet": "two-stream attention is not modelled",
        "zamba": "its shared blocks are not those of Zamba 2",
    }
)
"""Classes that fields cannot describe: refused, since a Llama-like reading would be wrong."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "baichuan": "llama",
        "chatglm3": "chatglm",
        "deepseek_v31": "deepseek_v3",
        "internlm2": "llama",
        "kimi_k25": "kimi_k2",
        "kimi_k3": "kimi_linear",
        "minimax_text_01": "minimax",
        "mistral3": "mistral",
        "mllama": "llama",
        "mllama_text_model": "llama",
        "deepseek_ref": "deepseek_v2",
        "minimax_m3": "minimax_m3_vl",
        "phi-msft": "phi",
        "qwen2_vl": "qwen2",
        "qwen2_5_vl": "qwen2",
        "qwen2_5_omni_text": "qwen2",
        "qwen3_vl": "qwen3",
        "qwen3_vl_moe": "qwen3_moe",
        "qwen3_omni_moe": "qwen3_moe",
        "RefinedWeb": "falcon",
        "RefinedWebModel": "falcon",
        "yi": "llama",
    }
)


def convention_of(model_types: list[str]) -> tuple[Convention, str | None]:
    """Habits of the first class that is known, and its name (None: Llama-like).

    Errors: :class:`NotUnderstood` for a class that fields cannot describe.
    """
    for name in model_types:
        stem = name.removesuffix("_text")
        if stem in UNREADABLE:
            raise NotUnderstood("model_type", name, UNREADABLE[stem])
        for candidate in (name, stem, ALIASES.get(name, ""), ALIASES.get(stem, "")):
            if candidate in CONVENTIONS:
                return CONVENTIONS[candidate], candidate
    return LLAMA, None
