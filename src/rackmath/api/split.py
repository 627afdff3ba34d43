"""A model on unlike accelerators of one machine: which layers stand where, and how fast it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Any

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.engine import Estimate, Layout, Losses, estimate
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.io.constants_file import NOW
from rackmath.models.architecture import Architecture, Layer
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.unlike import Card, Sizes, by_memory, by_speed, fits, held, prompt_time, seconds, tensor_split

_PIECE = 512
"""Tokens of a prompt that llama.cpp sends through at once (n_ubatch). [tokens]"""
_MOST = 64
_USABLE = 0.95
"""Part of a memory that a program can fill: drivers, contexts and buffers take the rest. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """A model and the accelerators that share its layers."""

    model: Annotated[str | Architecture, options.MODEL]
    card: Annotated[
        tuple[str, ...],
        Option(
            help="System of one accelerator each, in the machine's order; several alike as rtx-3090:2.",
            kind=kinds.TEXTS,
            names=("--card", "--device"),
            metavar="SYSTEM[:N]",
        ),
    ]
    context: Annotated[float, Option(help="Tokens of each sequence.", kind=kinds.NUMBER)] = 8192.0
    batch: Annotated[float, Option(help="Sequences at once.", kind=kinds.NUMBER)] = 1.0
    weights: Annotated[str | None, options.WEIGHTS] = "q4_k_m"
    kv: Annotated[str | None, options.CACHE] = None
    engine: Annotated[str, options.ENGINE] = "llama.cpp"
    year: Annotated[float, options.YEAR] = NOW
    ideal: Annotated[bool, options.IDEAL] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """A model on one accelerator: passes of the whole, and of it with a layer less of each kind."""

    whole: Estimate
    less: tuple[Estimate, ...]
    kinds: tuple[int, ...]
    """Kind of each layer, in order."""

    def times(self, end: str) -> tuple[tuple[float, ...], float]:
        """Seconds of each layer, and of what is outside of them, at one end of the range or in the middle."""
        whole = float(getattr(self.whole, end))
        each = [max(whole - float(getattr(e, end)), 0.0) for e in self.less]
        layers = tuple(each[kind] for kind in self.kinds)
        return layers, max(whole - sum(layers), 0.0)

    def sizes(self) -> Sizes:
        """Bytes of each layer, and outside of them."""
        whole = float(self.whole.memory.total)
        each = [whole - float(e.memory.total) for e in self.less]
        layers = tuple(each[kind] for kind in self.kinds)
        return Sizes(layers=layers, outside=whole - sum(layers))


def run_split(r: SplitRequest) -> Result:
    """Deal the layers by memory and by speed, and time both.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range, and where no split fits.
    """
    model = requantise(
        load_model(r.model),
        weights=weight_format(r.weights) if r.weights else None,
        cache=cache_format(r.kv) if r.kv else None,
    )
    systems = _systems(r.card)
    measures = {s.name: (_measure(model, s, r, "decode"), _measure(model, s, r, "prefill")) for s in systems}
    sizes = measures[systems[0].name][0].sizes()
    cards = [_card(s, measures[s.name][0], "time") for s in systems]
    ways = [("memory", by_memory(cards, sizes)), ("speed", by_speed(cards, sizes))]
    needed = sum(sizes.layers) + sizes.outside
    if ways[1][1] is None:
        room = sum(card.room for card in cards)
        raise InputError(
            "--card",
            ", ".join(r.card),
            f"{needed / 1e9:.1f} GB do not fit {room / 1e9:.1f} GB: add cards, or narrow weights",
        )
    answers = [_way(r, name, counts, systems, cards, sizes, measures) for name, counts in ways if counts]
    facts = {
        "model": model.name,
        "cards": [s.name for s in systems],
        "context": r.context,
        "batch": r.batch,
        "bytes": needed,
        "ways": answers,
        "assumptions": [
            "accelerators work one after the other on a token, and follow each other on the pieces of a prompt",
            f"{_USABLE:.0%} of each memory can be filled; what crosses between accelerators is left out",
            *([] if r.ideal else ["measurements near it are not asked: none is of unlike accelerators"]),
        ],
    }
    return Result(request=r, facts=facts)


def _systems(texts: Sequence[str]) -> list[System]:
    """Systems of all cards.

    Errors: :class:`InputError` for counts that are none, and more than 64 accelerators.
    """
    systems: list[System] = []
    for text in texts:
        name, _, count = text.partition(":")
        if count and not (count.isdigit() and 0 < int(count) <= _MOST):
            raise InputError("--card", text, f"write a system and how many, as rtx-3090:2, {_MOST} at most")
        systems += [system_of(name)] * int(count or 1)
    if not 0 < len(systems) <= _MOST:
        raise InputError("--card", ", ".join(texts), f"name 1 to {_MOST} accelerators")
    return systems


def _measure(model: Architecture, system: System, r: SplitRequest, phase: str) -> _Measure:
    losses = None if r.ideal else _losses(system, r)
    unlike = list(dict.fromkeys(model.layers))

    def timed(architecture: Architecture) -> Estimate:
        return estimate(architecture, system, Layout(), batch=r.batch, context=r.context, phase=phase, losses=losses)

    less = [_without(model, layer) for layer in unlike]
    order = tuple(unlike.index(layer) for layer in model.layers)
    return _Measure(whole=timed(model), less=tuple(timed(a) for a in less), kinds=order)


def _without(model: Architecture, layer: Layer) -> Architecture:
    """The model with a layer less of one kind."""
    place = model.layers.index(layer)
    return replace(model, layers=model.layers[:place] + model.layers[place + 1 :])


def _losses(system: System, r: SplitRequest) -> Losses:
    return constants_file.losses_of(system, constants_file.engine_of(system, r.engine, r.year), "time per token")


def _card(system: System, measure: _Measure, end: str) -> Card:
    times, outside = measure.times(end)
    return Card(room=_USABLE * system.chip.memory_capacity, times=times, outside=outside)


def _way(
    r: SplitRequest,
    name: str,
    counts: list[int],
    systems: list[System],
    cards: list[Card],
    sizes: Sizes,
    measures: dict[str, tuple[_Measure, _Measure]],
) -> dict[str, Any]:
    """One way to deal the layers, timed."""

    def total(phase: int, end: str) -> list[float]:
        return seconds([_card(s, measures[s.name][phase], end) for s in systems], counts)

    room = fits(cards, sizes, counts)
    value, low, high = (sum(total(0, end)) for end in ("time", "time_low", "time_high"))
    read = prompt_time(total(1, "time"), ceil(r.context / _PIECE))
    return {
        "by": name,
        "layers": counts,
        "bytes": held(sizes, counts),
        "fits": room,
        "time": value if room else None,
        "time_range": [low, high] if room else None,
        "tokens_per_second": r.batch / value if room else None,
        "card_times": total(0, "time"),
        "prompt_tokens_per_second": r.batch * r.context / read if room else None,
        "flags": f"--split-mode layer --tensor-split {','.join(str(share) for share in tensor_split(counts))}",
    }
