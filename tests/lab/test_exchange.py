"""Expert parallelism over processes: bytes as counted, sums as they should be, throttled as stated."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.lab import exchange, processes
from rackmath.lab.budget import TimeLimit
from rackmath.lab.exchange import sent_ranks
from rackmath.lab.exchange_workers import CHOSEN, EXPERTS
from rackmath.lab.machine import Machine

pytestmark = pytest.mark.long


@given(seed=st.integers(0, 100), ranks=st.sampled_from([2, 4, 8]))
def test_ranks_that_a_token_goes_to(seed: int, ranks: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    owner = torch.rand(20_000, EXPERTS, generator=generator).topk(CHOSEN).indices // (EXPERTS // ranks)
    counted = torch.zeros(20_000, ranks).scatter_(1, owner, 1.0).sum(1).mean()
    assert sent_ranks(ranks) == pytest.approx(float(counted), rel=0.01)


def test_two_processes_exchange_and_sum(cpu: Machine) -> None:
    found = exchange.experiment(cpu, TimeLimit(60.0), ranks=2, tokens=(64, 512))
    assert found.facts["experts_are_right"]
    assert found.facts["bytes_error"] < 0.1
    # The second network is eight times slower: a sleep of known length, whatever else the machine does.
    times = {curve.name: curve for curve in found.curves if curve.panel == "dispatch and combine"}
    bytes_crossing = found.curves[0].measured[1] * 3
    assert times["two racks"].measured[1] > bytes_crossing / (found.facts["bandwidth"] / 8)
    assert found.facts["tensor_bytes"] == [2 * 8 * n * 1024 * 4 for n in (64, 512)]


def test_ranks_that_make_no_two_racks_are_refused(cpu: Machine) -> None:
    for ranks in (1, 3):
        with pytest.raises(InputError, match="--ranks"):
            exchange.experiment(cpu, TimeLimit(60.0), ranks=ranks)
    with pytest.raises(InputError, match="--ratio"):
        exchange.experiment(cpu, TimeLimit(60.0), ratio=0.5)


def failing(rank: int, ranks: int, job: object) -> None:
    raise ValueError(f"{job} on {rank}")


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(processes.ProcessFailed, match="ValueError: trouble on"):
        processes.run(failing, 2, "trouble")
