"""Both forms of the loop give the same bits, and a run takes the form that it does not have to wait for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import _size, setup_of
from rackmath.io import machine_code
from rackmath.serving.simulator import (
    Arrivals,
    Batching,
    Failures,
    Fleet,
    PrefixCache,
    Tier,
    simulate,
)
from rackmath.serving.simulator.code import compiled_code, python_code
from rackmath.serving.simulator.compiled import with_wide_integers
from tests.conftest import compile_beside
from tests.serving.simulator.graphs import random_graph
from tests.serving.simulator.test_against_reference import KV, systems, times


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Fleet, PrefixCache]:
    failing = draw(st.sampled_from([np.inf, np.inf, 2.0]))
    fleet = Fleet(
        replicas=draw(st.integers(1, 3)),
        router=draw(st.sampled_from(["round-robin", "least-loaded", "two-choices", "prefix-aware", "dynamo", "llm-d"])),
        failures=Failures(between=failing, repair=0.3),
        seed=draw(st.integers(0, 100)),
    )
    tiers = (Tier(name="hbm", capacity=draw(st.sampled_from([2e4, 1e6])), bandwidth=1e9),)
    if draw(st.booleans()):
        tiers += (Tier(name="pool", capacity=1e5, bandwidth=1e8, latency=0.01, common=draw(st.booleans())),)
    cache = PrefixCache(
        tiers=draw(st.sampled_from([(), tiers])),
        eviction=draw(st.sampled_from(["lru", "lfu", "ttl"])),
        lifetime=0.5,
        through=draw(st.booleans()),
        overlapped=draw(st.booleans()),
    )
    return fleet, cache


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(
    system=systems(),
    setting=fleets(),
    closed=st.booleans(),
    seed=st.integers(0, 1000),
    images=st.sampled_from([0.0, 0.05]),
)
def test_python_and_machine_code_agree_to_the_last_bit(
    system: tuple[Arrivals, Batching], setting: tuple[Fleet, PrefixCache], closed: bool, seed: int, images: float
) -> None:
    work, batching = system
    fleet, cache = setting
    random, count = np.random.default_rng(seed), len(work)
    named = random.integers(0, 4, count)
    start = np.concatenate(([0], np.cumsum(named))).astype(np.int64)
    work = replace(work, start=start, blocks=random.integers(0, 20, int(start[-1])).astype(np.int64), block=16)
    if closed:
        work = replace(work, graph=random_graph(count, random), answer_blocks=np.minimum(named, 1).astype(np.int32))
    # A replica that fails before an answer's end begins again: such runs need not end.
    fleet = replace(fleet, failures=Failures()) if closed or batching.policy in ("static", "fixed-interval") else fleet
    runs = [
        simulate(work, times(batching.max_num_seqs, batching.max_num_batched_tokens, images=images), batching=batching, cache=cache,
                 fleet=fleet, kv_bytes=KV, code=form)
        for form in (python_code(), compiled_code(str(machine_code.code_folder())))
    ]  # fmt: skip
    one, two = runs
    assert one.requests.tobytes() == two.requests.tobytes()
    for name, values in one.replicas._asdict().items():
        assert values.tobytes() == getattr(two.replicas, name).tobytes(), name
    assert (one.hits, one.kept, one.blocks_asked, one.end) == (two.hits, two.kept, two.blocks_asked, two.end)


@pytest.fixture
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A machine without machine code; the compilers that are started."""
    started: list[list[str]] = []

    def start(words: list[str], **rest: Any) -> None:
        assert rest["start_new_session"]
        started.append(words)

    monkeypatch.setattr(machine_code, "compile_beside", compile_beside)
    monkeypatch.setattr(machine_code, "code_folder", lambda: tmp_path / "kept")
    monkeypatch.setattr(machine_code.subprocess, "Popen", start)
    return started


def test_a_small_first_run_is_interpreted_while_one_other_process_compiles(nothing_kept: list[list[str]]) -> None:
    said: list[str] = []
    assert machine_code.code_for(10_000, 1, said.append).whole
    assert machine_code.code_for(10_000, 1, said.append).whole
    assert [words[1:] for words in nothing_kept] == [["-m", "rackmath.io.machine_code", "1"]]
    assert len(said) == 1
    with machine_code.marking(1):
        pass
    assert not machine_code.code_for(10_000, 1, said.append).whole
    # Compiled types know how many kinds there are.
    assert machine_code.code_for(10_000, 2, said.append).whole
    assert nothing_kept[-1][-1] == "2"


@pytest.mark.parametrize(
    ("more", "interpreted"),
    [
        ({"requests": 10_000}, True),
        ({"requests": 200_000}, False),
        # Six hundred conversations of 2,000 tokens in two tiers of two replicas.
        ({"users": 20, "turns": 3, "turn_tokens": 100.0, "think_time": 5.0, "poisson": None, "requests": 600,
          "tiers": "hbm=shared,ddr5=1TB"}, True),
        ({"requests": 10_000, "scale_to": 4}, True),
        ({"requests": 10_000, "mtbf": 600.0}, True),
        # A fleet that is looked at every second for five minutes reads all requests as often.
        ({"requests": 10_000, "upgrade_at": 1.0}, True),
        ({"requests": 50_000, "upgrade_at": 1.0}, False),
        ({"requests": 10_000, "mtbf": 0.01}, False),
        ({"users": 20, "poisson": None, "requests": 600, "mtbf": 600.0}, False),
    ],
)  # fmt: skip
def test_how_long_a_run_is_in_python_says_whether_it_waits_for_the_compiler(
    more: dict[str, Any], interpreted: bool, nothing_kept: list[list[str]]
) -> None:
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 2, "poisson": 30.0, "input": 1000.0,
                             "output": 50.0}  # fmt: skip
    setup = setup_of(SimulateRequest(**{key: value for key, value in (asked | more).items() if value is not None}))
    assert machine_code.code_for(_size(setup), 1, lambda text: None).whole is interpreted


def test_numba_s_own_switch_keeps_every_run_in_python(
    nothing_kept: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert machine_code.code_for(1e9, 1, lambda text: None).whole
    assert not nothing_kept
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    assert not machine_code.code_for(1e9, 1, lambda text: None).whole


def test_a_large_first_run_compiles_and_says_so(nothing_kept: list[list[str]]) -> None:
    said: list[str] = []
    assert not machine_code.code_for(10_000_000, 1, said.append).whole
    assert "compiling" in said[0]
    assert not nothing_kept


def test_a_compiler_that_failed_leaves_no_mark(nothing_kept: list[list[str]]) -> None:
    machine_code.compile_beside(1)
    with pytest.raises(MemoryError), machine_code.marking(1):
        raise MemoryError
    assert machine_code.code_for(1, 1, lambda text: None).whole
    assert len(nothing_kept) == 2


def test_a_compiler_that_was_killed_is_forgotten_after_a_while(nothing_kept: list[list[str]], tmp_path: Path) -> None:
    assert machine_code.compile_beside(1)
    assert not machine_code.compile_beside(1)
    os.utime(tmp_path / "kept" / "begun-1", (0, 0))
    assert machine_code.compile_beside(1)


def test_without_a_folder_to_write_to_nothing_is_started(nothing_kept: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder would be")
    assert machine_code.code_for(10, 1, lambda text: None).whole
    assert not nothing_kept


def test_machine_code_that_no_run_has_used_for_a_month_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("simulator-" + 16 * "a", "simulator-" + 16 * "b", "simulator-" + 16 * "c", "simulator-of-somebody")
    mine, used, old, other = (tmp_path / name for name in names)
    monkeypatch.setattr(machine_code, "code_folder", lambda: mine)
    for folder in (mine, used, old, other):
        folder.mkdir()
        os.utime(folder, (0.0, 0.0))
    (mine / "begun-1").touch()
    (mine / "complete-2").touch()
    os.utime(used, (time.time(), time.time() - 29 * 86_400))
    with machine_code.marking(1):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in (mine, used, other))
    os.utime(mine, (0.0, 0.0))
    assert not machine_code.code_for(10, 2, lambda text: None).whole
    assert time.time() - mine.stat().st_mtime < 60


_ONE_FUNCTION = """
import sys
from rackmath.serving.simulator import loop
from rackmath.serving.simulator.compiled import machine_code
assert machine_code(sys.argv[1])[loop._steps_until](1.0, 0.0, 0.0, 0.0, 2.5) == 3
"""


@pytest.mark.parametrize("writable", [True, False])
def test_machine_code_is_kept_where_it_can_be(writable: bool, tmp_path: Path) -> None:
    base = tmp_path / "cache"
    if not writable:
        base.write_text("a file where the folder would be")
    subprocess.run([sys.executable, "-c", _ONE_FUNCTION, str(base)], check=True)
    assert bool(list(base.rglob("*.nbi"))) == writable


def test_integers_of_all_widths_and_constants_share_one_version() -> None:
    """Another version for each of them was half of all that was compiled."""

    def twice(n):
        return 2 * n

    form: Any = with_wide_integers(numba.njit(twice))

    @numba.njit
    def both(n):
        return form(n) + form(1)

    assert both(np.int32(20)) == 42
    assert form(np.int32(20)) + form(np.int64(1)) == 42
    assert [str(types) for (types,) in form.signatures] == ["int64"]
    assert form(0.5) == 1.0
    assert [str(types) for (types,) in form.signatures] == ["int64", "float64"]


def test_each_place_and_version_of_the_sources_has_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numba finds no code for a file that has moved or was written again, so no mark of a folder may promise it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folders = [machine_code.code_folder.__wrapped__()]
    assert machine_code.code_folder.__wrapped__() == folders[0]
    copy = tmp_path / "room"
    shutil.copytree(machine_code._SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(machine_code, "_SOURCES", copy)
    folders.append(machine_code.code_folder.__wrapped__())
    source = next(copy.glob("*.py"))
    os.utime(source, (1e9, 1e9))
    folders.append(machine_code.code_folder.__wrapped__())
    source.write_text(source.read_text() + "# another version\n")
    os.utime(source, (1e9, 1e9))
    folders.append(machine_code.code_folder.__wrapped__())
    assert len(set(folders)) == 4
    assert {folder.parent for folder in folders} == {tmp_path}


def test_where_no_process_can_be_started_the_next_run_tries_again(
    nothing_kept: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(words: list[str], **rest: Any) -> None:
        raise OSError("no processes")

    start = machine_code.subprocess.Popen
    monkeypatch.setattr(machine_code.subprocess, "Popen", refuse)
    assert not machine_code.compile_beside(1)
    monkeypatch.setattr(machine_code.subprocess, "Popen", start)
    assert machine_code.compile_beside(1)
    assert len(nothing_kept) == 1
