"""Figures of models that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models import counts
from rackmath.models.architecture import Architecture, Experts, Layer, ParameterTotals
from rackmath.models.cache import Cache, cache_bytes, stored_bytes
from rackmath.models.cache_blocks import cache_blocks
from rackmath.models.config import read_config
from rackmath.models.config.changes import numbers_of
from rackmath.models.formats import BF16, FP32, weight_format
from rackmath.models.loaded import Multiples, loaded_weights
from rackmath.models.mixer_operators import mixer_traffic
from rackmath.models.mixers import BlockIndex, Compressed, Grouped, Indexer, Mamba2
from rackmath.models.operator import Pass
from rackmath.models.operators import operators
from rackmath.models.requantise import requantise
from rackmath.models.routing import INTERVAL
from rackmath.models.totals import totals_of_config
from rackmath.models.weights import layer_weights, weight_parts


def test_what_a_sequence_of_llama_holds() -> None:
    """2 · 8 heads · 128 · 32 layers at 16 bit for each of 1,000 tokens."""
    assert cache_bytes(catalogue.model("llama-3.1-8b"), 1000.0) == 1000 * 2 * 8 * 128 * 32 * 2


def test_an_entry_for_several_tokens_is_held_when_they_are_all_there() -> None:
    cache = Cache(growing=96, per=4)
    for context, entries in ((3, 0), (4, 1), (7, 1), (1001, 250)):
        assert stored_bytes(cache, float(context), BF16, FP32) == entries * 96 * 2


def test_attention_of_a_pass_is_one_matrix_for_each_sequence_and_pair_of_heads() -> None:
    work = Pass(phase="decode", sequences=7.0, new_tokens=1.0, context=500.0)
    attention = next(op for op in operators(catalogue.model("llama-3.1-8b"), work) if op.name == "attention")
    assert attention.matrices == pytest.approx(7 * 8)
    assert attention.rows == 500


def test_qwen3_5_9b_has_the_parameters_of_its_checkpoint() -> None:
    """The 775 tensors of the published checkpoint hold 9,653,104,368 numbers: text, vision and a layer that drafts."""
    model = catalogue.model("Qwen/Qwen3.5-9B")
    layers = 6_919_561_728
    assert counts.total_params(model) == layers + 2 * 248_320 * 4096 + 4096
    assert counts.total_params(model) + counts.encoder_params(model) == 9_409_813_744
    assert counts.mtp_params(model) == 9_653_104_368 - 9_409_813_744


def test_qwen3_14b_has_the_parameters_of_its_card() -> None:
    """14.8 B, 13.2 B of them outside of the embedding table and the head."""
    model = catalogue.model("Qwen/Qwen3-14B")
    assert counts.total_params(model) == 14_768_307_200
    assert round(counts.total_params(model) - 2 * 151_936 * 5120, -8) == 13_200_000_000


def test_the_head_runs_once_for_each_prompt_and_for_each_new_token_of_an_answer() -> None:
    model = catalogue.model("llama-3.1-8b")
    for phase, new, rows in (("prefill", 300.0, 7), ("decode", 3.0, 21)):
        work = Pass(phase=phase, sequences=7.0, new_tokens=new, context=500.0)
        head = next(op for op in operators(model, work) if op.role == "head")
        assert float(head.flops) == 2 * rows * 4096 * 128_256
        assert head.matrices == 0


def test_an_expansion_of_latents_moves_them_and_what_they_become() -> None:
    """512 elements in, 128 heads of 128 + 128 out, of each token."""
    work = Pass(phase="prefill", sequences=2.0, new_tokens=10.0, context=10.0)
    expansion = next(op for op in operators(catalogue.model("deepseek-v3"), work) if op.name == "self_attn.kv_b_proj")
    assert float(expansion.activation_bytes) == 20 * (512 + 128 * 256) * 2


def test_a_short_convolution_holds_its_last_inputs_and_no_state() -> None:
    """LFM2: kernels of 3 over a width of 2,048, two FLOPs an element, read and written at 16 bit."""
    work = Pass(phase="decode", sequences=5.0, new_tokens=1.0, context=100.0)
    core = next(op for op in operators(catalogue.model("lfm2-8b-a1b"), work) if op.role == "recurrence")
    assert float(core.flops) == 5 * 2 * 3 * 2048
    assert float(core.cache_read) == float(core.cache_written) == 5 * 3 * 2048 * 2
    assert float(core.activation_bytes) == 0


@pytest.mark.parametrize(("tokens", "met"), [(1.0, 2.0), (3.0, 4.625), (1e6, 8.0)])
def test_a_pass_reads_the_experts_that_its_tokens_meet(tokens: float, met: float) -> None:
    """Mixtral's tokens each choose 2 of 8 experts of 4096 x 14336 in 16 bit: of 8, 8 (1 - (6/8)^n) are met."""
    work = Pass(phase="decode", sequences=tokens, new_tokens=1.0, context=10.0)
    experts = [op for op in operators(catalogue.model("mixtral-8x7b"), work) if op.kind == "experts"]
    assert len(experts) == 3
    for op in experts:
        assert op.weight_bytes == pytest.approx(met * 4096 * 14336 * 2)
        assert op.flops == pytest.approx(tokens * 2 * 2 * 4096 * 14336)


def test_a_layer_that_reads_an_earlier_cache_keeps_the_norm_of_its_queries() -> None:
    """OLMo 2 norms all heads of queries, 8 of 16, and all of keys, 2 of 16, together."""
    config = {
        "model_type": "olmo2", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 1000,
        "num_attention_heads": 8, "num_key_value_heads": 2, "use_cla": True, "cla_share_factor": 2,
    }  # fmt: skip
    owner, reader = (layer.mixers[0] for layer in read_config(config).layers)
    assert isinstance(owner, Grouped)
    assert isinstance(reader, Grouped)
    assert (owner.stores, owner.norm_elements) == (True, (8 + 2) * 16)
    assert (reader.stores, reader.norm_elements) == (False, 8 * 16)


@pytest.mark.parametrize(("name", "moved"), [("self_attn.q_proj", 4096 + 4096), ("mlp.gate_proj", 4096 + 14_336)])
def test_a_product_reads_its_inputs_and_writes_its_outputs(name: str, moved: int) -> None:
    work = Pass(phase="decode", sequences=3.0, new_tokens=1.0, context=500.0)
    product = next(op for op in operators(catalogue.model("llama-3.1-8b"), work) if op.name == name)
    assert float(product.activation_bytes) == 3 * moved * 2


def test_a_norm_reads_and_writes_its_elements() -> None:
    work = Pass(phase="decode", sequences=3.0, new_tokens=1.0, context=500.0)
    norms = [op for op in operators(catalogue.model("llama-3.1-8b"), work) if op.role == "norm" and op.layered]
    # Two norms of 4,096 in each layer.
    assert sum(float(op.activation_bytes) for op in norms) == 3 * 2 * 2 * 4096 * 2


def test_vocabularies_are_padded_to_multiples_of_64_rows() -> None:
    model = replace(catalogue.model("llama-3.1-8b"), vocabulary=50_257)
    loaded = loaded_weights(model, lambda kind, units: 1.0, slices=1.0, multiples=Multiples(), speculative=False)
    # 50,304 rows of 4,096 in 16 bit are 393 MiB; of the last segment of two the allocator cannot give the rest away.
    assert loaded.embedding == loaded.head == pytest.approx(394 * 2**20, rel=1e-12)


def test_experts_in_mxfp4_are_padded_for_their_kernels() -> None:
    """gpt-oss: 2,880 wide both ways; 2,944 in multiples of 128 between the products, 3,072 in multiples of 256 outside."""
    model = catalogue.model("gpt-oss-20b")
    padded, plain = (
        loaded_weights(model, lambda kind, units: 1.0, slices=1.0, multiples=multiples, speculative=False).layers
        for multiples in (Multiples(width=128, hidden=256), Multiples())
    )
    more = counts.weight_bytes(model)["experts"] * (2944 / 2880 * 3072 / 2880 - 1)
    # Of 24 layers each may have a segment's rest of a mebibyte behind it.
    assert padded - plain == pytest.approx(more, abs=24 * 2**20)


def test_matrices_that_are_no_experts_are_not_padded() -> None:
    model = requantise(catalogue.model("llama-3.1-8b"), weights=weight_format("mxfp4"))
    padded, plain = (
        loaded_weights(model, lambda kind, units: 1.0, slices=1.0, multiples=multiples, speculative=False).layers
        for multiples in (Multiples(width=128, hidden=256), Multiples())
    )
    assert padded == plain


def test_a_cache_of_all_layers_alike_is_one_table_of_blocks() -> None:
    blocks = cache_blocks(catalogue.model("llama-3.1-8b"), lambda parts: 1.0, 16)
    (kind,) = blocks.groups
    assert (kind.layers, kind.window, kind.recurrent) == (32, None, False)
    assert blocks.per_sequence(1000.0, 8192.0) == 63
    assert blocks.bytes_per_block == 32 * 16 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(("heads", "dim"), [(8, 25), (10, 20)])
def test_mamba_s_heads_share_twice_the_hidden_width(heads: int, dim: int) -> None:
    config = {
        "model_type": "mamba2", "hidden_size": 100, "num_hidden_layers": 1, "vocab_size": 1000, "num_heads": heads,
        "state_size": 16, "n_groups": 1,
    }  # fmt: skip
    (mixer,) = read_config(config).layers[0].mixers
    assert isinstance(mixer, Mamba2)
    assert (mixer.heads, mixer.head_dim) == (heads, dim)


def test_a_state_space_model_without_heads_has_no_feed_forward_block() -> None:
    config = {
        "model_type": "mamba", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 1000,
        "ssm_state_size": 16, "time_step_rank": 4, "conv_kernel": 4,
    }  # fmt: skip
    for layer in read_config(config).layers:
        assert len(layer.mixers) == 1
        assert layer.feed_forwards == ()


@pytest.mark.parametrize("first", [0, 2, 4])
def test_windows_begin_at_the_layer_that_the_config_names(first: int) -> None:
    """Qwen2: layers from ``max_window_layers`` on see a window, those before see all."""
    config = {
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "vocab_size": 1000,
        "num_attention_heads": 4, "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 32,
        "max_window_layers": first,
    }  # fmt: skip
    mixers = [mixer for layer in read_config(config).layers for mixer in layer.mixers]
    windows = [mixer.window for mixer in mixers if isinstance(mixer, Grouped)]
    assert windows == [None] * first + [32] * (4 - first)


def test_a_query_that_chooses_blocks_reads_its_own() -> None:
    """Two queries of one sequence choose four blocks of 64 tokens each, and one at their own end."""
    index = BlockIndex(heads=1, dim=8, block=64, blocks=4, local_blocks=1)
    a = Grouped(query_heads=6, kv_heads=2, key_dim=6, value_dim=4, blocks=index)
    model = Architecture(name="toy", hidden=16, vocabulary=32, layers=(Layer(mixers=(a,)),))
    seen = mixer_traffic(a, model, 3.0, 2.0, 100_000.0, False)
    assert seen.read == 3 * (2 * 5 * 64) * 2 * (6 + 4) * 2
    # In and out of the heads, in 16 bit.
    assert seen.activations == 3 * 2 * 6 * (6 + 4) * 2
    # No more than there is.
    assert mixer_traffic(a, model, 3.0, 2.0, 500.0, False).read == 3 * 500 * 2 * (6 + 4) * 2


def test_each_query_of_compressed_attention_reads_the_entries_that_it_chooses() -> None:
    """Two queries see windows of 8 tokens, 9 together, and choose 3 of 250 entries each; no more than there are."""
    a = Compressed(
        query_heads=2, head_dim=4, query_rank=8, out_groups=1, out_rank=8, window=8, ratio=4,
        indexer=Indexer(heads=1, dim=4, topk=3),
    )  # fmt: skip
    model = Architecture(name="toy", hidden=16, vocabulary=32, layers=(Layer(mixers=(a,)),))
    assert mixer_traffic(a, model, 5.0, 2.0, 1000.0, False).read == 5 * (9 + 2 * 3) * 4 * 2
    assert mixer_traffic(a, model, 5.0, 2.0, 16.0, False).read == 5 * (9 + 4) * 4 * 2


def test_a_mixture_has_no_shared_expert_that_it_does_not_state() -> None:
    """A router of 4 rows and 4 experts of 3 matrices."""
    layer = Layer(feed_forwards=(Experts(experts=4, active=1, width=8),))
    model = Architecture(name="toy", hidden=16, vocabulary=32, layers=(layer,))
    elements = sum(w.rows * w.columns * w.copies for w in layer_weights(layer, model.hidden) if w.role != "norm")
    assert elements == 4 * 16 + 4 * 3 * 8 * 16


def test_a_query_reads_its_chunk_from_its_start() -> None:
    """Token 10,000 of chunks of 8,192 sees 1,808; the 2,000 tokens up to it begin in the chunk before."""
    a = Grouped(query_heads=2, kv_heads=1, key_dim=4, value_dim=4, chunk=8192)
    model = Architecture(name="toy", hidden=16, vocabulary=32, layers=(Layer(mixers=(a,)),))
    per_token = (4 + 4) * 2
    assert mixer_traffic(a, model, 1.0, 1.0, 10_000.0, False).read == 1808 * per_token
    assert mixer_traffic(a, model, 1.0, 2_000.0, 10_000.0, False).read == 10_000 * per_token


def test_mamba_s_heads_that_do_not_divide_are_refused() -> None:
    config = {
        "model_type": "mamba2", "hidden_size": 100, "num_hidden_layers": 1, "vocab_size": 1000, "num_heads": 16,
        "state_size": 16, "n_groups": 1,
    }  # fmt: skip
    with pytest.raises(InputError, match="2 x 100 does not divide by 16 heads"):
        read_config(config)


@pytest.mark.parametrize(
    ("model", "name", "each"),
    [
        ("deepseek-v3", "attention", 128 * (512 + 64 + 128) * 2),  # A query over the latent, an answer of 128.
        ("qwen3-next-80b-a3b", "recurrence", 32 * (128 + 2 * 128) * 2),  # A key, a value and an answer.
    ],
)
def test_activations_of_a_token_by_head(model: str, name: str, each: int) -> None:
    for phase, new in (("decode", 1.0), ("prefill", 50.0)):
        work = Pass(phase=phase, sequences=3.0, new_tokens=new, context=500.0)
        op = next(op for op in operators(catalogue.model(model), work) if op.name == name)
        assert op.activation_bytes == 3 * new * each


def test_a_plain_encoder_that_merges_three_by_three_patches() -> None:
    """Two blocks of width 64, patches of 14 by 14 in three colours, nine of which become one input of 576."""
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1, "num_attention_heads": 32,
        "intermediate_size": 1024, "vocab_size": 100,
        "vision_config": {"hidden_size": 64, "depth": 2, "num_heads": 4, "patch_size": 14, "spatial_merge_size": 3},
    }  # fmt: skip
    blocks = 2 * (4 * (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64) + 4 * 64)
    patches, wide = 3 * 14 * 14 * 64 + 64, 9 * 64
    merger = wide * wide + wide + wide * 4096 + 4096
    assert counts.encoder_params(read_config(config, "x")) == blocks + patches + merger


def test_a_model_known_by_totals_is_met_in_part() -> None:
    a = Architecture(
        name="closed",
        hidden=8,
        vocabulary=0,
        head=False,
        layers=(Layer(feed_forwards=(ParameterTotals(total=1000, active=250.5),)),),
    )
    assert counts.total_params(a) == 1000
    # Counts that are no whole numbers stay so.
    assert counts.active_params(a) == 250.5
    assert counts.multiplied_params(a) == 250.5


_PLAIN = {
    "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
    "intermediate_size": 3072, "vocab_size": 32_000, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_widths_of_heads_that_a_config_leaves_out_are_whole_numbers() -> None:
    mixer = read_config({"model_type": "llama", **_PLAIN}).layers[0].mixers[0]
    assert isinstance(mixer, Grouped)
    assert (mixer.key_dim, type(mixer.key_dim)) == (128, int)


@pytest.mark.parametrize(("kind", "tied"), [("minicpm", True), ("llama", False), ("gemma2", True)])
def test_classes_that_tie_their_head_by_themselves(kind: str, tied: bool) -> None:
    assert read_config({"model_type": kind, **_PLAIN}).tied == tied


def test_flat_fields_of_a_block_index_count_in_layers_of_its_kind() -> None:
    fields = {
        "index_block_size": 64, "index_head_dim": 128, "index_n_heads": 4, "index_topk_blocks": 16,
        "layer_types": ["full_attention", "minimax_m3_sparse"],
    }  # fmt: skip
    config = {"model_type": "minimax_m3", **_PLAIN, **fields}
    mixers = [layer.mixers[0] for layer in read_config(config).layers]
    assert [isinstance(m, Grouped) and m.blocks is not None for m in mixers] == [False, True]


def test_numbers_of_a_config_are_those_of_its_text_model() -> None:
    assert numbers_of(_PLAIN) == ["layers", "hidden", "width", "heads", "kv_heads", "vocabulary"]
    assert numbers_of({"model_type": "some_vl", "text_config": _PLAIN, "hidden_size": 7}) == numbers_of(_PLAIN)


def test_experts_move_as_often_as_vllm_moves_them() -> None:
    """``EPLBConfig.step_interval`` of vLLM."""
    assert INTERVAL == 3000


def test_a_model_by_totals_may_be_as_large_as_the_largest() -> None:
    config = {"total_params": 10**18, "active_params": 10**12, "kv_bytes_per_token": 70_000}
    assert counts.total_params(totals_of_config(config, "large")) == pytest.approx(1e18)
    with pytest.raises(InputError, match="total_params"):
        totals_of_config({**config, "total_params": 1.1e18}, "larger")


def test_ranks_share_the_heads_of_the_block_that_a_tensor_belongs_to() -> None:
    """Falcon-H1: attention of 12 heads over 4 caches beside a state-space block of 24 heads."""
    layer = Layer(
        mixers=(
            Grouped(query_heads=12, kv_heads=4, key_dim=8, value_dim=8),
            Mamba2(heads=24, head_dim=8, groups=1, state=16, kernel=4),
        )
    )
    parts = {(w.role, w.split): weight_parts(layer, w) for w in layer_weights(layer, 96)}
    assert parts["attention", "heads"] == 12
    assert parts["attention", "kv_heads"] == 4
    assert parts["recurrent", "heads"] == 24


def test_attention_to_images_norms_queries_and_keys_and_writes_no_cache_of_text() -> None:
    """Mllama: layer 1 of two has a norm of 128 for queries and one for keys, and two gates; 8 tokens stand for images."""
    model = read_config({"model_type": "mllama_text_model", **_PLAIN, "cross_attention_layers": [1]})
    plain = read_config({"model_type": "mllama_text_model", **_PLAIN})
    assert counts.total_params(model) - counts.total_params(plain) == 2 * 128 + 2 + 8 * 1024
    own, other = (layer.mixers[0] for layer in model.layers)
    assert mixer_traffic(own, model, 3.0, 1.0, 500.0, False).written == 3 * 2 * 2 * 128 * 2
    seen = mixer_traffic(other, model, 3.0, 1.0, 500.0, False)
    assert (seen.written, seen.read, seen.flops) == (0, 0, 0)


def test_mamba_ties_its_head_where_nothing_is_said() -> None:
    """state-spaces/mamba-130m-hf: 129,135,360 parameters."""
    config = {
        "model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50_280, "state_size": 16,
        "conv_kernel": 4, "expand": 2, "intermediate_size": 1536, "time_step_rank": 48, "use_bias": False,
        "use_conv_bias": True,
    }  # fmt: skip
    assert counts.total_params(read_config(config)) == 129_135_360
