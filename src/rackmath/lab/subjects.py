"""Models that can be asked for a pass on this machine: our own decoders, and a library's of the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rackmath.lab.networks import Decoder, NetworkSizes
from rackmath.models.architecture import Architecture

Step = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model that can be asked for a pass: what builds the work, and what the engine knows of it."""

    name: str
    architecture: Architecture
    pass_of: Callable[[str, int, int], Step]
    """Phase, batch and context -> a piece of work."""
    coverage: Callable[[int], float] | None = None
    """Batch -> distinct experts of a layer in the mean, counted."""


def own(sizes: NetworkSizes, device: str) -> Subject:
    """A decoder of our own."""
    model = Decoder(sizes, device)

    def pass_of(phase: str, batch: int, context: int) -> Step:
        cache = model.cache(batch, context)
        new = 1 if phase == "decode" else context
        tokens = token_numbers(sizes.vocabulary, batch, new, device)
        return lambda: model(tokens, cache, context - new)

    def coverage(batch: int) -> float:
        numbers: list[int] = []
        for seed in range(4):
            model(token_numbers(sizes.vocabulary, batch, 1, device, seed), model.cache(batch, 16), 15)
            numbers += model.touched
        return sum(numbers) / len(numbers)

    kind = "mixture" if sizes.experts else "dense"
    return Subject(
        name=kind, architecture=sizes.architecture, pass_of=pass_of, coverage=coverage if sizes.experts else None
    )


def of_library(sizes: NetworkSizes, device: str) -> Subject | None:
    """The same model of a library; None where that is not installed."""
    try:
        from rackmath.lab.library_models import subject
    except ImportError:
        return None
    return subject(sizes, device)


def token_numbers(vocabulary: int, batch: int, new: int, device: str, seed: int = 1) -> Tensor:
    """Numbers of tokens, the same each time."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (batch, new), generator=generator).to(device)
