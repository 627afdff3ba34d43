"""Tensors outside the usual blocks: per-layer embeddings, hyper-connections, shared blocks, MTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rackmath.models.architecture import Dense, Layer, Weight
from rackmath.models.config.attention import attention
from rackmath.models.config.conventions import Convention
from rackmath.models.config.convolved import model_weights
from rackmath.models.config.feed_forward import dense
from rackmath.models.config.fields import Fields
from rackmath.models.config.recurrent import recurrent_mixer
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector


def loose_weights(
    fields: Fields, hidden: int, vocabulary: int, layers: int, convention: Convention
) -> Iterator[Weight]:
    """Tensors of the model that belong to no layer, but embedding and head."""
    yield vector("norm", "norm", hidden * convention.norm_vectors * convention.final_norm)
    yield from model_weights(fields, hidden)
    if convention.embedding_norm:
        yield vector("embedding_norm", "norm", hidden * convention.norm_vectors)
    if convention.positions is not None:
        rows = fields.integer("n_positions", "max_position_embeddings", "n_ctx", kind="tokens")
        yield Weight(
            name="positions",
            role="other_embedding",
            rows=rows + convention.positions,
            columns=hidden,
            multiplied=False,
            split="vocabulary",
        )
    if fields.has("cross_attention_layers"):
        # Mllama's input embedding has eight rows more than its head.
        yield vector("embed_tokens.extra", "other_embedding", 8 * hidden, "vocabulary")
    width = fields.optional("hidden_size_per_layer_input") or 0
    if width:
        rows = fields.integer("vocab_size_per_layer_input", kind="vocabulary", default=vocabulary)
        yield Weight(
            name="embed_tokens_per_layer",
            role="other_embedding",
            rows=rows,
            columns=layers * width,
            multiplied=False,
            split="vocabulary",
        )
        yield matrix("per_layer_model_projection", "other", hidden, layers * width)
        yield vector("per_layer_projection_norm", "norm", width)
    streams = fields.optional("altup_num_inputs", kind="count") or 0
    if streams > 1:
        for name in ("altup_projections", "altup_unembed_projections"):
            yield replace(matrix(name, "other", hidden, hidden), copies=streams - 1)
    mixing = fields.optional("hc_mult", kind="count", low=1)
    if mixing:
        yield matrix("hc_head.fn", "other", mixing * hidden, mixing)
        yield vector("hc_head.base", "other", mixing + 1)


def layer_extras(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    """Tensors of one layer beside its mixer and feed-forward."""
    extras: list[Weight] = []
    width = fields.optional("hidden_size_per_layer_input") or 0
    if width:
        extras.append(matrix("per_layer_input_gate", "other", hidden, width))
        extras.append(matrix("per_layer_projection", "other", width, hidden))
        extras.append(vector("post_per_layer_input_norm", "norm", hidden))
    rank = fields.optional("laurel_rank") or 0
    if rank:
        extras.append(matrix("laurel.linear_left", "other", hidden, rank))
        extras.append(matrix("laurel.linear_right", "other", rank, hidden))
        extras.append(vector("laurel.post_laurel_norm", "norm", hidden))
    streams = fields.optional("altup_num_inputs", kind="count") or 0
    if streams > 1:
        extras.append(matrix("altup.modality_router", "other", hidden, streams))
        extras.append(matrix("altup.prediction_coefs", "other", streams, streams * streams))
        extras.append(matrix("altup.correction_coefs", "other", streams, streams))
        extras.append(vector("altup.router_norm", "norm", 2 * hidden))
    mixing = fields.optional("hc_mult", kind="count", low=1)
    if mixing:
        # Hyper-connections: one mixing map before attention, one before the feed-forward.
        outputs = (2 + mixing) * mixing
        extras.append(replace(matrix("hyper_connection.fn", "other", mixing * hidden, outputs), copies=2))
        extras.append(vector("hyper_connection.base", "other", 2 * (outputs + 3)))
    return tuple(extras)


def shared_block(fields: Fields, hidden: int, index: int, convention: Convention) -> Layer:
    """Zamba 2: a state-space layer behind a transformer block whose weights repeat.

    The first ``num_mem_blocks`` of these own the weights; adapters are each layer's own.
    """
    is_own = index < fields.integer("num_mem_blocks", kind="count", default=1)
    width = fields.optional("attention_hidden_size") or 2 * hidden
    mixer = attention(fields, "full", 0, hidden, convention)
    if isinstance(mixer, Grouped):
        mixer = replace(mixer, input_width=width, owned=is_own)
    feed = dense(fields, 0, hidden, convention)
    adapters = fields.choice("use_shared_mlp_adapter")
    rank = fields.integer("adapter_rank", default=128) if adapters is not False else 0
    extras = [matrix("linear", "other", hidden, hidden)]
    fields.ignore(("use_shared_attention_adapter",))
    if is_own:
        extras.append(vector("shared.norms", "norm", width + hidden))
    if isinstance(mixer, Grouped) and fields.choice("use_shared_attention_adapter"):
        for outputs in (
            mixer.query_heads * mixer.key_dim,
            mixer.kv_heads * mixer.key_dim,
            mixer.kv_heads * mixer.value_dim,
        ):
            extras.append(matrix("adapter.down", "other", width, rank))
            extras.append(matrix("adapter.up", "other", rank, outputs))
    return Layer(
        mixers=(mixer, recurrent_mixer(fields, hidden)),
        feed_forwards=(Dense(width=feed.width, gated=feed.gated, bias=feed.bias, owned=is_own, adapter_rank=rank),),
        norm_elements=hidden,
        extras=tuple(extras),
    )


def mtp_layers(fields: Fields, layers: list[Layer], hidden: int) -> tuple[Layer, ...]:
    """Multi-token-prediction layers: the last decoder layer, a 2h -> h projection, three norms."""
    count = fields.optional(
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers", kind="layers"
    )
    fields.ignore(("mtp_layers_block_type", "mtp_hybrid_override_pattern", "mtp_transformer_layers", "use_mtp"))
    if not count:
        return ()
    last = layers[-1]
    merge = (matrix("eh_proj", "other", 2 * hidden, hidden), vector("mtp.norms", "norm", 3 * hidden))
    return (replace(last, extras=(*last.extras, *merge)),) * count
