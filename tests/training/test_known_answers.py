"""Figures of training that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.training.activations import kept
from rackmath.training.options import Recipe, all_options


def test_what_a_layer_of_experts_keeps() -> None:
    """Mixtral by hand: queries, keys and values, what the last product reads, router, two experts, norms."""
    mixtral = catalogue.model("mixtral-8x7b")
    attention, router, norms = 4096 + 2 * 1024 + 4096, 8, 2 * 2 * 4096
    experts = 2 * (14336 + 14336 + 14336) + 2 * 4096
    again = 4096 + 2 * 14336 + norms // 2
    assert kept(mixtral, "none") == (32 * 2 * (attention + router + experts + norms), 0)
    assert kept(mixtral, "selective") == (32 * 2 * (attention + router + experts + norms - again), 0)
    assert kept(mixtral, "full") == (32 * 2 * 4096, 2 * (attention + router + experts + norms))


def test_experts_are_spread_over_every_group_that_divides() -> None:
    """Over none, or over whole tensor groups that divide tensor times data ranks and the experts."""
    options = all_options(
        catalogue.model("mixtral-8x7b"), catalogue.system("h100-sxm"), 16, Recipe(sequences=64, length=4096)
    )
    spread = {(layout.tensor, layout.pipeline, layout.expert) for layout in options.layouts}
    expected = {
        (tensor, stages, expert)
        for tensor in (1, 2, 4, 8)
        for stages in (1, 2, 4, 8, 16)
        for expert in (1, 2, 4, 8)
        if 16 % (tensor * stages) == 0 and (expert == 1 or (expert % tensor == 0 and (16 // stages) % expert == 0))
    }
    assert spread == expected
