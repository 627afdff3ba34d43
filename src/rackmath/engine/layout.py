"""How a model is spread over accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.cache import mixer_cache
from rackmath.models.numbers import Number, maximum
from rackmath.models.weights import cache_parts, mixer_parts

_TOKEN = re.compile(r"^(tp|ep|pp|dp|cp)(\d{1,7})$")
_NAMES = {"tp": "tensor", "ep": "expert", "pp": "pipeline", "dp": "data", "cp": "context_parallel"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Widths of the kinds of parallelism; arrays broadcast.

    ``tensor * data`` accelerators hold one stage, ``pipeline`` stages the model.
    Attention runs ``tensor`` wide in each of ``data`` groups, which hold different
    sequences. Experts are dealt to ``expert`` ranks: inside each tensor group if
    ``expert <= tensor`` (an expert is then cut into ``tensor / expert`` slices), else
    across ``expert / tensor`` groups, which meet in an all-to-all. Where ranks of a tensor
    group would hold copies of one cache, ``context_parallel`` of them share it by tokens.
    """

    tensor: Number = 1
    expert: Number = 1
    pipeline: Number = 1
    data: Number = 1
    context_parallel: Number = 1

    @property
    def gpus(self) -> Number:
        """Accelerators in use."""
        return self.tensor * self.data * self.pipeline

    @property
    def expert_groups(self) -> Number:
        """Data-parallel groups whose tokens share one set of experts."""
        return maximum(1, self.expert / self.tensor)

    @property
    def expert_slices(self) -> Number:
        """Ranks that one expert is cut over."""
        return maximum(1, self.tensor / self.expert)

    def text(self) -> str:
        """Write the layout as ``tp8,ep8,pp1,dp1``, and ``cp2`` behind it where caches are cut by tokens."""
        cut = f",cp{self.context_parallel:g}" if self.context_parallel > 1 else ""
        return f"tp{self.tensor:g},ep{self.expert:g},pp{self.pipeline:g},dp{self.data:g}{cut}"


def parse_layout(text: str, gpus: int | None, architecture: Architecture) -> Layout:
    """Read ``tp8,ep8,pp1,dp1``; what is left out is 1, or ``dp`` what ``gpus`` leaves.

    Errors: :class:`InputError` for text that is no layout, and for one that does not
    divide the model or the accelerators.
    """
    if gpus is not None and gpus < 1:
        raise InputError("gpus", gpus, "write a number of at least 1")
    widths: dict[str, int] = {}
    for part in text.replace(" ", "").lower().split(","):
        match = _TOKEN.match(part)
        if not match or match.group(1) in widths:
            raise InputError("layout", text, "write something like tp8,ep8,pp1,dp1, each kind once")
        widths[match.group(1)] = int(match.group(2))
    if any(w < 1 for w in widths.values()):
        raise InputError("layout", text, "each width is at least 1")
    if "dp" not in widths and gpus is not None:
        held = widths.get("tp", 1) * widths.get("pp", 1)
        if gpus % held:
            raise InputError("layout", text, f"{gpus} accelerators do not divide into groups of {held}")
        widths["dp"] = gpus // held
    layout = Layout(**{_NAMES[k]: v for k, v in widths.items()})
    if gpus is not None and layout.gpus != gpus:
        raise InputError("layout", text, f"uses {layout.gpus} accelerators, --gpus says {gpus}")
    check_layout(layout, architecture)
    return layout


def check_layout(layout: Layout, architecture: Architecture) -> None:
    """Refuse a layout of plain integers that the model does not divide into.

    Errors: :class:`InputError` names the width and what it must divide.
    """
    reason = _misfit(layout, architecture)
    if reason is not None:
        raise InputError("layout", layout.text(), reason)


def candidate_layouts(architecture: Architecture, gpus: int) -> Iterator[Layout]:
    """Yield sensible layouts of ``gpus`` accelerators: divisors, experts together or spread."""
    experts = expert_count(architecture)
    for pipeline in _divisors(gpus):
        if pipeline > 1 and pipeline > len(architecture.layers):
            continue
        for tensor in _divisors(gpus // pipeline):
            data = gpus // pipeline // tensor
            for expert in sorted({1, tensor, tensor * data}) if experts else (1,):
                layout = Layout(tensor=tensor, expert=expert, pipeline=pipeline, data=data)
                if _misfit(layout, architecture) is None:
                    yield layout


def context_widths(layout: Layout, architecture: Architecture) -> list[int]:
    """Widths of context parallelism that cut copies of a cache, 1 among them."""
    copies = _copies(int(layout.tensor), architecture)
    return [w for w in _divisors(int(layout.tensor)) if w <= copies]


def expert_count(architecture: Architecture) -> int:
    """Routed experts of a layer at most; 0 for a dense model."""
    return max(
        (f.experts for layer, _ in architecture.groups for f in layer.feed_forwards if isinstance(f, Experts)),
        default=0,
    )


def head_count(architecture: Architecture) -> int | None:
    """Fewest heads of any layer, which bound tensor parallelism; None without heads."""
    heads = [mixer_parts(m) for layer, _ in architecture.groups for m in layer.mixers]
    return min((h for h in heads if h is not None), default=None)


def draft_layout(draft: Architecture, layout: Layout) -> Layout:
    """How a draft model stands on the accelerators of its target: as wide where its heads divide, else on each rank."""
    tensor = np.asarray(layout.tensor, dtype=float)
    return Layout(tensor=np.where((head_count(draft) or 1) % tensor == 0, tensor, 1.0), data=layout.data * 1.0)


def widths(layout: Layout) -> dict[str, Number]:
    """All widths of a layout by name."""
    return {f.name: getattr(layout, f.name) for f in fields(layout)}


def stack_layouts(layouts: Sequence[Layout], axes: int = 1) -> Layout:
    """One layout whose widths are arrays over some, with further axes of length one behind. (layouts, 1, ...)"""
    shape = (-1, *(1,) * (axes - 1))
    return Layout(
        **{n: np.array([float(getattr(layout, n)) for layout in layouts]).reshape(shape) for n in widths(Layout())}
    )


def as_floats(layout: Layout) -> Layout:
    """Return the layout in floats, so that divisions never truncate."""
    return replace(layout, **{name: width * 1.0 for name, width in widths(layout).items()})


def _copies(tensor: int, architecture: Architecture) -> int:
    """Fewest ranks of a tensor group that hold the same cache; 1 where none do."""
    parts = [cache_parts(m) for layer, _ in architecture.groups for m in layer.mixers if mixer_cache(m).growing]
    held = [tensor if p == 0 else 1 if p is None else max(tensor // p, 1) for p in parts]
    return min(held, default=1)


def _misfit(layout: Layout, architecture: Architecture) -> str | None:
    tensor, expert = int(layout.tensor), int(layout.expert)
    pipeline, data = int(layout.pipeline), int(layout.data)
    heads, experts, layers = head_count(architecture), expert_count(architecture), len(architecture.layers)
    if heads is not None and (tensor > heads or heads % tensor):
        return f"tp must divide the {heads} heads of the model"
    if pipeline > layers:
        return f"pp cannot exceed the {layers} layers of the model"
    if expert > 1 and not experts:
        return "the model has no experts; leave ep at 1"
    if expert > max(experts, 1):
        return f"ep cannot exceed the {experts} experts of the model"
    cut = int(layout.context_parallel)
    copies = _copies(tensor, architecture)
    if cut > 1 and (tensor % cut or cut > copies):
        return f"cp must divide tp and not exceed {copies}, the ranks that hold the same cache"
    if expert <= tensor:
        return None if tensor % expert == 0 else "ep below tp must divide it"
    if expert % tensor or (tensor * data) % expert:
        return "ep above tp must be a multiple of it and divide tp x dp"
    return None


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})
