"""Accelerators that a plan may use, and which of them are paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.serving.launch_boxes import rented_together
from rackmath.serving.workload import Space

if TYPE_CHECKING:
    from rackmath.api.plan_question import PlanRequest


def accelerators(r: PlanRequest, system: System) -> int:
    """Accelerators that a request allows: as many as it says, or as its budget pays, in whole boxes from one on.

    Errors: :class:`InputError` where neither is said, or the budget does not pay one accelerator.
    """
    if r.gpus is not None:
        return r.gpus
    if r.usd_per_hour is None:
        raise InputError("--gpus", "", "say how many there are, or --budget; or --rate with a limit such as --ttft-p99")
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    if price is None:
        raise InputError("--budget", r.usd_per_hour, f"no price of {system.name} is known: give --usd-per-gpu-hour")
    affordable = int(r.usd_per_hour / 3600 / price * (1 + 1e-9)) if 0 < r.usd_per_hour < 1e12 else 0
    if not affordable:
        raise InputError(
            "--budget", r.usd_per_hour, f"one accelerator of {system.name} is {price * 3600:.3g} $ per hour"
        )
    box = 1 if r.bill_used else rented_together(system)
    return affordable if affordable < box else affordable // box * box


def billing_note(space: Space) -> str:
    """What is paid for, in one line."""
    if space.box == 1:
        return "accelerators in use are paid for, others are not"
    return f"whole boxes of {space.box} are paid for, in use or not, up to --gpus (--bill-used: only what is used)"
