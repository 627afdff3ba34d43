"""Numbers of a plan's points, with their ranges."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from rackmath.api.plan_question import PlanQuestion
from rackmath.engine import Estimate, estimate
from rackmath.serving.choice import describe, launched_sequences, losses_at
from rackmath.serving.engines import launched_max_num_seqs, micro_batch_tokens
from rackmath.serving.search import SearchResult
from rackmath.serving.startup.held import launched_parts
from rackmath.serving.startup.rules import is_known

_CLASSES = {
    "tokens_per_second_per_gpu": "throughput",
    "tokens_per_second_per_user": "time per token",
    "time_to_first_token": "first token",
    "time_per_output_token": "time per token",
    "usd_per_million_output_tokens": "throughput",
}
"""Class of measurements that each number's range comes from."""
_INVERSE = ("tokens_per_second_per_user", "usd_per_million_output_tokens")
"""Numbers that fall where the measured quantity of their class rises."""


class PointFacts:
    """Numbers of points, with their ranges."""

    def __init__(self, question: PlanQuestion, search: SearchResult) -> None:
        self.question, self.search, self.space = question, search, question.space

    def point(self, place: int) -> dict[str, Any]:
        """All that is said of one point."""
        p, space = self.search.points, self.space
        variant = space.variants[int(p.variant[place])]
        layout = self.search.layouts[int(p.layout[place])]
        tokens = float(p.rate[place]) * self.question.work.output
        step = self._step(place)
        places = launched_sequences(self.question.system, self.question.work, space, self.search, place)
        values = {
            "tokens_per_second_per_gpu": tokens / float(p.gpus[place]),
            "tokens_per_second_per_user": 1 / float(p.time_per_output_token[place]),
            "time_to_first_token": float(p.time_to_first_token[place]),
            "time_per_output_token": float(p.time_per_output_token[place]),
            "usd_per_million_output_tokens": (
                None if self.question.price is None else self.question.price * float(p.billed[place]) / tokens * 1e6
            ),
        }
        return {
            "layout": describe(self.search.layouts, p, place),
            "units": float(p.units[place]),
            **({"encoders": float(p.encoders[place])} if self.question.architecture.images is not None else {}),
            "gpus": float(p.gpus[place]),
            "billed_gpus": float(p.billed[place]),
            "weights": variant.weights,
            "kv": variant.kv,
            "batch": float(p.batch[place]),
            "concurrency": float(p.concurrency[place] * p.units[place]),
            "chunk": float(p.chunk[place]),
            "decode_chunk": float(p.decode_chunk[place]),
            "memory_fraction": self._memory_part(place),
            "groups": float(layout.data * layout.pipeline),
            "max_num_seqs": launched_max_num_seqs(space.engine, places, layout),
            "pools": self._pools(place),
            "draft_tokens": float(p.draft_tokens[place]),
            "requests_per_second": float(p.rate[place]),
            **values,
            **self._bounds(place, values, self._ideal(place, step)),
            "bound_by": str(step.bound_by),
            "evidence": None if self.search.corrections is None else str(self.search.corrections.distance[place]),
        }

    def _memory_part(self, place: int) -> float | None:
        """Part of the memory that launch lines give the engine that writes; None where nothing is known of it. [1]"""
        p, space = self.search.points, self.space
        layout = self.search.layouts[int(p.layout[place])]
        if not is_known(space.engine) or layout.ffn:
            return None
        architecture, chunk = space.variants[int(p.variant[place])].architecture, float(p.decode_chunk[place])
        return float(launched_parts(architecture, self.question.system, [layout], [chunk], space.engine)[0, 0])

    def _step(self, place: int) -> Estimate:
        """The pass that writes, at the point's batch and half of its answers."""
        p, space = self.search.points, self.space
        return estimate(
            space.variants[int(p.variant[place])].architecture,
            self.question.system,
            self.search.layouts[int(p.layout[place])],
            batch=float(p.batch[place]),
            context=self.question.work.input + self.question.work.output / 2,
            draft_tokens=float(p.draft_tokens[place]),
            draft=space.draft,
            losses=losses_at(self.search, place, self.question.losses),
        )

    def _ideal(self, place: int, step: Estimate) -> dict[str, float]:
        """Times that nothing beats: a prompt read alone, and a step, at the bound."""
        p, work = self.search.points, self.question.work
        reading = p.layout if p.prefill[place] < 0 else p.prefill
        prompt = estimate(
            self.space.variants[int(p.variant[place])].architecture,
            self.question.system,
            self.search.layouts[int(reading[place])],
            batch=1.0,
            context=work.input,
            cached_tokens=work.cached_prefix * work.input,
            piece=micro_batch_tokens(self.space.engine),
            phase="prefill",
        )
        return {
            "time_to_first_token": float(prompt.time),
            "time_per_output_token": float(p.time_per_output_token[place]) * float(step.time_ideal / step.time),
        }

    def _pools(self, place: int) -> dict[str, Any] | None:
        """Workers of the whole deployment that read and write; None where they are the same."""
        p, layouts = self.search.points, self.search.layouts
        if p.prefill[place] < 0:
            return None
        prefill, decode = layouts[int(p.prefill[place])], layouts[int(p.layout[place])]
        return {
            "read": prefill.text(),
            "reading_gpus": float(p.units[place] * p.prefill_workers[place]) * float(prefill.gpus),
            "write": decode.text(),
        }

    def _bounds(
        self, place: int, values: Mapping[str, float | None], ideal: Mapping[str, float]
    ) -> dict[str, float | None]:
        """90 % ranges; no time of them is below the ideal one, and no speed above its inverse."""
        bounds: dict[str, float | None] = {}
        for name, value in values.items():
            low, high = self.question.range_at(self.search, place, _CLASSES[name])
            if name in _INVERSE:
                low, high = 1 / high, 1 / low
            if value is None:
                bounds[f"{name}_low"] = bounds[f"{name}_high"] = None
                continue
            bounds[f"{name}_low"] = max(value * low, min(ideal.get(name, 0.0), value))
            bounds[f"{name}_high"] = value * high
        bounds["tokens_per_second_per_user_high"] = 1 / (bounds["time_per_output_token_low"] or inf)
        return bounds
