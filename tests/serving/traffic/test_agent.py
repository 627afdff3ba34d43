"""Tasks that are drawn from an agent have its turns, tools, subagents, and contexts that grow as it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.io.traffic_files import read_traffic
from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.traffic.agent import AgentModel, Subagents, Tool, draw_tasks

AGENT = Path(__file__).parents[2] / "data/agent.toml"
SHELL = Tool(name="shell", share=1.0, time=3.0, tokens=700)


def drawn(agent: AgentModel, requests: int = 3000, block: int = 16, seed: int = 0) -> Arrivals:
    return draw_tasks(agent, requests, block, np.random.default_rng(seed))


def names(work: Arrivals, i: int) -> list[int]:
    return work.blocks[work.start[i] : work.start[i + 1]].tolist()


def test_a_chain_of_turns_by_hand() -> None:
    work = drawn(AgentModel(prefix=160, first=100, turns=3, output=50, tools=(SHELL,)), requests=1)
    assert work.prompt.tolist() == [260, 260 + 50 + 700, 260 + 2 * 750]
    assert work.output.tolist() == [50, 50, 50]
    assert work.graph is not None
    assert list(zip(work.graph.source, work.graph.to, work.graph.delay, strict=True)) == [(0, 1, 3.0), (1, 2, 3.0)]
    for i in range(3):
        stored = (work.prompt[i] + 49) // 16
        assert len(names(work, i)) == stored
        assert work.answer_blocks is not None
        assert work.answer_blocks[i] == stored - work.prompt[i] // 16
    assert names(work, 1)[: len(names(work, 0))] == names(work, 0)
    assert names(work, 2)[: len(names(work, 1))] == names(work, 1)


def test_a_turn_that_forks_waits_for_all_and_takes_their_last_answers() -> None:
    helper = Subagents(share=1.0, count=3, prefix=320, first=40, turns=2, output=30)
    work = drawn(AgentModel(prefix=160, first=100, turns=2, output=50, subagents=(helper,)), requests=1)
    # One request, three contexts of two, one request behind them.
    assert len(work) == 8
    assert work.graph is not None
    edges = set(zip(work.graph.source.tolist(), work.graph.to.tolist(), strict=True))
    assert edges == {(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (2, 7), (4, 7), (6, 7)}
    assert work.prompt[[1, 3, 5]].tolist() == [360, 360, 360]
    assert work.prompt[7] == 260 + 50 + 3 * 30
    # Contexts of one kind share what they begin with, and nothing else.
    assert names(work, 1)[:20] == names(work, 3)[:20] == names(work, 5)[:20]
    assert not set(names(work, 1)[20:]) & set(names(work, 3)[20:])
    assert not set(names(work, 0)) & set(names(work, 1))
    inherited = drawn(
        AgentModel(prefix=160, first=100, turns=2, output=50, subagents=(replace(helper, inherits=True),)), requests=1
    )
    assert inherited.prompt[[1, 3, 5]].tolist() == [260 + 50 + 40] * 3
    assert names(inherited, 1)[: 309 // 16] == names(inherited, 0)


@pytest.mark.long
def test_shares_times_and_lengths_are_those_of_the_agent() -> None:
    agent = read_traffic(AGENT, "--trace")
    assert isinstance(agent, AgentModel)
    work = drawn(agent, 60_000)
    g = work.graph
    assert g is not None
    assert work.output.mean() == pytest.approx(350, rel=0.2)
    # Subagents search for half a second; reading files takes a twentieth; a shell's calls spread around three.
    shells = g.delay[(g.delay != 0.05) & (g.delay != 0.5) & (g.delay > 0)]
    assert shells.mean() == pytest.approx(3.0, rel=0.1)
    assert shells.std() == pytest.approx(6.0, rel=0.5)
    reads, calls = (g.delay == 0.05).sum(), len(shells)
    assert reads / calls == pytest.approx(0.40 / 0.55, rel=0.05)
    forks = (np.bincount(g.source, minlength=len(work)) == 3).sum()
    assert forks / calls == pytest.approx(0.05 / 0.55, rel=0.15)
    assert (np.bincount(g.to, minlength=len(work)) == 3).sum() == forks
    # Every context begins with what its kind shares.
    heads = {tuple(names(work, int(i))[: 5000 // 16]) for i in range(len(work))}
    assert len(heads) == 2


def test_calls_at_once_take_as_long_as_the_slowest_and_add_what_all_of_them_return() -> None:
    tool = Tool(name="search", share=1.0, time=2.0, time_spread=1.0, tokens=100, tokens_spread=0.5, calls=4)
    work = drawn(AgentModel(first=10, turns=400, output=5, tools=(tool,)), requests=4000)
    assert work.graph is not None
    sigma = np.sqrt(np.log(2.0))
    draws = 2.0 * np.exp(sigma * np.random.default_rng(9).standard_normal((50_000, 4)) - sigma**2 / 2)
    assert work.graph.delay.mean() == pytest.approx(draws.max(1).mean(), rel=0.05)
    assert work.task is not None
    grown = np.diff(work.prompt)[np.diff(work.task) == 0] - 5
    assert grown.mean() == pytest.approx(400, rel=0.02)


def test_a_context_that_is_compacted_keeps_only_what_all_begin_with() -> None:
    agent = AgentModel(
        prefix=160, first=100, turns=30, output=50, tools=(SHELL,), compact_at=5000, compact_to=400,
    )  # fmt: skip
    work = drawn(agent, requests=1)
    assert work.prompt.max() <= 5000
    falls = np.flatnonzero(np.diff(work.prompt) < 0)
    assert len(falls) == pytest.approx(30 * 750 / 4500, abs=1.5)
    after = int(falls[0]) + 1
    assert work.prompt[after] == 560
    assert names(work, after)[:10] == names(work, 0)[:10]
    assert not set(names(work, after)[10:]) & set(names(work, after - 1)[10:])


def test_reasoning_that_is_left_out_is_read_by_nobody_again() -> None:
    work = drawn(AgentModel(first=160, turns=2, output=64, answer_in_context=0.25, tools=(SHELL,)), requests=1)
    assert work.prompt.tolist() == [160, 160 + 16 + 700]
    assert names(work, 1)[:10] == names(work, 0)[:10]
    assert not set(names(work, 1)[10:]) & set(names(work, 0)[10:])


@pytest.mark.parametrize(
    ("line", "other", "word"),
    [
        ("turns = 18", "turns = 0", "turns"),
        ("turns = 18", "turn = 18", "turn"),
        ("output = 350", "output = nan", "output"),
        ("prefix = 9000", "prefix = -1", "prefix"),
        ("share = 0.55", "share = 0.65", "add up to 1"),
        ("calls = 2", "calls = 0", "calls"),
        ("count = 3", "count = 0", "count"),
        ("time = 0.5", "time = -0.5", "search: time"),
        ("inherits", "inherits", ""),
        ("[agent]", "rate = 3\n[agent]", "one table"),
    ],
)
def test_an_agent_that_cannot_be_meant_is_refused_with_its_field(
    line: str, other: str, word: str, tmp_path: Path
) -> None:
    text = AGENT.read_text(encoding="utf-8")
    path = tmp_path / "agent.toml"
    if not word:
        path.write_text(text.replace("count = 3", 'inherits = "maybe"'), encoding="utf-8")
        word = "inherits"
    else:
        assert line in text
        path.write_text(text.replace(line, other, 1), encoding="utf-8")
    with pytest.raises(InputError, match=word):
        read_traffic(path, "--trace")
