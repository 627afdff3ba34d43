"""What programs can fill of a memory that an operating system shares, and what comes of it."""

from __future__ import annotations

import pytest

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.io import catalogue


def test_macs_keep_a_part_of_their_memory_and_drivers_only_what_accounts_count() -> None:
    """Metal lets a program fill 12.7 of 16 GB, and more of larger memories; an L40S shows 44.4 GiB of its 48 GB."""
    chips = [catalogue.system(name).chip for name in catalogue.system_names()]
    macs = [chip for chip in chips if chip.vendor == "Apple"]
    assert len(macs) == 20
    parts = {chip.memory_capacity: chip.usable_memory / chip.memory_capacity for chip in macs}
    assert parts[16e9] == pytest.approx(12.71312 / 16)
    by_size = [round(parts[size], 3) for size in sorted(parts)]
    assert by_size == sorted(by_size)
    assert all(0.79 < part < 1 for part in parts.values())
    assert all(chip.usable_memory == chip.memory_capacity for chip in chips if chip.vendor != "Apple")


@pytest.mark.parametrize(("weights", "fits"), [("q2_k", False), ("iq2_xxs", True)])
def test_a_file_of_13_gb_does_not_fit_a_mac_of_16(weights: str, fits: bool) -> None:
    request = {"model": "qwen3.5-35b-a3b", "on": "m1", "engine": "llama.cpp", "batch": 1, "context": 512}
    result = run_estimate(EstimateRequest(**request, weights=weights, no_evidence=True))
    assert result.fits is fits
    assert float(result.step.memory.capacity) == pytest.approx(12.71312e9)
    assert any("programs can fill 12.7 of 16 GB" in note for note in result.step.assumptions)
