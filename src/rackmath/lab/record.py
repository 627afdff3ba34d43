"""A machine's ceilings as a file that every command takes for a system."""

from __future__ import annotations

from datetime import date

from rackmath.hardware.chip import FALLBACK
from rackmath.lab.ceilings import Ceilings

SOURCE = "lab-roofline"
"""Id under which the numbers name where they come from."""


def record(found: Ceilings, day: date) -> str:
    """TOML of a system with one accelerator, this machine; every number says how it was measured."""
    stream = found.streams[-1]
    lines = [
        f"# Written by `rackmath lab roofline` on {day}: what this machine reached, not what a data sheet says.",
        f'name = "{_plain(found.machine.text())}"',
        "domain = 1",
        'fabric = "none"',
        "",
        "[chip]",
        f'name = "{_plain(found.machine.name)}"',
        'vendor = "this machine"',
        f"year = {day.year}",
        'status = "measured"',
        "",
        "[chip.memory]",
        f"capacity = {_cited(found.machine.memory, 'B', 'as the system reports it', day)}",
        f"bandwidth = {_cited(stream.bandwidth, 'B/s', f'sum over {stream.size / 2**20:.0f} MiB', day)}",
        "",
        "[chip.rate]",
    ]
    for precision in found.precisions:
        if precision in FALLBACK:
            best = max((one for one in found.products if one.precision == precision), key=lambda one: one.rate)
            shape = f"product of {best.rows} x {best.inner} and {best.inner} x {best.columns}"
            lines.append(f"{precision} = {_cited(best.rate, 'FLOP/s', shape, day)}")
    return "\n".join(lines) + "\n"


def _cited(value: float, unit: str, note: str, day: date) -> str:
    return f'{{ value = "{value:.6g} {unit}", source = "{SOURCE}", note = "{note}", date = {day} }}'


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")
