"""Decoders: the cache gives what the whole prompt gives, experts are met as the formula says."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.lab import decode
from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import Ceilings
from rackmath.lab.networks import Decoder, NetworkSizes, operations
from rackmath.models.counts import total_params

DENSE = NetworkSizes(layers=2, hidden=64, heads=4, kv_heads=2, inner=96, vocabulary=128)
MIXTURE = NetworkSizes(layers=2, hidden=64, heads=4, kv_heads=2, inner=32, vocabulary=128, experts=16, chosen=4)


@pytest.mark.parametrize("sizes", [DENSE, MIXTURE])
def test_the_engine_knows_every_parameter(sizes: NetworkSizes) -> None:
    built = sum(p.numel() for p in Decoder(sizes, "cpu").parameters())
    known = total_params(sizes.architecture)
    # Qwen3 normalises queries and keys; ours does not.
    assert known - built == (2 * sizes.layers * sizes.head_width if sizes.experts else 0)


@pytest.mark.parametrize("sizes", [DENSE, MIXTURE])
def test_decoding_with_a_cache_equals_reading_the_prompt(sizes: NetworkSizes) -> None:
    model = Decoder(sizes, "cpu", dtype=torch.float64)
    tokens = torch.randint(sizes.vocabulary, (3, 7))
    whole = model(tokens, model.cache(3, 7).double(), 0)
    cache = model.cache(3, 7).double()
    step = torch.zeros(())
    for position in range(7):
        step = model(tokens[:, position : position + 1], cache, position)
    assert torch.allclose(whole, step, atol=1e-9)


def test_a_token_is_met_by_as_many_experts_as_it_chooses() -> None:
    model = Decoder(MIXTURE, "cpu")
    model(torch.zeros(1, 1, dtype=torch.long), model.cache(1, 4), 3)
    assert model.touched == [4, 4]


def test_views_are_no_operations() -> None:
    x = torch.randn(4, 4)
    assert operations(lambda: x.t().view(-1) if x.t().is_contiguous() else x.t()) == 0
    assert operations(lambda: (x + 1) * 2) == 2


def test_both_graphs_are_measured(measured: Ceilings) -> None:
    found = decode.experiment(
        measured, TimeLimit(60.0), batches=(1, 2, 16), contexts=(128, 1024), sizes=(DENSE, MIXTURE), library=False
    )
    curves = {(c.panel, c.name): c for c in found.curves}
    # What a token costs falls with the batch: the hyperbola.
    per_token = curves["time per token: what it costs", "dense"]
    assert per_token.measured[2] < per_token.measured[0]
    assert per_token.predicted[2] < per_token.predicted[0]
    covered = curves["distinct experts of a layer", "mixture"]
    assert covered.measured[0] == 4.0
    assert covered.predicted[0] == pytest.approx(4.0)
    assert list(covered.measured) == sorted(covered.measured)
    assert covered.measured[2] == pytest.approx(covered.predicted[2], rel=0.15)
    facts = found.facts["dense"]
    assert facts["cost_of_batch_one"] > 1
    assert facts["knee_predicted"] > 0
    assert found.median_error is not None


def test_transformers_own_classes_are_decoded_too(measured: Ceilings) -> None:
    pytest.importorskip("transformers")
    from rackmath.lab.library_models import subject

    for sizes, name in ((DENSE, "transformers Llama"), (MIXTURE, "transformers Qwen3-MoE")):
        made = subject(sizes, "cpu")
        assert made.name == name
        # The engine reads the library's own config and counts what the library built.
        assert total_params(made.architecture) == total_params(sizes.architecture)
        for phase, context in (("decode", 16), ("prefill", 8)):
            work = made.pass_of(phase, 2, context)
            first, again = work(), work()
            assert isinstance(first, torch.Tensor)
            assert isinstance(again, torch.Tensor)
            assert torch.equal(first, again), "a run leaves the cache as it was"
            assert first.shape == (2, 1, 128)


def test_bad_input_is_one_line() -> None:
    for arguments in (["--most", "0"], ["--longest", "1"], ["--device", "abacus"]):
        result = CliRunner().invoke(cli, ["lab", "decode", *arguments])
        assert isinstance(result.exception, InputError) or result.exit_code == 2
