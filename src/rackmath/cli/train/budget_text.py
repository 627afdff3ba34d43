"""What ``train budget`` prints and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.api.study_summaries import budget_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import run_energy_text
from rackmath.training.scaling_laws import LossLaw
from rackmath.units import short_count


def show_budget(law: LossLaw, facts: dict[str, Any]) -> None:
    """Tables: the four ways to reach the loss, what they mean, the law's ranges."""
    render.show_lines("in short", budget_summary(facts))
    rows = [("least cost", facts), ("compute optimum", facts["compute_optimal"]), ("as given", facts["given"])]
    if facts["heuristic"] is not None:
        rows.insert(1, ("equal costs (lecture)", facts["heuristic"]))
    render.show_table(
        f"{law.name}: loss {facts['loss']:.4f}; FLOP at training's utilisation",
        ["", ">parameters", ">tokens", ">over-trained", ">pre-training", ">RL", ">inference", ">total"],
        [
            (
                label,
                short_count(row["params"]),
                short_count(row["tokens"]),
                f"{row['overtraining']:.3g}x",
                *(f"{row[key]:.3g}" for key in ("cost_pretrain", "cost_rl", "cost_inference", "total")),
            )
            for label, row in rows
        ],
    )
    render.show_pairs("what it means", _meaning(facts))
    spans = facts["ranges"]
    if spans is not None:
        render.show_pairs(
            "90 % over 200 resamples of the law's runs",
            [
                (label, f"{text_of(spans[key]['low90'])} to {text_of(spans[key]['high90'])}")
                for label, key, text_of in (
                    ("parameters", "params", short_count),
                    ("tokens", "tokens", short_count),
                    ("over-trained", "overtraining", lambda value: f"{value:.3g}x"),
                    ("inference over pre-training", "inference_over_pretrain", lambda value: f"{value:.3g}"),
                )
            ],
        )
    notes = [
        *facts["assumptions"],
        *facts["outside"],
        *([facts["warning"]] if facts["warning"] else []),
        f"source: {facts['source']}",
    ]
    render.show_lines("to be held against it", notes)


def _meaning(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the optimum means, and what it takes of accelerators where they are named."""
    lines = [
        ("inference over pre-training", f"{facts['inference_over_pretrain']:.3g} at the optimum"),
        ("equal costs would mean", f"{facts['equal_cost_overtraining']:.3g}x over-training"),
        ("100x over-training means", f"inference costs {facts['at_100x']:.3g} times pre-training"),
        ("critical size", f"{facts['critical_part']:.2f} of the optimum costs twice its compute"),
    ]
    if facts["heuristic"] is not None:
        lines.append(("equal costs cost", f"{facts['heuristic']['over_best'] - 1:.1%} more than the least"))
    elif "heuristic_fails" in facts:
        lines.append(("equal costs", facts["heuristic_fails"]))
    if "hardware" in facts:
        hard = facts["hardware"]
        dollars = "" if hard["usd"] is None else f", {hard['usd']:,.0f} $"
        lines.append(
            (f"on {hard['system']}", f"{hard['gpu_hours']:,.0f} accelerator hours at {hard['mfu']:.0%}{dollars}")
        )
        if hard["energy"]:
            lines.append(("energy", run_energy_text(hard["energy"])))
    if {*facts["efficiency"].values()} != {1.0}:
        of = facts["efficiency"]
        lines.append(("efficiency over training's", f"writing {of['decode']:.2f}, reading {of['prefill']:.2f}"))
    return lines


def show_known(law: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Over-training of published models."""
    render.show_table(
        f"published models under {law}",
        ["model", ">date", ">active", ">tokens", ">tokens per active", ">over-trained", ">would justify inference x"],
        [
            (
                row["model"],
                row["date"],
                short_count(row["active"]),
                short_count(row["tokens"]),
                f"{row['per_param']:,.1f}",
                f"{row['overtraining']:.3g}x",
                f"{row['inference_over_pretrain']:.2f}",
            )
            for row in rows
        ],
        "active parameters understate a mixture's effective size: upper bounds; the law was fitted far below",
    )


def equations(law: LossLaw, facts: dict[str, Any]) -> tuple[str, ...]:
    """Equations with their numbers."""
    ratio = law.balance(facts["params"], facts["tokens"])
    terms = f"{law.floor:g} + {law.size:g} / N^{law.alpha:g} + {law.data:g} / D^{law.beta:g}"
    training_cost = facts["cost_pretrain"] + facts["cost_rl"]
    return (
        f"L = {terms} = {facts['loss']:.4f}",
        "cost = 6 N D (1 + RL share) + 2 N (tokens read / efficiency + tokens written / efficiency) x success",
        "least where (alpha A N^-alpha) / (beta B D^-beta) = 1 + inference / training",
        f"             {ratio:.4f} = 1 + {facts['cost_inference']:.3g} / {training_cost:.3g}",
        f"over-training x = D / D*(N), x^beta = {facts['overtraining']:.4g}^{law.beta:g} = {ratio:.4f}",
    )
