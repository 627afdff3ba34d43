"""Measurements as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from rackmath.cli import render


def show_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print measurements; ``ratio`` is measured over computed time, ``corr.`` its correlation with the question's."""
    render.show_table(
        title,
        ["date", "model", "chips", "engine", "metric", ">load", ">in/out", ">measured", ">ratio", ">corr.", "source"],
        [_line(row) for row in rows],
    )


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    load = row["concurrency"] or row["batch"] or row["request_rate"]
    lengths = f"{row['input_mean'] or row['context'] or 0:,.0f}/{row['output_mean'] or 0:,.0f}"
    return (
        row["date"],
        row["model"],
        f"{row['n_gpus'] or 1:g} x {row['hardware']}",
        row["engine"],
        " ".join(part for part in (row["metric"], row["statistic"], row["per"] and f"per {row['per']}") if part),
        f"{load:g}" if load else "-",
        lengths,
        f"{row['value']:.4g}",
        f"{exp(row['residual']):.2f}",
        f"{row['correlation']:.2f}" if "correlation" in row else "-",
        row["source"].partition(" (")[0][:40],
    )
