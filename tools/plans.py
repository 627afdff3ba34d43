"""Hold plans against the simulation of what they launch: writes docs/accuracy-of-plans.md.

    python tools/plans.py              # a minute
    python tools/plans.py --count 300 --seed 9 --out PAGE.md

Deployments are drawn at random, planned, and simulated as closed loops of as many users as the plan counts. Both are
ours: the page says whether the closed form and the event by event simulation agree, not whether either is true.
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
    options.out.write_text(report(every, options.count, options.seed), encoding="utf-8")


def comparisons(count: int, seed: int) -> Iterator[Comparison]:
    """Plans that there are of so many questions drawn at random."""
    random = np.random.default_rng(seed)

    def draw(values: Sequence[T]) -> T:
        return values[int(random.integers(len(values)))]

    for _ in range(count):
        model, engine, (chip, box) = draw(MODELS), draw(ENGINES), draw(SYSTEMS)
        gpus, tokens, answer = box * draw((1, 2, 4)) // 2, draw((200, 1000, 4000, 16_000)), draw((100, 500, 2000))
        work = rm.Workload(input=tokens, output=answer, ttft=draw((None, 1.0, 3.0)), tpot=draw((None, 0.02, 0.05)))
        try:
            best = rm.plan(model, rm.load_system(chip, gpus=gpus), work, engine=rm.Engine(engine), one_pool=True).best
        except DoesNotFit:
            continue
        users = 0 if best is None else round(best.planned["concurrency"])
        if best is None or not 1 <= users <= MOST_USERS:
            continue
        fields = best.simulated | {"users": users, "requests": max(ROUNDS * users, 400), "length_cv": SPREAD}
        run, planned = run_simulation(SimulateRequest(**fields)), best.planned
        assert run.tpot is not None
        yield Comparison(
            name=f"{model} on {gpus} x {chip}, {engine}, {tokens:,} + {answer:,} tokens, {users} users",
            engine=engine,
            users_each=users / float(planned["units"]),
            stages="pp1" not in str(best.layout),
            rate=float(run.to_dict()["served_rate"]) / float(planned["requests_per_second"]),
            tpot=run.tpot.mean / float(planned["time_per_output_token"]),
        )


def report(every: Sequence[Comparison], count: int, seed: int) -> str:
    """The page."""
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
        f"of which {len(every)} have a plan of one pool with at most {MOST_USERS} users. Each is simulated as a closed",
        f"loop of as many users as the plan counts, {ROUNDS} requests of each, lengths with a spread of {SPREAD:g} of",
        "their mean.",
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
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
