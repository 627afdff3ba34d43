"""How many positions an encoder hears of a clip of sound, and how many tokens of the prompt they become."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from rackmath.errors import InputError
from rackmath.models.images import Image

LONGEST = 100_000.0
"""Clip beyond which a length is a mistake. [s]"""
WINDOW = 30.0
"""Of sound that Whisper's encoder hears at once; a shorter one is filled with silence. [s]"""
FRAMES = 100
"""Spectra of a second of sound. [1/s]"""


def halved(places: int, times: int) -> int:
    """Places that are left when convolutions with a stride of two have taken every other one."""
    return ceil(places / 2**times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of equal length whose positions are joined to tokens, as of Whisper's encoder."""

    positions: int
    """Of a window, each of which hears all of its window."""
    length: float = WINDOW
    """Of a window. [s]"""
    joined: int
    """Positions that become one token."""
    silence: bool
    """Whether the silence that fills the last window becomes tokens as well."""
    most: int | None = None
    """Windows of a clip at most; None for as many as it has."""
    halvings: int = 1
    """Convolutions that take every other place in time."""
    piece: int | None = None
    """Spectra that pass the convolutions together, so that a window ends where its clip does; None for all."""

    def clip(self, seconds: float) -> Image:
        """A clip as the encoder hears it: its windows are pieces, its positions patches.

        Sources: transformers' Voxtral (the clip is filled up to a multiple of 30 s; 375 tokens a window), Qwen2-Audio
        (``_get_feat_extract_output_lengths``; the processor cuts a clip at 30 s), Qwen2.5-Omni (windows of 2 s) and
        Qwen3-Omni (8 s, from pieces of one).
        Errors: :class:`InputError` for a length that is none, or that the processor would cut.
        """
        if not 0 < seconds <= LONGEST:
            raise InputError("--audio", seconds, f"write a length from 0 to {LONGEST:,.0f} s")
        windows = max(ceil(seconds / self.length - 1e-9), 1)
        if self.most is not None and windows > self.most:
            raise InputError("--audio", seconds, f"the model's processor cuts a clip at {self.most * self.length:g} s")
        spectra = max(round(seconds * FRAMES), 1)
        pieces, rest = divmod(spectra, self.piece or spectra)
        heard = pieces * halved(self.piece or spectra, self.halvings) + halved(rest, self.halvings)
        tokens = windows * (self.positions // self.joined) if self.silence else max(heard // self.joined, 1)
        positions = self.positions if self.piece is None else ceil(heard / windows)
        return Image(tiles=windows, patches=positions, tokens=tokens)
