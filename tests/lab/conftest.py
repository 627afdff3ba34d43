"""One thread for each test process: tests share the cores."""

from __future__ import annotations

import pytest
import torch

from rackmath.lab import ceilings, machine
from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import Ceilings, Product, Stream
from rackmath.lab.machine import Machine, Timing

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cpu() -> Machine:
    return machine.find("cpu")


@pytest.fixture(scope="session")
def measured(cpu: Machine) -> Ceilings:
    return ceilings.measure(cpu, TimeLimit(2.0), small=True)


@pytest.fixture
def made_up(cpu: Machine) -> Ceilings:
    """A machine of round numbers: 1 TFLOP/s, 10 GB/s beyond a cache of 100 GB/s, 5 us, attention at 5 GB/s."""
    products = tuple(
        Product(precision=p, rows=512, columns=2048, inner=2048, rate=1e12, low=1e12, high=1e12)
        for p in ("fp32", "bf16")
    )
    streams = (
        Stream(size=2**20, bandwidth=1e11, low=1e11, high=1e11),
        Stream(size=2**25, bandwidth=1e11, low=1e11, high=1e11),
        Stream(size=2**26, bandwidth=1e10, low=1e10, high=1e10),
        Stream(size=2**31, bandwidth=1e10, low=1e10, high=1e10),
    )
    latency = Timing(median=5e-6, low=5e-6, high=5e-6)
    return Ceilings(machine=cpu, products=products, streams=streams, latency=latency, attention=5e9)
