"""Grids cut into sets of points that fit in a cache, and put together again."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.engine.pieces import CHUNK, pieces, put_together
from rackmath.engine.step import estimate
from rackmath.io import catalogue, constants_file

SHAPES = [
    (1,),
    (7,),
    (3 * CHUNK + 5,),
    (40, 9, 100),
    (50, 1, 700),
    (2, 3 * CHUNK),
    (1, 2 * CHUNK),
    (4, 300, 250),
    (0, 9),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_point_stands_in_one_piece_and_comes_back_to_its_place(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    first = random.random(shape[:1] + (1,) * (len(shape) - 1))
    others = random.random(shape[1:])
    cut = list(pieces({"first": first, "others": others, "alone": 3.0}, shape))
    sums = [piece["first"] + 2 * piece["others"] + piece["alone"] for piece in cut]
    assert all(np.size(total) <= CHUNK for total in sums)
    np.testing.assert_array_equal(put_together(sums, shape), np.broadcast_to(first + 2 * others + 3.0, shape))


def test_what_broadcasts_is_not_repeated() -> None:
    """Widths of layouts against batches: a piece holds as many widths as layouts, not as points."""
    cut = list(pieces({"width": np.ones((200, 1)), "batch": np.ones(1000)}, (200, 1000)))
    assert [np.shape(piece["width"]) for piece in cut] == [(16, 1)] * 12 + [(8, 1)]
    assert all(np.shape(piece["batch"]) == (1, 1000) for piece in cut)
    cut = list(
        pieces({"width": np.ones((4, 1, 1)), "batch": np.ones((900, 1)), "context": np.ones(250)}, (4, 900, 250))
    )
    assert [np.shape(piece["width"]) for piece in cut] == [(65, 1)] * 55 + [(25, 1)]
    assert all(np.shape(piece["context"]) == (1, 250) for piece in cut)


@pytest.mark.parametrize("threads", [True, False])
def test_a_grid_of_any_form_is_what_its_points_are(threads: bool) -> None:
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.5), "time per token")
    batch, context = np.linspace(1, 500, 300), np.linspace(10, 9000, 200)
    widths = Layout(tensor=np.array([1.0, 2.0, 4.0])[:, None, None])

    def times(layout: Layout, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.asarray(estimate(model, system, layout, batch=b, context=c, losses=losses, threads=threads).time)

    grid = times(widths, batch[:, None], context)
    assert grid.shape == (3, 300, 200)
    for i, j, k in ((0, 0, 0), (2, 299, 199), (1, 123, 45), (0, 81, 199), (2, 82, 0)):
        point = estimate(
            model, system, Layout(tensor=float(2**i)), batch=batch[j], context=context[k], losses=losses
        ).time
        assert grid[i, j, k] == pytest.approx(float(point), rel=1e-13)
    # Two axes, where the second alone is short enough; the same numbers in another order of axes.
    turned = times(Layout(tensor=np.array([1.0, 2.0, 4.0])), batch[:, None, None], context[:, None])
    np.testing.assert_allclose(np.moveaxis(turned, 2, 0), grid, rtol=1e-13)
