"""Rolling upgrades: everybody is served, never more are out than may be, the time is what drains and starts add up to."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.serving.simulator import (
    Arrivals,
    Batching,
    Failures,
    Fleet,
    PrefixCache,
    Scaling,
    Tier,
    Upgrade,
    run,
    simulate,
    workload,
)
from rackmath.serving.simulator.upgrade import LOOKS, RollingUpgrade
from tests.serving.simulator.test_against_reference import times

BATCHING = Batching(max_num_seqs=8, max_num_batched_tokens=512)


def even(rate: float, span: float, output: int = 10) -> Arrivals:
    arrival = np.arange(0, span, 1 / rate)
    count = len(arrival)
    return workload.plain(arrival, np.full(count, 30, np.int32), np.full(count, output, np.int32))


@pytest.mark.parametrize(("replicas", "at_a_time"), [(4, 1), (6, 2), (6, 4)])
def test_an_idle_fleet_is_through_after_so_many_rounds(replicas: int, at_a_time: int) -> None:
    rules = Upgrade(begin=20.0, at_a_time=at_a_time, restart=30.0)
    outcome = simulate(
        even(0.5, 400.0), times(8, 512), batching=BATCHING, fleet=Fleet(replicas=replicas, upgrade=rules)
    )
    assert outcome.upgrade is not None
    assert outcome.upgrade.replicas == replicas
    rounds = -(-replicas // at_a_time)
    # Drained within a look, begun again in thirty seconds, the next one at the look after that.
    assert 20 + 30 * rounds <= outcome.upgrade.end <= 20 + (30 + 2 * LOOKS) * rounds


def test_a_replica_that_is_drained_ends_what_it_has_and_gets_nothing() -> None:
    # An answer takes about twelve seconds, so that each drain does.
    work = even(0.6, 300.0, output=1000)
    rules = Upgrade(begin=50.0, restart=20.0)
    outcome = simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(replicas=3, upgrade=rules))
    q, upgrade = outcome.requests, outcome.upgrade
    assert upgrade is not None
    assert np.isfinite(q["finish"]).all()
    assert not q["dropped"].any()
    answer = float(np.median(q["finish"] - q["first"]))
    assert upgrade.end >= 50 + 3 * (20 + 0.5 * answer)
    for r in range(3):
        mine = np.sort(q["arrival"][q["place"] == r])
        mine = mine[(mine > 40) & (mine < upgrade.end + 20)]
        assert np.diff(mine).max() > 20 + 0.5 * answer


@settings(max_examples=30, deadline=None)
@example(seed=315, replicas=3, at_a_time=1, between=200.0, grows=True, talking=False)  # The last old one is taken away.
@given(
    seed=st.integers(0, 1000), replicas=st.integers(2, 6), at_a_time=st.integers(1, 8),
    between=st.sampled_from([np.inf, 200.0, 40.0]), grows=st.booleans(), talking=st.booleans(),
)  # fmt: skip
def test_nobody_is_lost_whatever_else_happens(
    seed: int, replicas: int, at_a_time: int, between: float, grows: bool, talking: bool
) -> None:
    work = even(3.0, 60.0, output=100)
    if talking:
        work = workload.users(8, 100, np.full(100, 30, np.int32), np.full(100, 100, np.int32))
    scaling = Scaling(
        least=replicas, most=replicas + 2, metric="queue", target=2.0, startup=3.0, interval=2.0, window=5.0
    )
    fleet = Fleet(
        replicas=replicas, failures=Failures(between=between, repair=5.0), seed=seed,
        upgrade=Upgrade(begin=5.0, at_a_time=at_a_time, restart=4.0), scaling=scaling if grows else None,
    )  # fmt: skip
    up: list[int] = []

    def looked(s: object) -> None:
        up.append(int(s["s.own"]["up"].sum()))  # type: ignore[index]

    outcome = simulate(work, times(8, 512), batching=BATCHING, fleet=fleet, keep=lambda snapshot: looked(snapshot()))
    assert np.isfinite(outcome.requests["finish"]).all()
    assert min(up) >= 1
    assert outcome.replicas.own["tokens"].sum() == pytest.approx(work.output.sum())
    assert outcome.upgrade is not None
    done = outcome.upgrade
    assert done.busy != np.isfinite(done.end)
    if np.isfinite(done.end) and not grows:
        assert done.replicas == replicas


def test_an_upgrade_ends_with_the_last_old_replica_that_an_autoscaler_takes_away() -> None:
    upgrade = RollingUpgrade(Upgrade(begin=5.0))
    upgrade.forget(0, 1.0)
    assert np.isnan(upgrade.end)
    upgrade.old = {1, 2}
    upgrade.forget(2, 7.0)
    assert np.isnan(upgrade.end)
    upgrade.forget(1, 9.0)
    assert upgrade.end == 9.0


def test_never_more_are_out_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    out: list[int] = []
    work, rules = even(2.0, 300.0), Upgrade(begin=10.0, at_a_time=2, restart=15.0)
    go_on = run.Events._upgrade  # pyright: ignore[reportPrivateUsage]

    def watched(self, s, *rest, **more) -> None:
        go_on(self, s, *rest, **more)
        out.append(5 - int(s.own["up"].sum()))

    monkeypatch.setattr(run.Events, "_upgrade", watched)
    simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(replicas=5, upgrade=rules))
    assert max(out) == 2
    assert out[-1] == 0


def test_caches_do_not_outlive_a_replica() -> None:
    """All requests begin alike: each replica reads the prefix once, and once more when it has been upgraded."""
    count = 200
    work = Arrivals(
        arrival=np.arange(count, dtype=float), prompt=np.full(count, 64, np.int32), output=np.full(count, 4, np.int32),
        rank=np.zeros(count, np.int32), start=np.arange(count + 1) * 4, blocks=np.tile(np.arange(4), count), block=16,
    )  # fmt: skip
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf, shared=True),))
    batching = Batching(max_num_seqs=8, max_num_batched_tokens=512, memory=16 * 1000)

    def misses(upgrade: Upgrade | None) -> int:
        fleet = Fleet(replicas=2, upgrade=upgrade)
        q = simulate(work, times(8, 512), batching=batching, cache=cache, fleet=fleet, kv_bytes=1.0).requests
        return int((q["hit"] == 0).sum())

    assert misses(None) == 2
    assert misses(Upgrade(begin=50.0, restart=10.0)) == 4


@pytest.mark.long
def test_a_run_goes_on_in_the_middle_of_an_upgrade() -> None:
    work, kept = even(20.0, 100.0), list[run.Snapshot]()
    fleet = Fleet(replicas=3, upgrade=Upgrade(begin=10.0, restart=8.0), failures=Failures(between=60.0, repair=5.0))
    whole = simulate(
        work, times(8, 512), batching=BATCHING, fleet=fleet,
        keep=lambda snapshot: kept.append({name: values.copy() for name, values in snapshot().items()}),
    )  # fmt: skip
    for snapshot in kept[:: max(len(kept) // 7, 1)]:
        again = simulate(work, times(8, 512), batching=BATCHING, fleet=fleet, resume=snapshot)
        assert (again.requests["finish"] == whole.requests["finish"]).all()
        assert again.upgrade is not None
        assert whole.upgrade is not None
        assert again.upgrade.end == whole.upgrade.end


def test_one_replica_cannot_be_upgraded() -> None:
    with pytest.raises(InputError, match="--upgrade-at"):
        simulate(even(1.0, 20.0), times(8, 512), batching=BATCHING, fleet=Fleet(upgrade=Upgrade(begin=5.0)))


def test_the_report_sets_the_upgrade_beside_the_rest_of_the_run() -> None:
    asked = {
        "model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 2, "poisson": 40.0, "input": 800, "output": 100,
        "requests": 4000, "upgrade_at": 20.0, "startup": 12.0,
    }  # fmt: skip
    facts = run_simulation(SimulateRequest(**asked)).to_dict()
    upgrade = facts["upgrade"]
    assert upgrade["replicas"] == 2
    assert 24 <= upgrade["end"] - upgrade["begin"] < 40
    # One of two serves what both do: first tokens wait.
    assert upgrade["time_to_first_token"]["p50"] > 1.1 * upgrade["time_to_first_token_outside"]["p50"]
    alone = {name: value for name, value in asked.items() if name not in ("upgrade_at", "startup")}
    assert "upgrade" not in run_simulation(SimulateRequest(**alone)).to_dict()
    # Weights that come from somewhere make the restart longer.
    loaded = run_simulation(SimulateRequest(**asked, weights_from="1GB/s")).to_dict()["upgrade"]
    assert loaded["end"] - upgrade["end"] == pytest.approx(2 * 16.06, abs=3)


@pytest.mark.parametrize(("requests", "says"), [("4000", "2 replicas in "), ("900", "others not before the run ended")])
def test_the_table_says_how_far_it_came(requests: str, says: str) -> None:
    words = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--poisson", "40", "--input", "800"]
    words += ["--output", "100", "--requests", requests, "--upgrade-at", "20", "--startup", "12"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert says in " ".join(result.output.split())
