"""How a model is spread over accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.cache import mixer_cache
from rackmath.models.numbers import Number, above_zero, maximum
from rackmath.models.weights import cache_parts, mixer_parts

_NAMES = {
    "tp": "tensor", "ep": "expert", "pp": "pipeline", "dp": "data", "cp": "context_parallel",
    "ffn": "ffn", "mb": "micro_batches",
}  # fmt: skip
_TOKEN = re.compile(rf"^({'|'.join(_NAMES)})(\d{{1,7}})$")
_MICRO_BATCHES = 2
"""Micro-batches of accelerators that hold experts only, where a layout does not say: vLLM's dual-batch overlap."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Widths of the kinds of parallelism; arrays broadcast.

    ``tensor * data`` accelerators hold one stage, ``pipeline`` stages the model.
    Attention runs ``tensor`` wide in each of ``data`` groups, which hold different
    sequences. Experts are dealt to ``expert`` ranks: inside each tensor group if
    ``expert <= tensor`` (an expert is then cut into ``tensor / expert`` slices), else
    across ``expert / tensor`` groups, which meet in an all-to-all. Where ranks of a tensor
    group would hold copies of one cache, ``context_parallel`` of them share it by tokens.

    With ``ffn`` accelerators beside them that hold the routed experts and nothing else (attention-FFN disaggregation),
    ``expert`` is their number; ``micro_batches`` of the sequences of a group take turns between the two pools.
    """

    tensor: Number = 1
    expert: Number = 1
    pipeline: Number = 1
    data: Number = 1
    context_parallel: Number = 1
    ffn: Number = 0
    micro_batches: Number = 1

    @property
    def gpus(self) -> Number:
        """Accelerators in use."""
        return self.tensor * self.data * self.pipeline + self.ffn

    @property
    def expert_groups(self) -> Number:
        """Data-parallel groups whose tokens share one set of experts."""
        return self.apart * self.data + (1 - self.apart) * maximum(1, self.expert / self.tensor)

    @property
    def expert_slices(self) -> Number:
        """Ranks that one expert is cut over."""
        return self.apart + (1 - self.apart) * maximum(1, self.tensor / self.expert)

    @property
    def apart(self) -> Number:
        """1 where accelerators hold routed experts only, else 0."""
        return above_zero(self.ffn)

    def text(self) -> str:
        """Write the layout as ``tp8,ep8,pp1,dp1``.

        Behind it ``cp2`` where caches are cut by tokens, ``ffn8,mb2`` where accelerators hold experts only.
        """
        context_text = f",cp{self.context_parallel:g}" if self.context_parallel > 1 else ""
        apart = f",ffn{self.ffn:g},mb{self.micro_batches:g}" if self.ffn else ""
        return f"tp{self.tensor:g},ep{self.expert:g},pp{self.pipeline:g},dp{self.data:g}{context_text}{apart}"


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
    if "ffn" in widths:
        widths = {"ep": widths["ffn"], "mb": _MICRO_BATCHES} | widths
    if "dp" not in widths and gpus is not None:
        per_replica, accelerators = widths.get("tp", 1) * widths.get("pp", 1), gpus - widths.get("ffn", 0)
        if accelerators < per_replica or accelerators % per_replica:
            raise InputError("layout", text, f"{accelerators} accelerators do not divide into groups of {per_replica}")
        widths["dp"] = accelerators // per_replica
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
    for pipeline in divisors(gpus):
        if pipeline > 1 and pipeline > len(architecture.layers):
            continue
        for tensor in divisors(gpus // pipeline):
            data = gpus // pipeline // tensor
            for expert in sorted({1, tensor, tensor * data}) if experts else (1,):
                layout = Layout(tensor=tensor, expert=expert, pipeline=pipeline, data=data)
                if _misfit(layout, architecture) is None:
                    yield layout


def apart_layouts(architecture: Architecture, gpus: int) -> Iterator[Layout]:
    """Yield sensible layouts of ``gpus`` accelerators some of which hold routed experts only.

    Each of those holds equally many experts and meets the tokens of equally many of the others, in one micro-batch or
    two in turn, as vLLM's plugin for attention-FFN disaggregation has it (vllm-project/afd-plugin).
    """
    experts = expert_count(architecture)
    for ffn in [n for n in divisors(gpus)[:-1] if experts % n == 0]:
        for tensor in divisors(gpus - ffn):
            for micro_batches in (1, _MICRO_BATCHES):
                data = (gpus - ffn) // tensor
                layout = Layout(tensor=tensor, expert=ffn, data=data, ffn=ffn, micro_batches=micro_batches)
                if _misfit(layout, architecture) is None:
                    yield layout


def context_widths(layout: Layout, architecture: Architecture) -> list[int]:
    """Widths of context parallelism that cut copies of a cache, 1 among them."""
    copies = _copies(int(layout.tensor), architecture)
    return [w for w in divisors(int(layout.tensor)) if w <= copies]


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
    copies = [tensor if p == 0 else 1 if p is None else max(tensor // p, 1) for p in parts]
    return min(copies, default=1)


def _misfit(layout: Layout, architecture: Architecture) -> str | None:
    tensor, expert = int(layout.tensor), int(layout.expert)
    pipeline, data = int(layout.pipeline), int(layout.data)
    heads, experts, layers = head_count(architecture), expert_count(architecture), len(architecture.layers)
    if heads is not None and (tensor > heads or heads % tensor):
        return f"tp must divide the {heads} heads of the model"
    if pipeline > layers:
        return f"pp cannot exceed the {layers} layers of the model"
    if (expert > 1 or layout.ffn) and not experts:
        return "the model has no experts; leave ep at 1" + (", and ffn out" if layout.ffn else "")
    if expert > max(experts, 1):
        return f"ep cannot exceed the {experts} experts of the model"
    ranks = int(layout.context_parallel)
    copies = _copies(tensor, architecture)
    if ranks > 1 and (tensor % ranks or ranks > copies):
        return f"cp must divide tp and not exceed {copies}, the ranks that hold the same cache"
    if layout.ffn or layout.micro_batches > 1:
        return _misfit_apart(layout)
    if expert <= tensor:
        return None if tensor % expert == 0 else "ep below tp must divide it"
    if expert % tensor or (tensor * data) % expert:
        return "ep above tp must be a multiple of it and divide tp x dp"
    return None


def _misfit_apart(layout: Layout) -> str | None:
    """Why accelerators that hold experts only do not fit a model whose experts are enough for them."""
    if not layout.ffn:
        return "mb is for accelerators that hold experts only: add ffn"
    if layout.expert != layout.ffn:
        return f"ep is the number of accelerators that hold experts, ffn{layout.ffn:g}: leave it out"
    return None if layout.pipeline == 1 else "ffn goes with pp1: micro-batches fill its pipeline"


def divisors(n: int) -> list[int]:
    """Return all numbers that divide another, smallest first."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})
