"""Hold plans against the simulation of what they launch: writes docs/accuracy-of-plans.md.

    python tools/plans.py              # a minute
    python tools/plans.py --count 300 --seed 9 --out PAGE.md

Deployments are drawn at random, planned, and simulated: as closed loops of as many users as the plan counts, or, of two
pools, with requests at random just below the planned rate. Both are ours: the page says whether the closed form and the
event by event simulation agree, not whether either is true.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

import rackmath as rm
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import DoesNotFit

PAGE = Path("docs/accuracy-of-plans.md")
MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "gpt-oss-120b", "deepseek-v3", "qwen3-30b-a3b", "kimi-k2",
    "glm-4.5-air", "llama-4-maverick", "gemma-3-27b", "qwen3-next-80b-a3b", "minimax-m2.5", "nemotron-h-56b",
)  # fmt: skip
SYSTEMS = (
    ("h100-sxm", 8), ("h200-sxm", 8), ("b200-sxm", 8), ("a100-sxm", 8), ("mi300x", 8), ("l40s", 4), ("h20", 16),
)  # fmt: skip
T = TypeVar("T")
ENGINES = ("vllm", "sglang", "trtllm")
ROUNDS, MOST_USERS = 20, 600
"""Requests of each user, and users beyond which a run is left out for its length."""
SPREAD = 0.4
"""Spread of lengths over their mean: equal ones march in step."""
PART, POOLED_SPREAD = 0.97, 0.1
"""Of two pools: part of the planned rate at which requests come, and spread of their lengths."""


@dataclass(frozen=True, kw_only=True)
class PooledComparison:
    """One plan of two pools and its simulation."""

    name: str
    first: float
    """Time to first token, simulated over planned. [1]"""
    tpot: float
    """The same of the time per token. [1]"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One plan and its simulation."""

    name: str
    engine: str
    users_each: float
    """Users of one copy."""
    stages: bool
    rate: float
    """Requests served over planned. [1]"""
    tpot: float
    """Time per token, simulated over planned. [1]"""


def main() -> None:
    """Draw, plan, simulate, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=120, help="plans that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    every = list(comparisons(options.count, options.seed))
    pooled = list(pooled_comparisons(options.count, options.seed))
    lines = [*report(every, options.count, options.seed), *pooled_report(pooled)]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def plans(count: int, seed: int, *, one_pool: bool) -> Iterator[tuple[str, str, rm.Deployment]]:
    """Name, engine and best deployment of so many questions drawn at random, where there is one."""
    random = np.random.default_rng(seed)

    def draw(values: Sequence[T]) -> T:
        return values[int(random.integers(len(values)))]

    for _ in range(count):
        model, engine, (chip, box) = draw(MODELS), draw(ENGINES), draw(SYSTEMS)
        gpus, tokens, answer = box * draw((1, 2, 4)) // 2, draw((200, 1000, 4000, 16_000)), draw((100, 500, 2000))
        work = rm.Workload(input=tokens, output=answer, ttft=draw((None, 1.0, 3.0)), tpot=draw((None, 0.02, 0.05)))
        try:
            system = rm.load_system(chip, gpus=gpus)
            best = rm.plan(model, system, work, engine=rm.Engine(engine), one_pool=one_pool).best
        except DoesNotFit:
            continue
        if best is not None:
            yield f"{model} on {gpus} x {chip}, {engine}, {tokens:,} + {answer:,} tokens", engine, best


def pooled_comparisons(count: int, seed: int) -> Iterator[PooledComparison]:
    """Plans of two pools that there are of so many questions."""
    for name, _, best in plans(count, seed, one_pool=False):
        planned = best.planned
        if best.prefill_layout is None or planned["concurrency"] > MOST_USERS:
            continue
        requests = max(3000, round(8 * planned["concurrency"]))
        fields = best.simulated | {"poisson": PART * planned["requests_per_second"], "requests": requests}
        run = run_simulation(SimulateRequest(**fields | {"length_cv": POOLED_SPREAD}))
        assert run.tpot is not None
        assert run.ttft is not None
        yield PooledComparison(
            name=f"{name}: {best.prefill_layout} read",
            first=run.ttft.mean / planned["time_to_first_token"],
            tpot=run.tpot.mean / planned["time_per_output_token"],
        )


def comparisons(count: int, seed: int) -> Iterator[Comparison]:
    """Plans of one pool that there are of so many questions."""
    for name, engine, best in plans(count, seed, one_pool=True):
        users = round(best.planned["concurrency"])
        if not 1 <= users <= MOST_USERS:
            continue
        fields = best.simulated | {"users": users, "requests": max(ROUNDS * users, 400), "length_cv": SPREAD}
        run, planned = run_simulation(SimulateRequest(**fields)), best.planned
        assert run.tpot is not None
        yield Comparison(
            name=f"{name}, {users} users",
            engine=engine,
            users_each=users / float(planned["units"]),
            stages="pp1" not in str(best.layout),
            rate=float(run.to_dict()["served_rate"]) / float(planned["requests_per_second"]),
            tpot=run.tpot.mean / float(planned["time_per_output_token"]),
        )


def report(every: Sequence[Comparison], count: int, seed: int) -> list[str]:
    """The page, but for two pools."""
    groups: dict[str, Callable[[Comparison], str]] = {
        "": lambda h: "all",
        "engine": lambda h: h.engine,
        "users of one copy": lambda h: "up to 2" if h.users_each <= 2 else "up to 10" if h.users_each <= 10 else "more",
        "pipeline": lambda h: "several stages" if h.stages else "one stage",
    }
    lines = [
        "# Plans held against their simulation",
        "",
        f"Written by `python tools/plans.py --count {count} --seed {seed}`: {count} questions drawn at random,",
        f"of which {len(every)} have a plan of one pool with at most {MOST_USERS} users. Each of them is",
        f"simulated as a closed loop of as many users as the plan counts, {ROUNDS} requests of each, lengths with a",
        f"spread of {SPREAD:g} of their mean.",
        "Both are ours: the page says whether closed forms and events agree, not whether either is true.",
        "",
    ]
    for title, key in groups.items():
        members: dict[str, list[Comparison]] = {}
        for h in every:
            members.setdefault(key(h), []).append(h)
        lines += [
            f"| {title} | plans | served over planned: median | 1 in 10 below | 9 in 10 below | time per token |",
            "|---|---|---|---|---|---|",
        ]
        for label, rows in sorted(members.items()):
            low, middle, high = np.quantile([h.rate for h in rows], (0.1, 0.5, 0.9))
            tpot = np.median([h.tpot for h in rows])
            lines.append(f"| {label} | {len(rows)} | {middle:.2f} | {low:.2f} | {high:.2f} | {tpot:.2f} |")
        lines.append("")
    lines += [
        "The ten that serve least of what was planned:",
        "",
        "| plan | served over planned | time per token |",
        "|---|---|---|",
    ]
    lines += [f"| {h.name} | {h.rate:.2f} | {h.tpot:.2f} |" for h in sorted(every, key=lambda h: h.rate)[:10]]
    return lines


def pooled_report(every: Sequence[PooledComparison]) -> list[str]:
    """Of two pools."""
    lines = [
        "",
        f"Two pools ({len(every)} plans of the same questions), with requests at random at {PART:g} of the planned",
        f"rate and lengths with a spread of {POOLED_SPREAD:g}: near what readers can do, the wait for them is what",
        "differs most,",
        "and in pipelines prompts of unlike lengths wait for the longest.",
        "",
        "| simulated over planned | median | 1 in 10 below | 9 in 10 below |",
        "|---|---|---|---|",
    ]
    for title, values in (
        ("time to first token", [h.first for h in every]),
        ("time per token", [h.tpot for h in every]),
    ):
        low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
        lines.append(f"| {title} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    lines += [
        "",
        "The five whose first tokens are latest beside the plan:",
        "",
        "| plan | time to first token |",
        "|---|---|",
    ]
    lines += [f"| {h.name} | {h.first:.2f} |" for h in sorted(every, key=lambda h: -h.first)[:5]]
    return lines


if __name__ == "__main__":
    main()
