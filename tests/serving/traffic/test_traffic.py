"""A model of traffic gives back what it was fitted to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io.traffic_files import read_traffic, traffic_text
from rackmath.serving.simulator.days import daily
from rackmath.serving.simulator.workload import Arrivals, gamma_arrivals, plain, users
from rackmath.serving.traffic import LengthClass, TrafficModel, closeness, draw, fit_traffic
from rackmath.serving.traffic.draw import _earlier
from rackmath.serving.traffic.fit import normal_scores, reuse_of
from rackmath.serving.traffic.mixture import length_classes
from rackmath.serving.traffic.model import PROBABILITIES
from tests.conftest import SHARED

CHAT = LengthClass(share=0.7, input=300, input_spread=0.5, output=400, output_spread=0.4, correlation=0.6)
REPORT = LengthClass(share=0.3, input=20_000, input_spread=0.3, output=60, output_spread=0.5, correlation=0.0)


def poisson(rate: float = 5.0, **more: object) -> TrafficModel:
    """Poisson arrivals of two classes."""
    quantiles = -np.log1p(-np.minimum(PROBABILITIES, 1 - 1e-5))
    fields = {
        "rate": rate, "period": 3600.0, "profile": (1.0,), "gaps": tuple(quantiles.tolist()),
        "together": (1.0,) * len(PROBABILITIES), "persistence": 0.0, "classes": (CHAT, REPORT),
        "longest_input": 1_000_000, "longest_output": 1_000_000,
    }  # fmt: skip
    return TrafficModel(**{**fields, **more})


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


def test_classes_that_were_drawn_from_are_told_apart(random: np.random.Generator) -> None:
    work = draw(poisson(), 9000, random)
    first, second = length_classes(work.prompt, work.output, random)
    # As many classes as a hundred requests may tell apart.
    few = np.arange(100) % 2 == 0
    assert len(length_classes(np.where(few, 100, 9000), np.where(few, 20, 800), random)) == 2
    for one, true in ((first, CHAT), (second, REPORT)):
        assert one.share == pytest.approx(true.share, abs=0.02)
        assert one.input == pytest.approx(true.input, rel=0.04)
        assert one.output == pytest.approx(true.output, rel=0.04)
        assert one.input_spread == pytest.approx(true.input_spread, rel=0.1)
        assert one.output_spread == pytest.approx(true.output_spread, rel=0.1)
        assert one.correlation == pytest.approx(true.correlation, abs=0.06)


def test_arrivals_have_their_rate_and_chance(random: np.random.Generator) -> None:
    work = draw(poisson(rate=8.0), 40_000, random)
    gaps = np.diff(work.arrival)
    assert 1 / gaps.mean() == pytest.approx(8.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("persistence", [-0.5, 0.0, 0.7])
def test_gaps_hang_together_as_they_did(persistence: float, random: np.random.Generator) -> None:
    work = draw(poisson(persistence=persistence), 20_000, random)
    scores = normal_scores(np.diff(work.arrival))
    assert np.corrcoef(scores[:-1], scores[1:])[0, 1] == pytest.approx(persistence, abs=0.03)
    assert fit_traffic(work).persistence == pytest.approx(persistence, abs=0.05)


def test_a_day_is_found_in_days_and_drawn_for_more_of_them(random: np.random.Generator) -> None:
    day = 86_400.0
    arrival = daily(gamma_arrivals(0.2, 1.0, 60_000, random), 0.8)
    work = plain(arrival, np.full(len(arrival), 100), np.full(len(arrival), 10))
    model = fit_traffic(work)
    assert (model.period, len(model.profile)) == (day, 24)
    hours = (np.arange(24) + 0.5) / 24
    assert model.profile == pytest.approx(1 + 0.8 * np.sin(2 * np.pi * hours), abs=0.08)
    assert model.rate == pytest.approx(0.2, rel=0.02)
    again = draw(model, round(7 * day * model.rate), random)
    whole = again.arrival[again.arrival < 6 * day]
    counts = np.histogram(whole % day, np.linspace(0, day, 25))[0]
    assert counts / counts.mean() == pytest.approx(np.array(model.profile), abs=0.08)
    assert again.span == pytest.approx(7 * day, rel=0.02)


def test_requests_that_come_together_do_so_again(random: np.random.Generator) -> None:
    moments = np.repeat(np.arange(2000) * 3.0, random.integers(1, 10, 2000))
    work = plain(moments, np.full(len(moments), 100), np.full(len(moments), 10))
    again = draw(fit_traffic(work), len(work), random)
    together = [np.unique(one.arrival, return_counts=True)[1] for one in (work, again)]
    assert together[1].mean() == pytest.approx(together[0].mean(), rel=0.05)
    assert together[1].max() <= 9
    apart = np.diff(np.unique(again.arrival))
    assert apart.std() < 0.5
    assert apart.mean() == pytest.approx(3.0, rel=0.05)


def with_prefixes(random: np.random.Generator, count: int = 4000) -> Arrivals:
    """A beginning of four blocks for three in four; half of all go on as the request ten before."""
    ids: list[list[int]] = []
    fresh = 1000
    for i in range(count):
        own = list(range(4)) if random.random() < 0.75 else []
        if i >= 10 and random.random() < 0.5 and len(ids[i - 10]) > 4:
            own = ids[i - 10][: 4 + int(random.integers(1, 10))]
        new = 20 - len(own)
        own += range(fresh, fresh + new)
        fresh += new
        ids.append(own)
    return Arrivals(
        arrival=np.arange(count) * 1.0, prompt=np.full(count, 20 * 64, np.int32), output=np.full(count, 10, np.int32),
        rank=np.zeros(count, np.int32), start=np.arange(0, 20 * count + 1, 20).astype(np.int64),
        blocks=np.concatenate(ids).astype(np.int64), block=64,
    )  # fmt: skip


def test_prefixes_are_reused_as_they_were(random: np.random.Generator) -> None:
    work = with_prefixes(random)
    model = fit_traffic(work)
    assert model.prefixes is not None
    assert model.prefixes.common == 4
    assert model.prefixes.whole
    again = draw(model, len(work), random)
    shares = [shared.sum() / count.sum() for count, shared, _ in map(reuse_of, (work, again))]
    assert shares[1] == pytest.approx(shares[0], rel=0.06)
    begun = [(one.blocks[one.start[:-1]] == one.blocks[one.start[0]]).mean() for one in (work, again)]
    ages = [age[shared > 4] for _, shared, age in map(reuse_of, (work, again))]
    assert max(begun) < 1
    assert np.median(ages[1]) == pytest.approx(10, abs=1)


def test_what_all_begin_with_is_nobody_s_to_go_on_from() -> None:
    """Nine blocks, three of all requests; every second goes on for two more as the one before: two of six in half."""
    count = 400
    ids = [
        [0, 1, 2, *(1000 + 10 * (i - i % 2) + k for k in range(2)), *(10**6 + 10 * i + k for k in range(4))]
        for i in range(count)
    ]
    work = Arrivals(
        arrival=np.arange(count) * 1.0, prompt=np.full(count, 9 * 64, np.int32), output=np.full(count, 10, np.int32),
        rank=np.zeros(count, np.int32), start=np.arange(0, 9 * count + 1, 9).astype(np.int64),
        blocks=np.concatenate(ids).astype(np.int64), block=64,
    )  # fmt: skip
    prefixes = fit_traffic(work).prefixes
    assert prefixes is not None
    assert (prefixes.common, prefixes.common_share) == (3, 1.0)
    reuse = prefixes.reuse[0]
    assert (reuse.longest, reuse.share) == (6.0, 0.5)
    assert reuse.part == pytest.approx([1 / 3] * len(reuse.part))
    assert reuse.age == pytest.approx([1.0] * len(reuse.age))


def test_reuse_against_comparing_every_pair(random: np.random.Generator) -> None:
    work = with_prefixes(random, 60)
    parts = [work.blocks[a:b].tolist() for a, b in zip(work.start[:-1], work.start[1:], strict=True)]
    _, shared, age = reuse_of(work)
    for i, own in enumerate(parts):
        known = [next((k for k in range(len(own)) if own[k] != other[k]), len(own)) for other in parts[:i]]
        assert shared[i] == max(known, default=0)
        if shared[i]:
            assert age[i] == i - max(j for j, k in enumerate(known) if k >= shared[i])


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), count=st.integers(1, 300))
def test_what_is_drawn_is_a_workload_for_every_number_of_requests(seed: int, count: int) -> None:
    work = draw(poisson(persistence=0.3), count, np.random.default_rng(seed))
    assert len(work) == count
    assert work.arrival[0] == 0
    assert (np.diff(work.arrival) >= 0).all()


def test_closeness_is_zero_to_itself_and_grows_with_what_differs(random: np.random.Generator) -> None:
    one, two = (draw(poisson(), 4000, random) for _ in range(2))
    assert all(entry.distance == 0 for entry in closeness(one, one))
    near = {entry.name: entry for entry in closeness(one, two)}
    assert near["prompt, tokens"].distance < near["prompt, tokens"].critical
    far = {entry.name: entry.distance for entry in closeness(one, replace(two, prompt=2 * two.prompt))}
    assert far["prompt, tokens"] > 0.3
    assert far["answer, tokens"] == near["answer, tokens"].distance


def test_the_file_holds_the_model(tmp_path: Path, random: np.random.Generator) -> None:
    model = fit_traffic(with_prefixes(random))
    path = tmp_path / "t.toml"
    path.write_text(traffic_text(model, "a trace"), encoding="utf-8")
    again = read_traffic(path, "--trace")
    assert isinstance(again, TrafficModel)
    assert traffic_text(again, "a trace") == path.read_text(encoding="utf-8")
    assert again.rate == pytest.approx(model.rate, rel=1e-4)
    assert again.classes[0].input == pytest.approx(model.classes[0].input, rel=1e-4)


@pytest.mark.parametrize(
    ("line", "other", "word"),
    [
        ("rate = ", "rates = ", "rates"),
        ("rate = ", "rate = 0.0 # ", "rate, period"),
        ("persistence = 0.0", "persistence = 1.5", "persistence"),
        ("share = 0.7", "share = -1.0", "classes"),
        ("share = 0.7", "shares = 0.7", "classes.shares"),
        ("share = 0.7", "share = nan", "classes"),
        ("profile = [1.0]", "profile = [0.0]", "profile"),
        ("profile = [1.0]", 'profile = "even"', "profile"),
        ("longest_input = 1000000", "longest_input = 0", "longest"),
        ("[[classes]]", "[[classes]", "TOML"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_field(
    line: str, other: str, word: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.toml"
    text = traffic_text(poisson(), "nothing")
    assert line in text
    path.write_text(text.replace(line, other, 1), encoding="utf-8")
    with pytest.raises(InputError, match=word):
        read_traffic(path, "--trace")


def test_what_is_no_traffic_is_refused(random: np.random.Generator) -> None:
    alike = np.full(200, 10, np.int32)
    for work in (
        plain(np.arange(50.0), alike[:50], alike[:50]),
        plain(np.zeros(200), alike, alike),
        users(4, 200, alike, alike),
    ):
        with pytest.raises(InputError, match="traffic"):
            fit_traffic(work)
    with pytest.raises(InputError, match="requests"):
        draw(poisson(), 0, random)
    with pytest.raises(InputError, match="requests"):
        draw(poisson(rate=1e-6), 100_000, random)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
@pytest.mark.long
def test_mooncake_s_conversation_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    trace = str(SHARED / "traces" / "mooncake_conversation.jsonl")
    told = CliRunner().invoke(cli, ["traffic", "fit", trace, "--out", str(path), "--json"])
    assert told.exit_code == 0
    facts = json.loads(told.stdout)
    # Its authors count 36.64 % of the blocks.
    assert facts["known_share"] == pytest.approx([0.3664, 0.3664], abs=0.02)
    distances = {entry["name"]: entry["distance"] for entry in facts["closeness"]}
    assert max(distances.values()) < 0.08
    assert path.stat().st_size < 6000
    run = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "4", "--trace", str(path), "--requests", "500"]
    simulated = json.loads(CliRunner().invoke(cli, [*run, "--json"]).stdout)
    assert simulated["requests"] == 500
    assert simulated["blocks_asked"] > 5000


def test_what_is_gone_on_from_is_the_longest_prompt_near_where_none_is_long_enough() -> None:
    """Four prompts of 1, 3, 5 and 4 blocks, of which ten are wanted: the third; if it was gone on from, the fourth."""
    count, fresh = np.array([1, 3, 5, 4], dtype=np.int32), np.zeros(4, dtype=bool)
    assert _earlier(count, fresh, 1, 4, 10) == 2
    assert _earlier(count, fresh, 1, 4, 3) == 1
    # Half a block stands against one that somebody has gone on from: as long as the next it would be taken last.
    assert _earlier(count, np.array([False, False, True, False]), 1, 4, 4) == 3
    assert _earlier(count, np.array([False, False, True, False]), 1, 4, 10) == 2
    assert _earlier(count, fresh, 1, 2, 10) == 1
