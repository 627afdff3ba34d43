"""Activation memory against depth, stored, recomputed and reversible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.models.architecture import Architecture
from rackmath.training.depth import WAYS, below_from, depths

_DEEPEST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRequest:
    """Layers like those of a model, at several depths."""

    model: Annotated[str | Architecture, options.MODEL]
    tokens: Annotated[float, Option(help="Tokens of a micro-batch on a rank.", kind=kinds.NUMBER)] = 8192.0
    layers: Annotated[str | None, Option(help="Depths, as in 32,64,128 (default: the model's, half and twice it).")] = (
        None
    )

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_depth(r: DepthRequest) -> Result:
    """Activation memory of layers like a model's, by depth: standard, per block, square root, reversible.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    architecture = load_model(r.model)
    if not 1 <= r.tokens <= 1e12:
        raise InputError("--tokens", r.tokens, "write a number from 1 to 1e12")
    own_layers = len(architecture.layers)
    layers = (
        _numbers(r.layers)
        if r.layers
        else sorted({max(own_layers // 2, 1), own_layers, 2 * own_layers, 4 * own_layers})
    )
    result = {count: depths(architecture, count) for count in layers}
    pays = {way: below_from(architecture, way) for way in ("sqrt", "reversible")}
    facts = {
        "model": architecture.name,
        "tokens": r.tokens,
        "below_per_block_from": pays,
        "depths": [
            {"layers": count, "way": way.way, "bytes": way.memory * r.tokens, "overhead": way.overhead}
            for count, ways in result.items()
            for way in ways
        ],
    }
    return Result(
        request=r,
        facts=facts,
        draw=lambda: _figure(architecture, r.tokens, max(layers)),
        details=(architecture, r.tokens, result, pays),
    )


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError("--layers", text, "write whole numbers with commas between") from error
    if not all(1 <= number <= _DEEPEST for number in numbers):
        raise InputError("--layers", text, f"write numbers from 1 to {_DEEPEST:,}")
    return sorted(set(numbers))


def _figure(architecture: Architecture, tokens: float, deepest: int) -> Figure:
    across = sorted({max(round(deepest * i / 40), 1) for i in range(1, 41)})
    curves = [depths(architecture, count) for count in across]
    return Figure(
        title=f"activation memory of {tokens:,.0f} tokens against depth, layers of {architecture.name}",
        panels=[
            Panel(
                across="layers",
                up="GB",
                series=[
                    Series(
                        name=f"{way}, {curves[0][place].overhead:.0%} more computation",
                        x=across,
                        y=[ways[place].memory * tokens / 1e9 for ways in curves],
                    )
                    for place, way in enumerate(WAYS)
                ],
                log_up=True,
            )
        ],
        note="fused attention, 16 bit, one rank",
    )
