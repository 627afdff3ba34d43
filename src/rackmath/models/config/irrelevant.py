"""Keys that change no count, so that only the rest is reported as not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PATTERN = re.compile(
    r"""
    .*_token(_id|_ids|_index)?$ | .*token_id(s)?$ | ^(boi|eoi|boa|eoa|im|eod|sep|pad|cls|unk|mask|text|image|video)_.* |
    .*dropout.* | .*_pdrop$ | .*(^|_)eps(ilon)?$ | .*rope.* | .*rotary.* | .*theta.* | .*_range$ | .*initializer.* |
    .*(^|_)init(_.*)?$ | .*aux_loss.* | .*loss.* | .*softcap.* | .*soft_cap.* | .*multiplier.* | .*scaling.* | .*jitter.* |
    ^output_.* | ^use_cache$ | .*chunk_size.* | .*_version$ | ^_.* | .*attn_implementation.* | ^id2label$ | ^label2id$ |
    ^time_step.* | .*vision.* | .*audio.* | .*image.* | .*video.* | .*mm_.* | .*projector.* | ^vit_.* | .*cache_dtype$ |
    .*dtype$ | ^auto_map$ | .*kernel.*backend.* | ^torchscript$ | .*tokenizer.* | .*beams?.* | .*ngram.* | ^pruned_heads$ |
    .*length.* | ^max_.* | ^temperature$ | ^top_[kp]$ | .*_task.*|.*task_.* | ^is_.* | ^return_.* | .*residual_in_fp32$ |
    .*topk_(group|method|pattern|freq|offset)$ | ^n_group$ | ^num_expert_group$ | ^norm_topk_prob$ | .*scoring_func$ |
    .*(_|^)freq$ | .*_softmax_in_fp32$ | .*(_|^)scale(d|_attn.*)?$ | ^pretraining_tp$ | ^ep_size$ | .*_limit$ | .*_alpha$ |
    .*_beta$ | .*_lower_bound$ | ^bad_words.* | .*penalty.* | ^problem_type$ | ^do_sample$ | .*early_stopping$ | ^prefix$ |
    .*_drop_.* | .*cross_attention.* | .*num_return.* | .*suppress.* | .*kernel$ | .*_mode$ | ^mode$ | .*num_logits.*
    """,
    re.VERBOSE,
)

_NAMES = frozenset(
    """
    no_bias typical_p context_window_size first_k_dense_replace full_attention_interval hybrid_layer_ids
    activation activation_function add_bos_token add_classification_head alibi apply_query_key_layer_scaling
    apply_residual_connection_post_layernorm attn_logit_softcapping attn_res_block_size bf16 fp16 fp32
    bias_dropout_fusion cache_implementation class_num clip_qkv decoder_sparse_step dense_list finetuning_task
    force_bos_token_insert for_llm_compressor fp32_residual_connection gguf gradient_checkpointing
    group_limited_greedy hc_eps hc_sinkhorn_iters hidden_act hidden_activation hidden_dropout index_skip_topk_offset
    index_share_for_mtp_iteration index_topk_freq indexer_rope_interleave initial_context_length layerdrop
    mamba_ssm_dtype mamba_norm_before_gate mamba_chunk_size mamba_hidden_act mla_use_nope mlp_hidden_act
    model_type moe_norm_min moe_renormalize moe_router_activation_func moe_router_dtype moe_shared_expert_overlap
    mtp_use_dedicated_embeddings mtp_transformer_layers nextn_layers no_rope_layer_interval no_rope_layers norm_type
    normalization_function num_hash_layers num_ln_in_parallel_attn num_media_embeds num_reward_heads
    org_vocab_size original_max_position_embeddings partial_rotary_factor pool_type position_embedding_type
    post_layer_norm processor_class qk_head_dim query_pre_attn_scalar quantization remove_invalid_values
    reorder_and_upcast_attn rescale_prenorm_residual rms_norm rmsnorm router_bias_update_rate sep_token
    seq_aux skip_cls_token swiglu_limit tie_encoder_decoder topk_group transformers_version use_bfloat16
    use_bidirectional_attention use_dynamic_ntk use_expert_bias use_flash_attn use_gemma_norm use_grouped_topk
    use_logn_attn use_long_context use_mamba_kernels use_mem_eff_path use_mem_rope use_mrope use_routing_bias
    use_unified_vision_chunk architectures torch_dtype dtype rope_parameters quantization_config tf_legacy_loss
    use_mixed_mlp_moe ignore_index summary_type summary_use_proj summary_activation summary_proj_to_labels
    norm_reduction_force_float32 add_forward_backend_padding prefill_chunk_size vocab_size_per_layer_input
    mamba_use_mlp mlp_expansion_factor projectors_bias spatial_merge_size use_bidirectional_mask output_past
    sliding_window max_window_layers use_sliding_window layer_norm_epsilon cell_norm_eps add_out_norm
    add_post_blocks_norm add_post_norm weight_mode moe_random_routing_dropped_token output_dim mup_enabled
    anyres_pooling_size anyres_vit_two_views boi eoi routed_scaling_factor route_scale use_mla
    use_rotary_pos_emb position_embedding_xdrope num_query_groups ffn_hidden_size intermediate_size
    head_dim kv_channels attention_hidden_size swa_rope_theta rope_theta transformers.js_config
    moe_intermediate_size num_key_value_heads n_embd n_ctx n_inner num_blocks hidden_size embedding_dim vocab_size
    """.split()
)


def not_understood(config: Mapping[str, Any], used: set[str]) -> Iterator[str]:
    """Keys that were neither read nor are known to be irrelevant, and carry a value."""
    for key, value in sorted(config.items()):
        if key in used or value in (None, False, 0, [], {}, "") or key in _NAMES or _PATTERN.match(key):
            continue
        if isinstance(value, Mapping):
            continue
        yield key
