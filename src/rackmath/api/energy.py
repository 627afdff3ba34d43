"""Energy of a step, of a service, of a run: of accelerators alone, per token and in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Estimate
from rackmath.hardware import Chip
from rackmath.hardware.power import KILOWATT_HOUR, Power, power_of

Array = NDArray[np.float64]

NOTE = "energy is that of accelerators alone: host, network and cooling are not counted"


def energy_of(step: Estimate, chip: Chip, grid: float | None) -> dict[str, Any] | None:
    """Power of an accelerator and energy of a token; None where nobody says the chip's power.

    Parameters
    ----------
    grid : float, optional
        CO2 of the grid. [g/kWh]

    The range of the energy is over that of the time and that of the power: a slower step takes less power, longer.
    """
    times = [float(step.time), float(step.time_low), float(step.time_high)]
    value, fast, slow = (_power(chip, float(step.memory_time), float(step.compute_time), time) for time in times)
    if value is None or fast is None or slow is None:
        return None
    tokens = float(step.tokens_per_second) * times[0] / float(step.gpus)
    ends = (fast.low * times[1] / tokens, slow.high * times[2] / tokens)
    return {
        "power_per_gpu": value.value,
        "power_per_gpu_range": [min(value.low, slow.low), max(value.high, fast.high)],
        **_facts(value.value * times[0] / tokens, ends, grid),
    }


def energy_of_service(
    total: float,
    memory_time: float,
    compute_time: float,
    ends: tuple[float, float],
    chip: Chip,
    grid: float | None,
    utilisation: float = 1.0,
) -> dict[str, Any] | None:
    """Energy of a token of a service; None where nobody says the chip's power.

    Parameters
    ----------
    total : float
        Accelerator-seconds of work per token. [s]
    memory_time, compute_time : float
        Those that its memory traffic and its multiplications take at the peaks. [s]
    ends : tuple of float
        90 % range of the time per token over its value. [1]
    utilisation : float
        Part of the time in which accelerators work; in the rest they run and wait. [1]
    """
    idle = power_of(chip, 0.0, 0.0)
    value, fast, slow = (_power(chip, memory_time, compute_time, total * end) for end in (1.0, *ends))
    if idle is None or value is None or fast is None or slow is None:
        return None
    waits = 1 / utilisation - 1
    low = total * ends[0] * (fast.low + idle.low * waits)
    high = total * ends[1] * (slow.high + idle.high * waits)
    return _facts(total * (value.value + idle.value * waits), (low, high), grid)


def energy_of_run(
    seconds: float, memory_time: float, compute_time: float, chip: Chip, grid: float | None
) -> dict[str, Any] | None:
    """Energy of accelerators over a run, and emissions; None where nobody says the chip's power.

    Parameters
    ----------
    seconds : float
        Accelerator-seconds. [s]
    memory_time, compute_time : float
        Those that memory traffic and multiplications take at the peaks. [s]
    """
    power = _power(chip, memory_time, compute_time, seconds)
    if power is None:
        return None
    hours = seconds / KILOWATT_HOUR
    return {
        "power_per_gpu": power.value,
        "kwh": power.value * hours,
        "kwh_range": [power.low * hours, power.high * hours],
        "kg_co2": None if grid is None else power.value * hours * grid / 1000,
    }


def energy_of_parts(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Energy of a run whose parts have theirs by :func:`energy_of_run`, and the mean power of an accelerator."""
    energies = [part for part in parts if part is not None]
    if not energies:
        return None
    kwh = sum(part["kwh"] for part in energies)
    hours = sum(part["kwh"] / part["power_per_gpu"] for part in energies)
    return {
        "power_per_gpu": kwh / hours,
        "kwh": kwh,
        "kwh_range": [sum(part["kwh_range"][end] for part in energies) for end in (0, 1)],
        "kg_co2": None if energies[0]["kg_co2"] is None else sum(part["kg_co2"] for part in energies),
    }


def energy_of_tokens(seconds: Array, memory_time: Array, compute_time: Array, chip: Chip) -> Array | None:
    """Energy of a token at each of many points; None where nobody says the chip's power. (points,) [J]

    Parameters
    ----------
    seconds, memory_time, compute_time : array
        Accelerator-seconds of a token, and those at the peaks; not a number where there is no such point. (points,)
    """
    points = np.stack(np.broadcast_arrays(seconds, memory_time, compute_time), axis=-1).astype(float)
    watts = [_power(chip, m, c, t) if np.isfinite(t) else None for t, m, c in points.tolist()]
    if not any(watts):
        return None
    return np.array([np.nan if power is None else power.value for power in watts]) * points[:, 0]


def grams_per_million(joules: float, grid: float) -> float:
    """CO2 of a million tokens by the energy of one, from a grid in g/kWh. [g]"""
    return joules * 1e6 / KILOWATT_HOUR * grid


def _power(chip: Chip, memory_time: float, compute_time: float, time: float) -> Power | None:
    """Power where these seconds at the peaks fall into a time; no part of a peak is above one."""
    return power_of(chip, min(memory_time / time, 1.0), min(compute_time / time, 1.0)) if time > 0 else None


def _facts(joules: float, ends: tuple[float, float], grid: float | None) -> dict[str, Any]:
    return {
        "joules_per_token": joules,
        "joules_per_token_range": list(ends),
        "kwh_per_million_tokens": joules * 1e6 / KILOWATT_HOUR,
        "grams_co2_per_million_tokens": None if grid is None else grams_per_million(joules, grid),
    }
