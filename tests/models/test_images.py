"""Patches and tokens of images, against transformers' own image processors and closed forms."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.counts import encoder_params
from rackmath.models.images import Image, LongestSide, Native, PatchLimit, Sizing, Square, Tiles, TokenBudget, image_of
from rackmath.models.operator import Pass
from rackmath.models.operators import operators, total_flops

SIZES = Path(__file__).parents[1] / "data" / "image_sizes.csv"
"""Written by the functions of transformers 5.24.0 that the rules name as their sources."""
RULES: dict[str, Sizing] = {
    "native": Native(patch=16, merge=2),
    "budget": TokenBudget(patch=16, merge=3, tokens=280),
    "longest": LongestSide(side=1540, patch=14, merge=2),
    "tiles": Tiles(side=336, patch=14, merge=2, most=16),
}
ROWS = list(csv.DictReader(SIZES.read_text().splitlines()))
sides = st.integers(1, 8000)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['rule']} {r['width']}x{r['height']}")
def test_patches_and_tokens_are_those_of_transformers(row: dict[str, str]) -> None:
    image = image_of(RULES[row["rule"]], int(row["width"]), int(row["height"]))
    assert image == (int(row["tiles"]), int(row["patches"]), int(row["tokens"]))


@pytest.mark.parametrize(
    ("width", "height", "patches"),
    # Kimi K2.5 pads to multiples of 28 pixels, and shrinks above 16,384 patches or 512 along a side.
    [(28, 28, 4), (29, 28, 8), (1024, 768, 74 * 56), (1920, 1080, 138 * 78), (14 * 1024, 14, 512 * 2)],
)
def test_images_of_kimi_are_padded_and_shrunk(width: int, height: int, patches: int) -> None:
    assert image_of(PatchLimit(patch=14, merge=2, patches=16_384, side=512), width, height) == (
        1,
        patches,
        patches // 4,
    )


def test_tokens_of_a_tile_are_squares_of_patches() -> None:
    """24 x 24 patches, of which 3 x 3 or 4 x 4 become one token."""
    for merge, tokens in ((3, 64), (4, 36)):
        assert image_of(Tiles(side=336, patch=14, merge=merge, most=1), 100, 100) == (1, 576, tokens)


@pytest.mark.parametrize(("width", "height"), [(1, 8000), (8000, 1), (28, 8000)])
def test_an_image_of_one_line_fills_its_budget(width: int, height: int) -> None:
    assert image_of(RULES["budget"], width, height).tokens == 280


@given(width=sides, height=sides)
def test_no_image_leaves_its_bounds(width: int, height: int) -> None:
    kimi = image_of(PatchLimit(patch=14, merge=2, patches=16_384, side=512), width, height)
    # Padding adds at most a row and a column of tokens.
    assert kimi.patches <= 16_384 + 2 * 2 * (512 + 1)
    assert image_of(RULES["budget"], width, height).tokens <= 280
    tiles = image_of(RULES["tiles"], width, height)
    assert 1 <= tiles.tiles <= 17
    assert tiles.tokens == 144 * tiles.tiles
    assert image_of(Square(side=896, patch=14, tokens=256), width, height) == Image(1, 4096, 256)


@given(width=st.integers(64, 4000), height=st.integers(64, 4000))
def test_a_turned_image_has_as_many_patches(width: int, height: int) -> None:
    for rule in (RULES["native"], RULES["budget"], RULES["tiles"]):
        assert image_of(rule, width, height) == image_of(rule, height, width)


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (200_000, 10)])
def test_sides_that_no_image_has_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="--image-size"):
        image_of(RULES["native"], *size)


def test_flops_of_a_tower_are_those_of_its_blocks() -> None:
    """Qwen3-VL's tower over one image of 1024 x 1024: 27 blocks, every patch meets every other."""
    encoder = catalogue.model("qwen3-vl-235b-a22b").encoder
    assert encoder is not None
    n, hidden, width, layers = 4096, 1152, 4304, 27
    products = layers * (4 * hidden**2 + 2 * hidden * width) + 3 * 2 * 16**2 * hidden
    expected = 2 * n * products + layers * 4 * n**2 * hidden
    work = Pass(phase="prefill", sequences=1, new_tokens=n, context=n)
    assert total_flops(operators(encoder.tower, work)) == expected
    assert image_of(encoder.sizing, 1024, 1024) == (1, n, n // 4)


def test_a_tower_keeps_no_cache_and_writes_none() -> None:
    encoder = catalogue.model("gemma-3-27b").encoder
    assert encoder is not None
    work = Pass(phase="prefill", sequences=2, new_tokens=4096, context=4096)
    attention = [o for o in operators(encoder.tower, work) if o.name == "attention"]
    assert [o.cache_written for o in attention] == [0]
    # Keys and values of 16 heads of 72, in 16 bit, of both images.
    assert [o.cache_read for o in attention] == [2 * 4096 * 2 * 1152 * 2]


def test_a_model_of_text_has_no_encoder() -> None:
    assert catalogue.model("llama-3.1-8b").encoder is None
    assert encoder_params(catalogue.model("llama-3.1-8b")) == 0
