"""Energy of a step: of accelerators alone, per token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.engine import Estimate
from rackmath.engine.power import KILOWATT_HOUR, power_of
from rackmath.hardware import Chip

NOTE = "energy is that of accelerators alone: host, network and cooling are not counted"


def energy_of(step: Estimate, chip: Chip, grid: float | None) -> dict[str, Any] | None:
    """Power of an accelerator and energy of a token; None where nobody says the chip's power.

    Parameters
    ----------
    grid : float, optional
        CO2 of the grid. [g/kWh]

    The range of the energy is over that of the time and that of the power: a slower step takes less power, longer.
    """
    terms = {name: float(value) for name, value in step.terms.items()}
    times = [float(step.time), float(step.time_low), float(step.time_high)]
    value, fast, slow = (power_of(chip, terms, time) for time in times)
    if value is None or fast is None or slow is None:
        return None
    tokens = float(step.tokens_per_second) * times[0] / float(step.gpus)
    ends = (fast.low * times[1] / tokens, slow.high * times[2] / tokens)
    facts = _facts(value.value * times[0] / tokens, ends, grid)
    return {
        "power_per_gpu": value.value,
        "power_per_gpu_range": [min(value.low, slow.low), max(value.high, fast.high)],
        **facts,
    }


def energy_of_service(
    spent: Mapping[str, float], prompt: float, ends: tuple[float, float], chip: Chip, grid: float | None
) -> dict[str, Any] | None:
    """Energy of an output token of a service with its prompt; None where nobody says the chip's power.

    Parameters
    ----------
    spent : mapping
        Accelerator-seconds per output token by cause, ideal ones by name.
    prompt : float
        Accelerator-seconds at the peak rate that multiply a prompt, per output token. [s]
    ends : tuple of float
        90 % range of the time per token over its value. [1]

    An accelerator that waits is taken to be running.
    """
    total = sum(spent.values())
    work = {**spent, "compute": spent.get("compute", 0.0) + prompt}
    value, fast, slow = (power_of(chip, work, total * end) for end in (1.0, *ends))
    if value is None or fast is None or slow is None:
        return None
    return _facts(value.value * total, (fast.low * total * ends[0], slow.high * total * ends[1]), grid)


def _facts(joules: float, ends: tuple[float, float], grid: float | None) -> dict[str, Any]:
    return {
        "joules_per_token": joules,
        "joules_per_token_range": list(ends),
        "kwh_per_million_tokens": joules * 1e6 / KILOWATT_HOUR,
        "grams_co2_per_million_tokens": None if grid is None else joules * 1e6 / KILOWATT_HOUR * grid,
    }
