"""FLOPs and traffic of a pass against brute-force counting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout
from rackmath.engine.roofline import timed_operators
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture, Layer
from rackmath.models.cache import cache_bytes, kv_bytes_per_token, mixer_cache
from rackmath.models.counts import multiplied_params
from rackmath.models.mixer_operators import chunk_pairs, index_traffic, mixer_traffic, visible_keys, visible_pairs
from rackmath.models.mixers import BlockIndex, Compressed, Grouped, Indexer, Latent, Lightning, Mamba2
from rackmath.models.operator import Pass
from rackmath.models.operators import CORES, distinct_experts, operators, total_flops
from rackmath.models.totals import from_totals

lengths = st.integers(1, 60)


def toy(*mixers: object, hidden: int = 16) -> Architecture:
    return Architecture(name="toy", hidden=hidden, vocabulary=32, layers=(Layer(mixers=tuple(mixers)),))  # type: ignore[arg-type]


def pairs_by_hand(new: int, context: int, sees) -> int:
    """Count query-key pairs one by one; position p (from 1) sees key j if ``sees(p, j)``."""
    return sum(sees(p, j) for p in range(context - new + 1, context + 1) for j in range(1, p + 1))


@given(context=lengths, part=st.floats(0, 1), window=st.one_of(st.none(), lengths))
def test_causal_and_window_pairs_equal_a_count_by_hand(context: int, part: float, window: int | None) -> None:
    new = max(1, round(part * context))
    by_hand = pairs_by_hand(new, context, lambda p, j: window is None or j > p - window)
    assert visible_pairs(new, context, window) == by_hand


@given(context=lengths, part=st.floats(0, 1), chunk=lengths)
def test_chunk_pairs_equal_a_count_by_hand(context: int, part: float, chunk: int) -> None:
    new = max(1, round(part * context))
    by_hand = pairs_by_hand(new, context, lambda p, j: (p - 1) // chunk == (j - 1) // chunk)
    assert chunk_pairs(new, context, chunk) == by_hand


@given(context=lengths, part=st.floats(0, 1), window=lengths)
def test_window_keys_equal_the_distinct_keys_seen(context: int, part: float, window: int) -> None:
    new = max(1, round(part * context))
    seen = {j for p in range(context - new + 1, context + 1) for j in range(1, p + 1) if j > p - window}
    assert visible_keys(new, context, window) == len(seen)


def test_a_prefill_window_has_the_published_closed_form() -> None:
    # architectures.md section 4: w T - w (w - 1) / 2 pairs for T >= w.
    assert visible_pairs(1000, 1000, 128) == 128 * 1000 - 128 * 127 / 2


def test_attention_flops_equal_multiply_adds_counted_one_by_one() -> None:
    a = Grouped(query_heads=6, kv_heads=2, key_dim=5, value_dim=3)
    t = mixer_traffic(a, toy(a), 2.0, 4.0, 9.0, False)
    flops = 0
    for _ in range(2):
        for p in range(6, 10):
            for _key in range(p):
                flops += 6 * (2 * 5 + 2 * 3)  # scores, then values
    assert t.flops == flops
    # Keys and values of both groups, once per sequence, in two bytes.
    assert t.read == 2 * 9 * 2 * (5 + 3) * 2
    assert t.written == 2 * 4 * 2 * (5 + 3) * 2


def test_latent_attention_matches_the_published_slopes() -> None:
    model = catalogue.model("deepseek-v3")

    def core(context: float, absorbed: bool) -> tuple[float, float]:
        work = Pass(phase="decode", sequences=1.0, new_tokens=1.0, context=context, absorbed=absorbed)
        one = next(o for o in operators(model, work) if o.name == "attention")
        return float(one.flops), float(one.cache_read)

    # architectures.md section 4: 278,528 T absorbed and 81,920 T naive; 1,152 bytes per token.
    assert core(1000, True) == (278_528_000, 1_152_000)
    assert core(1000, False)[0] == 81_920_000


def test_naive_latent_attention_expands_every_visible_token_again() -> None:
    model = catalogue.model("deepseek-v3")

    def expansion(absorbed: bool) -> float:
        work = Pass(phase="prefill", sequences=1.0, new_tokens=10.0, context=100.0, absorbed=absorbed)
        return float(next(o for o in operators(model, work) if o.name == "self_attn.kv_b_proj").flops)

    per_token = 2 * 512 * 128 * (128 + 128)
    assert expansion(True) == 10 * per_token
    assert expansion(False) == 100 * per_token


def test_sparse_attention_is_linear_with_a_small_slope_and_stores_all() -> None:
    i = Indexer(heads=64, dim=128, topk=2048)
    latent = Latent(query_heads=128, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128, indexer=i)
    model = toy(latent)
    near, far = (index_traffic(latent, model, 1.0, 1.0, context) for context in (10_000.0, 20_000.0))
    assert near is not None
    assert far is not None
    # Slope: indexer scores 2 x 64 x 128 and their weighting; traffic: 128 index elements.
    assert far.flops - near.flops == 10_000 * 2 * 64 * 129
    assert far.read - near.read == 10_000 * 128 * 2
    chosen = mixer_traffic(latent, model, 1.0, 1.0, 20_000.0, True)
    assert chosen.read == 2048 * 576 * 2
    assert chosen.flops == 2048 * 2 * 128 * (576 + 512)
    assert kv_bytes_per_token(model) == (576 + 128) * 2


def test_an_index_over_blocks_meets_every_pair_with_each_of_its_heads() -> None:
    grouped = Grouped(
        query_heads=32, kv_heads=2, key_dim=128, value_dim=128, blocks=BlockIndex(heads=4, dim=64, block=128, blocks=16)
    )
    index = index_traffic(grouped, toy(grouped), 3.0, 1.0, 5000.0)
    assert index is not None
    # Scores of four heads of width 64, a key for each token, nothing weighted.
    assert index.flops == 3 * 2 * 4 * 64 * 5000
    assert index.read == 3 * 5000 * 64 * 2


def test_what_a_latent_layer_writes_is_an_entry_for_each_new_token() -> None:
    latent = Latent(query_heads=128, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128)
    assert mixer_traffic(latent, toy(latent), 3.0, 10.0, 100.0, True).written == 3 * 10 * 576 * 2


def test_the_state_of_lightning_attention_is_a_matrix_for_each_head() -> None:
    """MiniMax-01: 64 heads of 96 by 96 numbers."""
    assert mixer_cache(Lightning(heads=64, dim=96)).state == 64 * 96 * 96


def test_a_layer_that_takes_the_choice_of_an_earlier_one_has_no_index() -> None:
    indexer = Indexer(heads=64, dim=128, topk=2048)
    own = Latent(
        query_heads=64, query_rank=2048, kv_rank=512, nope_dim=192, rope_dim=64, value_dim=256, indexer=indexer
    )
    shared = replace(own, indexer=replace(indexer, owned=False))
    work = Pass(phase="decode", sequences=1.0, new_tokens=1.0, context=9000.0)
    kinds = [{op.kind for op in operators(toy(m), work)} for m in (own, shared, replace(own, indexer=None))]
    assert kinds[0] - {"product", "other"} == {"sparse", "sparse_index"}
    assert kinds[1] - {"product", "other"} == {"sparse_shared"}
    assert kinds[2] - {"product", "other"} == {"latent"}


def test_every_rank_chooses_for_all_heads() -> None:
    """Attention is cut by heads, the index is not: its work on one of eight ranks is that of all."""
    model, system = catalogue.model("deepseek-v3.2"), catalogue.system("h200-sxm")
    work = Pass(phase="prefill", sequences=1.0, new_tokens=8192.0, context=8192.0)

    def seconds(kernel: str, ranks: int) -> float:
        timed = timed_operators(model, work, Layout(tensor=ranks), system)
        return sum(float(op.compute) for op in timed if op.kernel == kernel)

    assert seconds("sparse.prompt", 1) == pytest.approx(8 * seconds("sparse.prompt", 8))
    assert seconds("sparse_index.prompt", 1) == seconds("sparse_index.prompt", 8)
    pairs = 8192 * 8193 / 2
    assert seconds("sparse_index.prompt", 1) == pytest.approx(61 * 2 * 64 * 129 * pairs / system.chip.rate("fp8"))


def test_mixed_residual_streams_are_read_and_written_around_each_block() -> None:
    """Four streams of 4,096: 14 widths a token move around a block, and the map's 24 outputs."""
    model = catalogue.model("deepseek-v4-flash")
    work = Pass(phase="prefill", sequences=1.0, new_tokens=100.0, context=100.0)
    mixes = [op for op in operators(model, work) if op.kind == "hyper_connection"]
    assert sum(op.count for op in mixes) == len(model.layers)
    assert {float(op.activation_bytes) for op in mixes} == {100 * 2 * (14 * 4096 + 24) * 2}


def test_compressed_attention_reads_one_entry_per_block() -> None:
    hca = Compressed(query_heads=64, head_dim=512, query_rank=1024, out_groups=8, out_rank=1024, window=128, ratio=128)
    t = mixer_traffic(hca, toy(hca), 1.0, 1.0, 128_000.0, True)
    assert t.read == (128 * 512 + 1000 * 512) * 2
    # architectures.md section 4: 4 H d (T / 128 + 128).
    assert t.flops == 4 * 64 * 512 * (1000 + 128)
    # Between two entries a mean over contexts has a part of one.
    part = mixer_traffic(hca, toy(hca), 1.0, 1.0, 128_032.0, True)
    assert part.read - t.read == 512 * 2 / 4
    assert part.flops - t.flops == 4 * 64 * 512 / 4
    # Queries in and answers out, of two tokens in each of three sequences.
    assert mixer_traffic(hca, toy(hca), 3.0, 2.0, 128_000.0, True).activations == 3 * 2 * 2 * 64 * 512 * 2


def test_shared_caches_store_nothing_and_read_everything() -> None:
    own = Grouped(query_heads=4, kv_heads=2, key_dim=8, value_dim=8)
    sharing = replace(own, stores=False)
    t = mixer_traffic(sharing, toy(own, sharing), 1.0, 1.0, 50.0, False)
    assert t.written == 0
    assert t.read == mixer_traffic(own, toy(own), 1.0, 1.0, 50.0, False).read
    assert kv_bytes_per_token(toy(own, sharing)) == kv_bytes_per_token(toy(own))


def test_a_state_is_read_and_written_whatever_the_context() -> None:
    m = Mamba2(heads=4, head_dim=8, groups=1, state=16, kernel=4)
    model = toy(m)
    short, long = (mixer_traffic(m, model, 3.0, 1.0, c, False) for c in (10.0, 10_000.0))
    assert short.read == long.read == short.written == 3 * (4 * 8 * 16 + (4 * 8 + 2 * 16) * 4) * 2
    assert cache_bytes(model, 10.0) == cache_bytes(model, 10_000.0)


@pytest.mark.parametrize(("experts", "active"), [(256, 8), (128, 4), (16, 2)])
def test_distinct_experts_equal_random_routing(experts: int, active: int, rng: np.random.Generator) -> None:
    for batch in (1, 4, 16, 64):
        seen = [len({e for _ in range(batch) for e in rng.choice(experts, active, replace=False)}) for _ in range(300)]
        wanted = float(distinct_experts(experts, active, float(batch)))
        assert np.mean(seen) == pytest.approx(wanted, abs=4 * np.std(seen) / 300**0.5 + 1e-9)


def test_distinct_experts_match_the_published_table() -> None:
    # architectures.md section 5, DeepSeek-V3.
    table = {1: 8, 4: 31, 8: 57, 16: 102, 32: 163, 64: 222, 128: 252, 256: 256}
    assert {b: round(float(distinct_experts(256, 8, float(b)))) for b in table} == table


@pytest.mark.parametrize("name", catalogue.model_names())
def test_decode_flops_are_twice_the_multiplied_parameters_plus_attention(name: str) -> None:
    model = catalogue.model(name)
    work = Pass(phase="decode", sequences=1.0, new_tokens=1.0, context=1.0)
    linear = total_flops([o for o in operators(model, work) if o.name not in (*CORES, "recurrence")])
    assert linear == pytest.approx(2 * multiplied_params(model), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(
        ["deepseek-v3.2", "deepseek-v4-flash", "gemma-3-27b", "llama-4-scout", "nemotron-3-super", "gpt-oss-20b"]
    ),
    phase=st.sampled_from(["decode", "prefill"]),
    points=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 70_000)), min_size=1, max_size=4),
)
def test_arrays_give_what_a_loop_gives(name: str, phase: str, points: list[tuple[int, int]]) -> None:
    model = catalogue.model(name)
    sequences, contexts = (np.array(side, dtype=float) for side in zip(*points, strict=True))

    def work(s: object, c: object) -> Pass:
        return Pass(phase=phase, sequences=s, new_tokens=1.0 if phase == "decode" else c, context=c)  # type: ignore[arg-type]

    together = operators(model, work(sequences, contexts))
    for i in range(len(points)):
        alone = operators(model, work(float(sequences[i]), float(contexts[i])))
        for one, many in zip(alone, together, strict=True):
            for field in ("flops", "weight_bytes", "cache_read", "cache_written", "activation_bytes"):
                value = np.broadcast_to(getattr(many, field), sequences.shape)[i]
                assert value == pytest.approx(float(getattr(one, field)), rel=1e-12), (one.name, field)


@pytest.mark.parametrize(
    ("phase", "new", "per_token"),
    [
        # 32 heads of 128 x 128. Chunks of 64: q k' and k k' over a chunk, its values twice, three products with the state.
        ("prefill", 1000.0, 32 * (2 * 64 * (128 + 128) + 6 * 128 * 128) + 2 * 4 * (2 * 16 + 32) * 128),
        # One token: decay, read, write, query of the state.
        ("decode", 1.0, 32 * 7 * 128 * 128 + 2 * 4 * (2 * 16 + 32) * 128),
    ],
)
def test_a_gated_delta_layer_costs_what_its_products_cost(phase: str, new: float, per_token: float) -> None:
    model = catalogue.model("qwen3-next-80b-a3b")
    (core,) = (o for o in operators(model, Pass(phase=phase, sequences=1.0, new_tokens=new, context=1000.0))
               if o.kind == "recurrence")  # fmt: skip
    assert (core.count, float(core.flops)) == (36, per_token * new)


def test_a_model_known_by_its_totals_reads_its_cache_and_meets_every_pair() -> None:
    model = from_totals("closed", 1e11, 1e10, 4000.0, attention_flops=1e5)
    traffic = mixer_traffic(model.layers[0].mixers[0], model, 4.0, 10.0, 1000.0, absorbed=True)
    assert traffic.read == 4 * 1000 * 4000
    assert traffic.flops == 4 * 1e5 * sum(range(991, 1001))
