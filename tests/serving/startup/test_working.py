"""What is alive at once in the widest block of a layer, by hand."""

from __future__ import annotations

import pytest

from rackmath.engine import Layout
from rackmath.io import catalogue
from rackmath.serving.startup.working import _widest


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_the_widest_block_is_shared_by_the_tensor_ranks(tensor: int) -> None:
    """A gated block holds gate, value and their product, another one input and output of its activation."""
    layers = [catalogue.model(name).layers[0] for name in ("llama-3.1-8b", "gpt2-xl", "mixtral-8x7b")]
    llama, gpt, mixtral = (_widest(layer, Layout(tensor=tensor)) for layer in layers)
    assert llama == pytest.approx(3 * 14336 / tensor)
    assert gpt == pytest.approx(2 * 6400 / tensor)
    # Routed experts are workspace of their own: queries twice, keys and values.
    assert mixtral == pytest.approx((2 * 32 * 128 + 8 * (128 + 128)) / tensor)
