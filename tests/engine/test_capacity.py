"""The largest batch, by brute force."""

from __future__ import annotations

import pytest

from rackmath.engine import Layout, estimate
from rackmath.engine.capacity import largest_batch
from rackmath.io import catalogue


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v2-lite", "gpt-oss-20b"])
@pytest.mark.parametrize("layout", [Layout(), Layout(tensor=2), Layout(data=2)])
def test_one_more_sequence_than_the_largest_batch_does_not_fit(name: str, layout: Layout) -> None:
    model, system = catalogue.model(name), catalogue.system("h100-sxm")
    # A decode pass holds activations for its batch; the capacity sets none aside here.
    most = largest_batch(model, system, layout, context=20_000, tokens=0)
    fits = [
        bool(estimate(model, system, layout, batch=b, context=20_000).memory.fits) for b in (most, most + layout.data)
    ]
    assert fits[0]
    assert not fits[1] or most > 1e4


def test_a_model_that_is_too_large_holds_nothing(deepseek) -> None:
    assert largest_batch(deepseek, catalogue.system("rtx-4090"), Layout(), context=1000, tokens=1) == 0


def test_ranks_that_share_a_latent_by_tokens_hold_as_many_times_more(deepseek) -> None:
    system = catalogue.system("h200-sxm")
    one, eight = (
        largest_batch(deepseek, system, Layout(tensor=8, expert=8, context_parallel=cut), context=1e5, tokens=1.0)
        for cut in (1, 8)
    )
    assert eight == pytest.approx(8 * one, abs=8)
