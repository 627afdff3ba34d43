"""``plan``: the best deployment of a model on a budget of accelerators, and the frontier."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import click

from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.plan_launch import launched
from rackmath.cli.plan_text import show_plan
from rackmath.cli.planning import planning_options
from rackmath.cli.quantities import Whole
from rackmath.engine import Estimate, estimate
from rackmath.figures.pictures import frontier_figure
from rackmath.figures.write import check_picture
from rackmath.serving.choice import describe
from rackmath.serving.plan import Plan
from rackmath.serving.plan import plan as run
from rackmath.serving.points import Ints
from rackmath.serving.search import Found
from rackmath.serving.workload import Limits, Space
from rackmath.sweeps.asked import Asked, asked
from rackmath.units import show

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


@click.command(
    epilog="Example: rackmath plan deepseek-v3 --on h200-sxm --gpus 32 --input 4000 --output 1000 --ttft 2 --tpot 0.05"
)
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@planning_options
@click.option(
    "--simulate", "traffic", metavar="RATE|TRACE", help="Rank the best points on such traffic, event by event."
)
@click.option("--workers", type=Whole(1, 4096), help="Processes for --simulate (default: cores).")
@click.option("--on-cluster", metavar="ADDRESS", help="Simulate on Ray: ray://host:10001, or auto.")
@click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep simulated runs here.")
@click.option("--at", "percentile", type=click.Choice(["p50", "p90", "p99"]), default="p99", show_default=True)
@click.option("--explain", is_flag=True, help="Show where accelerator time goes and the equations.")
@click.option("--plot", metavar="FILE", help="Draw the frontier: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    model: str,
    on: str,
    traffic: str | None,
    percentile: str,
    workers: int | None,
    on_cluster: str | None,
    checkpoint: Path | None,
    explain: bool,
    plot: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Search every sensible deployment: the frontier, the best under limits, launch commands.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(plot)
    question = asked(model, on, given)
    start = time.perf_counter()
    result = run(question.system, question.work, question.limits, question.space, question.losses, question.scheduling)
    seconds = time.perf_counter() - start
    facts = PointFacts(question, result.found, question.space)
    shown = {
        "model": question.architecture.name,
        "system": question.system.name,
        "gpus": question.space.gpus,
        "evaluated": result.found.evaluated,
        "fitting": result.found.fitting,
        "seconds": seconds,
        "frontier": [
            point | {"launch": launched(model, question, result, int(place))}
            for place, point in zip(result.frontier, facts.frontier(result.frontier), strict=True)
        ],
        "best": None if result.best is None else facts.point(result.best) | _stop(result),
        "reason": "" if result.best is not None else _unmet(result, question.limits),
        "spent": dict(result.spent),
        "runners_up": [
            facts.point(x.place) | {"behind": x.behind, "spends_more_on": x.spends, "stopped_by": x.ending.stopped_by}
            for x in result.losers
        ],
        "launch": {} if result.best is None else launched(model, question, result, result.best),
        "assumptions": list(question.notes),
    }
    if traffic is not None:
        from rackmath.cli.plan_simulate import resimulated
        from rackmath.sweeps.replay_runs import Where

        where = Where(workers=workers, cluster=on_cluster, folder=checkpoint)
        shown["simulated"] = resimulated(model, on, shown, given, traffic, percentile, where)
    if drawn is not None:
        save(frontier_figure(shown), drawn)
    if as_json:
        render.show_json(shown)
        return
    show_plan(shown, explain)
    if traffic is not None:
        from rackmath.cli.plan_simulate import show_resimulated

        show_resimulated(shown["simulated"], traffic, percentile)


class PointFacts:
    """Numbers of points, with their ranges."""

    def __init__(self, question: Asked, found: Found, space: Space) -> None:
        self.question, self.found, self.space = question, found, space
        self.ranges = {name: question.range(kind) for name, kind in _CLASSES.items()}

    def point(self, place: int) -> dict[str, Any]:
        """All that is said of one point."""
        p, space = self.found.points, self.space
        variant = space.variants[int(p.variant[place])]
        layout = self.found.layouts[int(p.layout[place])]
        tokens = float(p.rate[place]) * self.question.work.output
        step = self._step(place)
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
            "layout": describe(self.found.layouts, p, place),
            "units": float(p.units[place]),
            "gpus": float(p.gpus[place]),
            "billed_gpus": float(p.billed[place]),
            "weights": variant.weights,
            "kv": variant.kv,
            "batch": float(p.batch[place]),
            "concurrency": float(p.concurrency[place] * p.units[place]),
            "chunk": float(p.chunk[place]),
            "groups": float(layout.data * layout.pipeline),
            "pools": self._pools(place),
            "drafted": float(p.drafted[place]),
            "requests_per_second": float(p.rate[place]),
            **values,
            **self._bounds(values, self._ideal(place, step)),
            "bound_by": str(step.bound_by),
        }

    def _step(self, place: int) -> Estimate:
        """The pass that writes, at the point's batch and half of its answers."""
        p, space = self.found.points, self.space
        return estimate(
            space.variants[int(p.variant[place])].architecture,
            self.question.system,
            self.found.layouts[int(p.layout[place])],
            batch=float(p.batch[place]),
            context=self.question.work.input + self.question.work.output / 2,
            drafted=float(p.drafted[place]),
            draft=space.draft,
            losses=self.question.losses,
        )

    def _ideal(self, place: int, step: Estimate) -> dict[str, float]:
        """Times that nothing beats: a prompt read alone, and a step, at the bound."""
        p, work = self.found.points, self.question.work
        reading = p.layout if p.prefill[place] < 0 else p.prefill
        prompt = estimate(
            self.space.variants[int(p.variant[place])].architecture,
            self.question.system,
            self.found.layouts[int(reading[place])],
            batch=1.0,
            context=work.input,
            cached=work.cached * work.input,
            phase="prefill",
        )
        return {
            "time_to_first_token": float(prompt.time),
            "time_per_output_token": float(p.time_per_output_token[place]) * float(step.time_ideal / step.time),
        }

    def _pools(self, place: int) -> dict[str, Any] | None:
        """Workers of the whole deployment that read and write; None where they are the same."""
        p, layouts = self.found.points, self.found.layouts
        if p.prefill[place] < 0:
            return None
        read, write = layouts[int(p.prefill[place])], layouts[int(p.layout[place])]
        return {
            "read": read.text(),
            "reading_gpus": float(p.units[place] * p.prefill_workers[place]) * float(read.gpus),
            "write": write.text(),
        }

    def _bounds(self, values: Mapping[str, float | None], ideal: Mapping[str, float]) -> dict[str, float | None]:
        """90 % ranges; no time of them is below the ideal one, and no speed above its inverse."""
        bounds: dict[str, float | None] = {}
        for name, value in values.items():
            low, high = self.ranges[name]
            if name in _INVERSE:
                low, high = 1 / high, 1 / low
            if value is None:
                bounds[f"{name}_low"] = bounds[f"{name}_high"] = None
                continue
            bounds[f"{name}_low"] = max(value * low, min(ideal.get(name, 0.0), value))
            bounds[f"{name}_high"] = value * high
        bounds["tokens_per_second_per_user_high"] = 1 / (bounds["time_per_output_token_low"] or inf)
        return bounds

    def frontier(self, places: Ints) -> list[dict[str, Any]]:
        """Points of the frontier, fastest first."""
        return [self.point(int(place)) for place in places]


def _unmet(result: Plan, limits: Limits) -> str:
    """Why no point keeps the limits, and how near the nearest comes."""
    p = result.found.points
    if not len(result.frontier):
        return (
            f"the shortest time to first token is {show(float(p.time_to_first_token.min()), 's')}:"
            " allow a longer --ttft, or use more --gpus"
        )
    fastest = float(p.time_per_output_token[result.frontier].min())
    return (
        f"within {limits.time_to_first_token:g} s to the first token the fastest takes {show(fastest, 's')} per"
        " output token: allow a longer --tpot, or use more --gpus"
    )


def _stop(result: Plan) -> dict[str, Any]:
    ending = result.ending
    return {} if ending is None else {"stopped_by": ending.stopped_by, "used": ending.use}
