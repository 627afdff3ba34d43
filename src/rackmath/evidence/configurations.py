"""What a measurement or an answer was of: the features by which two of them are near or far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NAMES = ("engine", "generation", "chip", "model", "kind", "question", "bits", "layout", "source")
"""Features that agree or differ."""
AMOUNTS = ("year", "load", "input", "output", "gpus", "cached_prefix", "draft_tokens")
"""Features that lie at a distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One configuration; names are text, empty where nothing is known."""

    engine: str
    """Family of the engine: vllm, sglang, trtllm, ..."""
    generation: str
    """Generation of the chip: hopper, blackwell, ..."""
    chip: str
    model: str
    kind: str
    """Kind of model: dense or mixture, latent or not."""
    question: str
    """What is asked: time per token, prompt pass, ..."""
    bits: str
    """Bits of a weight as stored."""
    layout: str
    source: str
    """Who published it."""
    year: float
    load: float
    """Sequences per accelerator. [sequences]"""
    input: float
    """Tokens of a prompt, or in the cache for a decode pass. [tokens]"""
    output: float
    gpus: float
    cached_prefix: float
    """Part of the prompts' tokens that the cache holds. [1]"""
    draft_tokens: float
    """Tokens drafted with a step. [tokens]"""


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """Many configurations as columns: names as codes of one book, amounts on the scale of their distances."""

    names: NDArray[np.int32]
    """(configurations, len(NAMES)); -1 for what is unknown, which differs from everything."""
    amounts: NDArray[np.float64]
    """(configurations, len(AMOUNTS))"""

    def __len__(self) -> int:
        """Configurations."""
        return len(self.names)

    def take(self, places: NDArray[np.intp]) -> Configurations:
        """Some of them."""
        return Configurations(self.names[places], self.amounts[places])


Book = Mapping[str, Sequence[str]]
"""Names by feature; a code is the place of a name."""


def book_of(configurations: Iterable[Configuration]) -> Book:
    """All names of each feature, in order."""
    names: dict[str, set[str]] = {name: set() for name in NAMES}
    for configuration in configurations:
        for name in NAMES:
            names[name].add(getattr(configuration, name))
    return {name: sorted(texts) for name, texts in names.items()}


def columns_of(configurations: Sequence[Configuration], book: Book) -> Configurations:
    """Configurations as columns. Names that are not in the book, and empty ones, differ from all others."""
    codes = {name: {text: i for i, text in enumerate(book[name]) if text} for name in NAMES}
    names = [[codes[name].get(getattr(c, name), -1) for name in NAMES] for c in configurations]
    amounts = np.array([[getattr(c, name) for name in AMOUNTS] for c in configurations], dtype=float)
    return Configurations(
        np.array(names, dtype=np.int32).reshape(-1, len(NAMES)), scaled(amounts.reshape(-1, len(AMOUNTS)))
    )


def scaled(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Amounts on the scale of their distances: logarithms, but years, parts and drafts as they are."""
    result = np.array(amounts, dtype=float)
    for i, name in enumerate(AMOUNTS):
        if name in ("load", "gpus"):
            result[:, i] = np.log(np.clip(result[:, i], 1e-3, 1e6))
        elif name in ("input", "output"):
            result[:, i] = np.log(np.clip(result[:, i], 0.0, 1e9) + 16.0)
    return result
