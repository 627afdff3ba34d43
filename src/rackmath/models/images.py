"""How many patches an encoder sees of an image, and how many tokens of the prompt they become.

Rules are those of the image processors in Hugging Face transformers and of the processors that come with the
checkpoints; what they take from a ``preprocessor_config.json``, which a ``config.json`` does not hold, are the values
that the publishers of the models ship.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import NamedTuple

from rackmath.errors import InputError

LARGEST_SIDE = 100_000
"""Pixels of a side beyond which a size is a mistake. [pixels]"""


class Image(NamedTuple):
    """One image, as an encoder sees it."""

    tiles: int
    """Pieces that attend to themselves only."""
    patches: int
    """Of each piece."""
    tokens: int
    """Tokens of the prompt that the whole image becomes; separators that a template adds are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """Sides rounded to multiples, shrunk or enlarged where the area leaves its bounds (Qwen2-VL and later)."""

    patch: int
    """Side of a patch. [pixels]"""
    merge: int
    """Patches along a side that become one token."""
    least: int = 65_536
    most: int = 16_777_216
    """Bounds of the area. [pixels]"""

    def image(self, width: int, height: int) -> Image:
        """The image after resizing. Source: ``smart_resize`` of transformers' Qwen2-VL image processor."""
        unit = self.patch * self.merge
        wide, high = (max(unit, round(side / unit) * unit) for side in (width, height))
        area = width * height
        if wide * high > self.most:
            shrink = sqrt(area / self.most)
            wide, high = (max(unit, floor(side / shrink / unit) * unit) for side in (width, height))
        elif wide * high < self.least:
            grow = sqrt(self.least / area)
            wide, high = (ceil(side * grow / unit) * unit for side in (width, height))
        return _whole(wide, high, self.patch, self.merge)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLimit:
    """Shrunk to a number of patches and a longest side, then padded to multiples (Kimi)."""

    patch: int
    merge: int
    patches: int
    """Patches of an image at most."""
    side: int
    """Patches along a side at most."""

    def image(self, width: int, height: int) -> Image:
        """The image after resizing. Source: ``navit_resize_image`` of Kimi's image processor."""
        unit = self.patch * self.merge
        across = max(1, width // self.patch) * max(1, height // self.patch)
        longest = self.side * self.patch
        scale = min(1.0, sqrt(self.patches / across), longest / width, longest / height)
        wide, high = (min(max(1, int(side * scale)), longest) for side in (width, height))
        return _whole(ceil(wide / unit) * unit, ceil(high / unit) * unit, self.patch, self.merge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """Every image resized to one square, whose patches are pooled to a number of tokens (Gemma 3)."""

    side: int
    """[pixels]"""
    patch: int
    tokens: int

    def image(self, width: int, height: int) -> Image:
        """The same for every size."""
        return Image(tiles=1, patches=(self.side // self.patch) ** 2, tokens=self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Resized, keeping its shape, to fill a number of tokens (Gemma 4)."""

    patch: int
    merge: int
    tokens: int
    """Tokens of an image at most."""

    def image(self, width: int, height: int) -> Image:
        """The image after resizing. Source: ``get_aspect_ratio_preserving_size`` of transformers' Gemma 4."""
        unit = self.patch * self.merge
        scale = sqrt(self.tokens * unit * unit / (width * height))
        wide, high = (floor(side * scale / unit) for side in (width, height))
        # A side that shrinks to nothing is more than ``tokens`` times shorter than the other.
        if not wide:
            wide, high = 1, self.tokens
        elif not high:
            wide, high = self.tokens, 1
        return _whole(wide * unit, high * unit, self.patch, self.merge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Square tiles of the canvas that fits best, and one tile of the whole where there are several (Llama 4)."""

    side: int
    """Side of a tile. [pixels]"""
    patch: int
    merge: float
    """Patches along a side that become one token."""
    most: int
    """Tiles of the canvas at most."""

    def image(self, width: int, height: int) -> Image:
        """The image on its canvas.

        Of canvases that hold the image at its size or larger the one that enlarges least, else the one that shrinks
        least; of several the smallest. Source: ``get_best_fit`` of transformers' Llama 4 image processor.
        """
        canvases = [(x, y) for x in range(1, self.most + 1) for y in range(1, self.most // x + 1)]
        scales = {c: min(c[0] * self.side / width, c[1] * self.side / height) for c in canvases}
        enlarging = [scale for scale in scales.values() if scale >= 1]
        resize = min(enlarging) if enlarging else max(scales.values())
        tiles = min(x * y for (x, y), scale in scales.items() if scale == resize)
        tiles += tiles > 1
        patches = (self.side // self.patch) ** 2
        return Image(tiles=tiles, patches=patches, tokens=tiles * round(patches / self.merge**2))


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestSide:
    """Shrunk to a longest side, sides rounded up to multiples; a token ends every row (Pixtral)."""

    side: int
    """[pixels]"""
    patch: int
    merge: int

    def image(self, width: int, height: int) -> Image:
        """The image after resizing. Source: ``get_resize_output_image_size`` of transformers' Pixtral."""
        unit = self.patch * self.merge
        ratio = max(width / self.side, height / self.side)
        if ratio > 1:
            width, height = floor(width / ratio), floor(height / ratio)
        columns, rows = ((max(side, 1) - 1) // unit + 1 for side in (width, height))
        image = _whole(columns * unit, rows * unit, self.patch, self.merge)
        return image._replace(tokens=image.tokens + rows)


Sizing = Native | PatchLimit | Square | TokenBudget | Tiles | LongestSide


def image_of(sizing: Sizing, width: int, height: int) -> Image:
    """An image of ``width`` x ``height`` pixels as the encoder sees it.

    Errors: :class:`InputError` for sides that are none.
    """
    for side in (width, height):
        if not 1 <= side <= LARGEST_SIDE:
            raise InputError("--image-size", f"{width}x{height}", f"write sides from 1 to {LARGEST_SIDE:,} pixels")
    return sizing.image(width, height)


def _whole(wide: int, high: int, patch: int, merge: int) -> Image:
    """An image of those sides as one piece. Sides are multiples of a patch."""
    patches = (wide // patch) * (high // patch)
    return Image(tiles=1, patches=patches, tokens=patches // merge**2)
