"""Low-rank adapters: parameters as PEFT prints them, distinct ones and misses against drawing them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.adapter_weights import adapter_kernels, adapter_operators, adapter_params, adapter_weights
from rackmath.models.adapters import Adapters
from rackmath.models.operator import Pass


@pytest.mark.parametrize(
    ("model", "rank", "targets", "params"),
    [
        # PEFT's print_trainable_parameters of its usual LoraConfig, and Unsloth's notebooks.
        ("llama-2-7b", 8, ("q_proj", "v_proj"), 4_194_304),
        ("llama-2-7b", 16, ("all-linear",), 39_976_960),
        ("llama-3.1-8b", 16, ("all-linear",), 41_943_040),
        ("llama-3.1-8b", 16, ("self_attn", "mlp"), 41_943_040),
    ],
)
def test_parameters_as_printed(model: str, rank: int, targets: tuple[str, ...], params: float) -> None:
    assert adapter_params(catalogue.model(model), Adapters(rank=rank, targets=targets)) == params


def test_experts_have_adapters_of_their_own() -> None:
    mixture = catalogue.model("qwen3-30b-a3b")
    each = 3 * 8 * (2048 + 768)
    assert adapter_params(mixture, Adapters(rank=8, targets=("experts",))) == 48 * 128 * each


def test_what_changes_no_matrix_is_refused() -> None:
    with pytest.raises(InputError, match="has no such matrix"):
        adapter_params(catalogue.model("llama-3.1-8b"), Adapters(rank=8, targets=("qkv",)))


@pytest.mark.parametrize("changes", [{"rank": 0}, {"rank": 2000}, {"resident": 3}, {"share": 1.5}, {"skew": -1.0}])
def test_impossible_adapters_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Adapters(**({"rank": 8, "count": 2, "resident": 2} | changes))  # type: ignore[arg-type]


def test_ranks_share_half_of_an_adapter() -> None:
    """Of outputs that ranks share B is divided, of inputs that they share A: vLLM's rule without full sharding."""
    layer, _ = catalogue.model("llama-3.1-8b").groups[0]
    splits = {w.name: (a.split, b.split) for w, a, b in adapter_weights(layer, 4096, Adapters(rank=4))}
    assert splits["self_attn.q_proj"] == ("none", "heads")
    assert splits["self_attn.o_proj"] == ("heads", "none")
    assert splits["mlp.up_proj"][0] == "none"
    assert splits["mlp.down_proj"][1] == "none"


@given(st.integers(1, 200), st.integers(0, 300), st.floats(0, 1))
def test_distinct_of_even_popularity(count: int, requests: int, share: float) -> None:
    adapters = Adapters(rank=8, count=count, resident=count, share=share)
    assert adapters.distinct(requests) == pytest.approx(count * (1 - (1 - share / count) ** requests), abs=1e-6)


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.5])
def test_distinct_and_misses_against_brute_force(skew: float) -> None:
    """Ranges of popularity change nothing, and the least recently used leave as often as in a drawn sequence."""
    count, resident = 5000, 200
    adapters = Adapters(rank=8, count=count, resident=resident, skew=skew)
    chance = np.arange(1.0, count + 1) ** -skew
    chance /= chance.sum()
    exact = (1 - (1 - chance) ** 300).sum()
    free = replace(adapters, resident=count)
    assert float(free.distinct(300)) == pytest.approx(exact, rel=2e-3)
    assert float(adapters.distinct(300)) == min(float(free.distinct(300)), resident)
    draws = np.random.default_rng(1).choice(count, 60_000, p=chance)
    held: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for place, drawn in enumerate(draws.tolist()):
        if drawn in held:
            held.move_to_end(drawn)
            continue
        missed += place >= 10_000
        held[drawn] = None
        if len(held) > resident:
            held.popitem(last=False)
    assert adapters.missing == pytest.approx(missed / 50_000, abs=0.01)
    assert free.missing == 0


def test_operators_of_adapters() -> None:
    """FLOPs are 2 r (m + n) per token that has one, bytes those of the distinct ones; two kernels per shared input."""
    model = catalogue.model("llama-3.1-8b")
    assert not list(adapter_operators(model, Pass(phase="decode", sequences=8, new_tokens=1, context=100)))
    assert adapter_kernels(model) == 0
    adapters = Adapters(rank=16, count=4, resident=4, share=0.5)
    served = replace(model, adapters=adapters)
    work = Pass(phase="decode", sequences=8.0, new_tokens=1.0, context=100.0)
    ops = list(adapter_operators(served, work))
    params = adapter_params(model, adapters)
    distinct = 4 * (1 - 0.875**8)
    assert sum(float(op.count * op.flops) for op in ops) == pytest.approx(2 * params * 8 * 0.5)
    assert sum(float(op.count * op.weight_bytes) for op in ops) == pytest.approx(2 * params * distinct)
    # qkv, o, gate and up, down: down and up again.
    assert len({op.kernel for op in ops}) == 8
    assert adapter_kernels(served) == 8 * 32
