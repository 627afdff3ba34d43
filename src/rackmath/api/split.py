"""A model on unlike accelerators of one machine: which layers stand where, and how fast it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rackmath.api.subjects import system_of
from rackmath.engine import Estimate, Layout, Losses, estimate
from rackmath.engine.gather import pieces_of
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.models.architecture import Architecture, Layer
from rackmath.models.counts import active_params, total_params
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.unlike import (
    CardLoad,
    LayerSizes,
    by_memory,
    by_speed,
    fits,
    held,
    prompt_time,
    seconds,
    tensor_split,
)

_MOST = 64
NOTES = (
    "accelerators work one after the other on a token, and follow each other on the pieces of a prompt",
    "95% of each memory can be filled; what crosses between accelerators is left out",
    "measurements near are not asked: none is of unlike accelerators",
)
_USABLE = 0.95
"""Part of a memory that a program can fill: drivers, contexts and buffers take the rest. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is run: sequences and their length, and the software."""

    batch: float
    context: float
    engine: str
    year: float
    ideal: bool


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
        savings = [max(whole - float(getattr(e, end)), 0.0) for e in self.less]
        layers = tuple(savings[kind] for kind in self.kinds)
        return layers, max(whole - sum(layers), 0.0)

    def sizes(self) -> LayerSizes:
        """Bytes of each layer, and outside of them."""
        whole = float(self.whole.memory.total)
        savings = [whole - float(e.memory.total) for e in self.less]
        layers = tuple(savings[kind] for kind in self.kinds)
        return LayerSizes(layers=layers, outside=whole - sum(layers))


def split(model: Architecture, systems: Sequence[System], run: Run) -> dict[str, Any]:
    """A model's layers on these accelerators, one of each entry, by memory and by speed.

    Errors: :class:`~rackmath.errors.DoesNotFit` where no split fits.
    """
    unlike = {s.name: s for s in systems}
    measures = {
        name: (_measure(model, s, run, "decode"), _measure(model, s, run, "prefill")) for name, s in unlike.items()
    }
    sizes = measures[systems[0].name][0].sizes()
    cards = [_card(s, measures[s.name][0], "time") for s in systems]
    ways = [("memory", by_memory(cards, sizes)), ("speed", by_speed(cards, sizes))]
    total_bytes = sum(sizes.layers) + sizes.outside
    if ways[1][1] is None:
        room = sum(card.room for card in cards)
        raise DoesNotFit(
            f"{total_bytes / 1e9:.1f} GB in whole layers do not fit {room / 1e9:.1f} GB",
            "add accelerators, or narrow the weights",
        )
    return {
        "model": model.name,
        "cards": [s.name for s in systems],
        "context": run.context,
        "batch": run.batch,
        "bytes": total_bytes,
        "ways": [_way(run, name, counts, systems, cards, sizes, measures) for name, counts in ways if counts],
        "assumptions": list(NOTES),
    }


def split_row(model: Architecture, machine: Sequence[System], run: Run, name: str, text: str) -> dict[str, Any]:
    """A row of ``fit``: a model in a format, its layers dealt by speed.

    Errors: :class:`~rackmath.errors.DoesNotFit` where no split fits.
    """
    facts = split(model, machine, run)
    way = facts["ways"][-1]
    low, high = way["time_range"]
    return {
        "model": name,
        "weights": text,
        "tokens_per_second": way["tokens_per_second"],
        "time": way["time"],
        "time_low": low,
        "time_high": high,
        "memory": max(way["bytes"]),
        "offloaded_bytes": 0.0,
        "offloaded_layers": 0,
        "offloaded_expert_layers": 0,
        "layout": "layers " + ",".join(str(count) for count in way["layers"]),
        "total_params": total_params(model),
        "active_params": active_params(model),
        "evidence": None,
        "split": facts,
    }


def systems_of(texts: Sequence[str]) -> list[System]:
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


def _measure(model: Architecture, system: System, r: Run, phase: str) -> _Measure:
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


def _losses(system: System, r: Run) -> Losses:
    return constants_file.losses_of(system, constants_file.engine_of(system, r.engine, r.year), "time per token")


def _card(system: System, measure: _Measure, end: str) -> CardLoad:
    times, outside = measure.times(end)
    return CardLoad(room=_USABLE * system.chip.usable_memory, times=times, outside=outside)


def _way(
    r: Run,
    name: str,
    counts: list[int],
    systems: Sequence[System],
    cards: list[CardLoad],
    sizes: LayerSizes,
    measures: dict[str, tuple[_Measure, _Measure]],
) -> dict[str, Any]:
    """One way to deal the layers, timed."""

    def total(phase: int, end: str) -> list[float]:
        return seconds([_card(s, measures[s.name][phase], end) for s in systems], counts)

    room = fits(cards, sizes, counts)
    value, low, high = (sum(total(0, end)) for end in ("time", "time_low", "time_high"))
    prompt_seconds = prompt_time(total(1, "time"), int(pieces_of(r.context, micro_batch_tokens(r.engine))))
    return {
        "by": name,
        "layers": counts,
        "bytes": held(sizes, counts),
        "fits": room,
        "time": value if room else None,
        "time_range": [low, high] if room else None,
        "tokens_per_second": r.batch / value if room else None,
        "card_times": total(0, "time"),
        "prompt_tokens_per_second": r.batch * r.context / prompt_seconds if room else None,
        "flags": f"--split-mode layer --tensor-split {','.join(str(share) for share in tensor_split(counts))}",
    }
