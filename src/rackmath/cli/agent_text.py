"""What ``agent`` prints."""

from __future__ import annotations

from typing import Any

from rackmath.api.agent import KINDS
from rackmath.api.study_summaries import session_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import run_energy_text


def show_session(facts: dict[str, Any]) -> None:
    """Print a session: levers, a day, and own hardware."""
    render.show_lines("in short", session_summary(facts))
    render.show_table(
        f"{facts['model']} at {facts['provider']}: session of {facts['turns']:,} turns; $",
        (
            "lever",
            ">session",
            ">saved",
            ">input",
            ">cached",
            ">written",
            ">output",
            ">hit",
            f">day of {facts['sessions_per_day']:,.0f}",
        ),
        [
            (
                entry["lever"] if entry["lever"] != "smaller model" else entry["model"],
                f"{entry['usd_per_session']:.4g}",
                f"{entry['saved']:.0%}",
                *(f"{entry[kind]:.3g}" for kind in KINDS),
                f"{entry['hit']:.0%}",
                f"{entry['usd_per_day']:,.2f}",
            )
            for entry in facts["levers"]
        ],
        note=f"saves most: {facts['cheapest']}",
    )
    hardware = facts.get("own")
    if hardware:
        low, high = hardware["usd_per_session_range"]
        render.show_pairs(
            f"{hardware['model']} on {hardware['gpus']:.0f} GPUs of {hardware['system']}, {hardware['layout']}, "
            "by first principles",
            (
                ("session", f"${hardware['usd_per_session']:.4g} (${low:.4g} to ${high:.4g}), if never idle"),
                ("rent", f"${hardware['usd_per_day_rent']:,.0f} a day"),
                *([("energy", f"{run_energy_text(hardware['energy'])}, a session")] if hardware["energy"] else []),
                ("capacity", f"{hardware['sessions_per_day_capacity']:,.0f} sessions a day"),
                (
                    "break-even",
                    f"{hardware['sessions_per_day_break_even']:,.0f} sessions a day at list, "
                    f"{hardware['listed_lever']}",
                ),
            ),
        )
    render.show_lines("assumed", facts["assumptions"])


def show_log(facts: dict[str, Any]) -> None:
    """Print a log by model."""
    render.show_table(
        f"log: {facts['requests']:,} requests, {facts['without_usage']:,} lines without usage; $",
        (
            "model",
            ">requests",
            ">input M",
            ">hit",
            ">output M",
            ">total",
            ">input",
            ">cached",
            ">written",
            ">output",
            ">no cache",
        ),
        [
            (
                row["model"] + (" (batch)" if row["batch"] else ""),
                f"{row['requests']:,}",
                f"{row['input_tokens'] / 1e6:,.3f}",
                f"{row['hit']:.0%}",
                f"{row['output_tokens'] / 1e6:,.3f}",
                f"{row['usd']:,.4g}",
                *(f"{row[f'usd_{kind}']:,.4g}" for kind in KINDS),
                f"{row['usd_without_caching']:,.4g}",
            )
            for row in facts["models"]
        ],
        note="no cache: the same requests if all of their input were read anew",
    )
