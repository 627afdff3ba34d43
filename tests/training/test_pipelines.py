"""Schedules: what papers print, what torch orders, brute force, closed forms, and invariants."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.training.pipelines import NAMES, StageTimes, execute, round_robin, run, schedule
from rackmath.training.pipelines.closed_forms import bubble
from rackmath.training.pipelines.order import BACKWARD, BOTH, FORWARD, INPUT, WEIGHT, Order

ROWS = Path(__file__).parents[3] / "shared/training/validation.csv"
FIXED = tuple(name for name in NAMES if name != "zb-2p")
ONE = StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0)
IN_PRINT = {"1F1B": "1f1b", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2"}
IN_TORCH = {
    "GPipe": "gpipe", "1F1B": "1f1b", "LoopedBFS": "looped-bfs", "Interleaved1F1B": "interleaved",
    "InterleavedZeroBubble": "interleaved-zb", "ZBVZeroBubble": "zb-v", "DualPipeV": "dualpipev",
}  # fmt: skip


def rows(kind: str) -> list[tuple[dict[str, str], str, float]]:
    if not ROWS.exists():
        pytest.skip("../shared/training is not here")
    with ROWS.open(encoding="utf-8") as file:
        return [
            (dict(part.split("=", 1) for part in row["config"].split(";")), row["metric"], float(row["value"]))
            for row in csv.DictReader(file)
            if row["kind"] == kind
        ]


def printed(config: dict[str, str]) -> StageTimes:
    ahead, back, own, send = (float(config[f"{name}_ms"]) for name in ("TF", "TB", "TW", "Tcomm"))
    return StageTimes(forward=ahead, backward_input=back, backward_weight=own, send_time=send)


def allowed(name: str, p: int, m: int) -> tuple[int, int]:
    """Stages and micro-batches that a schedule takes, near those asked for."""
    if name == "dualpipe":
        p += p % 2
        return p, max(m + m % 2, 2 * p)
    if name == "dualpipev":
        return p, max(m, 2 * p)
    if name.startswith("interleaved"):
        return p, m - m % p if m >= p else m
    return p, m


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb-h1"])
def test_one_stage_has_no_bubble(name: str) -> None:
    timeline = execute(schedule(name, 1, 4), ONE)
    assert timeline.makespan == timeline.work == 4 * 3.0


def test_the_zero_bubble_paper_to_its_four_digits() -> None:
    """Table 5 from the times of Table 6: 1F1B, ZB-H1 and ZB-H2, nothing fitted."""
    checked = 0
    for config, _, value in rows("zb-bubble-rate"):
        if config["schedule"] in IN_PRINT:
            found = run(IN_PRINT[config["schedule"]], int(config["p"]), int(config["m"]), printed(config))
            assert found.bubble_longest_span == pytest.approx(value, abs=5.1e-5), config
            checked += 1
    assert checked >= 18


def test_the_search_is_no_worse_than_the_paper_s() -> None:
    """ZB-2p; what is kept for weights follows from M_B = sb(34h + 5as) and M_W = 32sbh, about 0.37 for these models."""
    for config, _, value in rows("zb-bubble-rate"):
        if config["schedule"] == "ZB-2p":
            p = int(config["p"])
            found = run("zb-2p", p, int(config["m"]), printed(config), weight_share=0.37)
            assert found.bubble_longest_span <= value + 5.1e-5, config
            assert max(found.peak_activations) <= 2 * p


def test_torch_s_orders_take_the_same_time_and_memory() -> None:
    for config, metric, value in rows("torch-schedule"):
        name, chunks = IN_TORCH[config["schedule"]], int(config["stages_per_rank"])
        found = run(
            name,
            int(config["p"]),
            int(config["m"]),
            ONE,
            chunks if name in ("interleaved", "looped-bfs", "interleaved-zb") else None,
        )
        got = found.makespan if metric == "makespan" else max(found.peak_activations)
        assert got == pytest.approx(value), (config, metric)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(NAMES), p=st.integers(1, 7), m=st.integers(1, 24))
def test_every_pass_is_done_once_and_in_order(name: str, p: int, m: int) -> None:
    p, m = allowed(name, p, m)
    order = schedule(name, p, m) if name in FIXED else run(name, p, m, ONE).order
    seen: Counter[tuple[str, int, int]] = Counter()
    for rank, operations in enumerate(order.operations):
        done: set[tuple[str, int, int]] = set()
        for kind, stage, micro, other, second in operations:
            ahead, back = (stage, micro), (other, second) if kind == BOTH else (stage, micro)
            assert order.place[stage] == rank
            if kind in (FORWARD, BOTH):
                done.add(("F", *ahead))
                seen["F", *ahead] += 1
            if kind in (INPUT, BACKWARD, BOTH):
                assert ("F", *back) in done
                done.add(("I", *back))
                seen["I", *back] += 1
            if kind == WEIGHT:
                assert ("I", *back) in done
            if kind in (WEIGHT, BACKWARD, BOTH):
                seen["W", *back] += 1
    ways = len(order.starts)
    assert set(seen.values()) == {1}
    assert len(seen) == 3 * len(order.place) * m // ways


def slow(order: Order, times: StageTimes) -> float:
    """Makespan by relaxing all constraints until nothing moves: an oracle without events."""
    each = {FORWARD: times.forward, INPUT: times.backward_input, WEIGHT: times.backward_weight}
    each[BACKWARD] = times.backward_input + times.backward_weight
    where, start = {}, {}
    for rank, operations in enumerate(order.operations):
        flat = []
        for kind, stage, micro, other, second in operations:
            flat += [(FORWARD, stage, micro), (BACKWARD, other, second)] if kind == BOTH else [(kind, stage, micro)]
        for place, op in enumerate(flat):
            start[rank, place] = 0.0
            side = "F" if op[0] == FORWARD else "W" if op[0] == WEIGHT else "I"
            where[side, op[1], op[2]] = (rank, place), op
    ops = {at: op for at, op in where.values()}
    moved = True
    while moved:
        moved = False
        for (rank, place), (kind, stage, micro) in ops.items():
            least = 0.0
            if place:
                before = ops[rank, place - 1]
                least = start[rank, place - 1] + each[before[0]] * order.part
            source = None
            if kind == FORWARD and stage not in order.starts:
                source = where["F", stage - 1, micro]
            if kind in (INPUT, BACKWARD) and stage not in order.last:
                source = where["I", stage + 1, micro]
            if source is not None:
                at, op = source
                hop = times.send_time if at[0] != rank else 0.0
                least = max(least, start[at] + each[op[0]] * order.part + hop)
            if least > start[rank, place] + 1e-12:
                start[rank, place] = least
                moved = True
    return max(start[at] + each[op[0]] * order.part for at, op in ops.items()) - min(start.values())


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(FIXED), p=st.integers(1, 4), m=st.integers(1, 8),
    times=st.tuples(*[st.floats(0.1, 3)] * 3, st.floats(0, 0.5)),
)  # fmt: skip
def test_execution_against_brute_force(name: str, p: int, m: int, times: tuple[float, float, float, float]) -> None:
    p, m = allowed(name, p, m)
    asked = StageTimes(forward=times[0], backward_input=times[1], backward_weight=times[2], send_time=times[3])
    order = schedule(name, p, m)
    found = execute(order, asked)
    assert found.makespan == pytest.approx(slow(order, asked), rel=1e-9)
    assert found.work == pytest.approx(m * sum(times[:3]), rel=1e-9)
    assert found.work <= found.longest_span * (1 + 1e-9) <= found.makespan * (1 + 2e-9)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(["1f1b", "zb-h1", "zb-h2"]), p=st.integers(2, 12), rounds=st.integers(2, 5),
    ahead=st.floats(1, 10), back=st.floats(0.97, 1.03), own=st.floats(0.3, 0.85), send=st.floats(0, 0.04),
)  # fmt: skip
def test_closed_forms_inside_their_validity(
    name: str, p: int, rounds: int, ahead: float, back: float, own: float, send: float
) -> None:
    m = p * rounds
    numbers = ahead, ahead * back, ahead * own, ahead * send
    times = StageTimes(forward=numbers[0], backward_input=numbers[1], backward_weight=numbers[2], send_time=numbers[3])
    found = run(name, p, m, times)
    assert found.longest_span - found.work == pytest.approx(bubble(name, p, m, *numbers), rel=1e-6, abs=1e-9 * ahead)


@pytest.mark.parametrize(("name", "chunks"), [("gpipe", 1), ("interleaved", 2), ("interleaved", 4), ("looped-bfs", 2)])
def test_forms_without_sends(name: str, chunks: int) -> None:
    found = run(name, 8, 32, ONE, chunks if chunks > 1 else None)
    form = "gpipe" if name == "gpipe" else "interleaved"
    assert found.makespan - found.work == pytest.approx(bubble(form, 8, 32, 1, 1, 1, chunks=chunks))


@pytest.mark.parametrize("p", [4, 8])
def test_dualpipe_s_own_formulas(p: int) -> None:
    """(PP/2 - 1)(F&B + B - 3W), folded (p - 1)(F&B + B - 3W); the pair atomic, B the whole backward pass."""
    times = StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0, overlap_time=3.0)
    folded, plain = (run(name, p, 4 * p, times) for name in ("dualpipev", "dualpipe"))
    # Of the folded one a chunk is half of a rank's layers.
    assert folded.makespan - folded.work == pytest.approx((p - 1) * (3 + 2 - 3) / 2)
    assert plain.makespan - plain.work == pytest.approx((p / 2 - 1) * (3 + 2 - 3))
    faster = run(
        "dualpipe", p, 4 * p, StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0, overlap_time=2.4)
    )
    assert faster.makespan < plain.makespan


def test_memory_of_the_v_family() -> None:
    """About one, a half and a third of 1F1B's, for bubbles of none, a half and two thirds."""
    p, m = 32, 128
    base = run("1f1b", p, m, ONE)
    waits = base.longest_span - base.work
    for name, memory, waiting in (("zb-v", 1, 0), ("v-half", 1 / 2, 1 / 2), ("v-min", 1 / 3, 2 / 3)):
        found = run(name, p, m, ONE)
        assert max(found.peak_activations) / p == pytest.approx(memory, abs=0.06), name
        assert (found.longest_span - found.work) / waits == pytest.approx(waiting, abs=0.06), name


@pytest.mark.parametrize("rank", range(8))
def test_what_1f1b_and_zero_bubbles_hold(rank: int) -> None:
    """Stage i of p: (p - i + 1) M_B, and with weights put off (i - 1) M_W, or twice both, more."""
    p, m, kept, i = 8, 40, 0.4, rank + 1
    held = {
        name: run(name, p, m, ONE, weight_share=kept).peak_activations[rank]
        for name in ("1f1b", "zb-h1", "zb-h2", "gpipe")
    }
    assert held["gpipe"] == m
    assert held["1f1b"] == p - i + 1
    assert held["zb-h1"] == pytest.approx(p - i + 1 + (i - 1) * kept)
    assert held["zb-h2"] == pytest.approx(2 * p - 2 * i + 1 + (2 * i - 2) * kept)


@given(p=st.integers(1, 6), m=st.integers(1, 9), ahead=st.floats(0.1, 2), send=st.floats(0, 1))
def test_decoding_around_the_stages(p: int, m: int, ahead: float, send: float) -> None:
    times = StageTimes(forward=ahead, backward_input=0.0, backward_weight=0.0, send_time=send)
    found = execute(round_robin(p, m, 12), times)
    ends = found.end[-1]
    hop = send if p > 1 else 0.0
    assert ends[-m] - ends[-2 * m] == pytest.approx(max(m * ahead, p * (ahead + hop)))


def test_times_per_stage_and_per_rank() -> None:
    slowest = run("1f1b", 4, 64, StageTimes(forward=[1, 2, 1, 1], backward_input=1.0, backward_weight=1.0))
    assert slowest.work == 64 * 4
    assert slowest.makespan > 64 * 4
    per_rank = run("zb-v", 4, 16, StageTimes(forward=[1, 2, 1, 1], backward_input=1.0, backward_weight=1.0))
    per_stage = run(
        "zb-v", 4, 16, StageTimes(forward=[1, 2, 1, 1, 1, 1, 2, 1], backward_input=1.0, backward_weight=1.0)
    )
    assert per_rank.makespan == per_stage.makespan


@given(name=st.sampled_from(NAMES), p=st.integers(2, 6), send=st.floats(0, 0.5))
@settings(max_examples=40, deadline=None)
def test_slower_sends_never_help(name: str, p: int, send: float) -> None:
    p, m = allowed(name, p, 4 * p)
    if name == "zb-2p":
        return
    quick, late = (
        run(name, p, m, StageTimes(forward=1.0, backward_input=1.0, backward_weight=0.7, send_time=hop))
        for hop in (0.0, send)
    )
    assert late.makespan >= quick.makespan - 1e-9


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--schedule", "magic"], "--schedule"),
        (["--schedule", "1f1b", "--stages", "0"], "--stages"),
        (["--schedule", "1f1b", "--microbatches", "-1"], "--microbatches"),
        (["--schedule", "1f1b", "--chunks", "2"], "--chunks"),
        (["--schedule", "zb-2p", "--chunks", "2"], "--chunks"),
        (["--schedule", "1f1b", "--forward", "nan"], "times"),
        (["--schedule", "1f1b", "--forward", "-1"], "times"),
        (["--schedule", "1f1b", "--forward", "1,2"], "--forward"),
        (["--schedule", "1f1b", "--forward", "x"], "--forward"),
        (["--schedule", "1f1b", "--forward", "0", "--backward-input", "0", "--backward-weight", "0"], "times"),
        (["--schedule", "round-robin", "--forward", "0"], "times"),
        (["--schedule", "1f1b", "--kept", "2"], "--weight-share"),
        (["--schedule", "dualpipe", "--microbatches", "4"], "--microbatches"),
        (["--schedule", "dualpipev", "--microbatches", "4"], "--microbatches"),
        (["--schedule", "interleaved", "--microbatches", "9"], "--microbatches"),
        (["--schedule", "1f1b", "--microbatches", "10000000"], "--microbatches"),
        (["--schedule", "round-robin", "--passes", "0"], "--passes"),
        (["--schedule", "1f1b", "--microbatches", "8000", "--plot", "a.svg"], "--plot"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = {"--stages": "4", "--microbatches": "8"}
    given_options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    full = [part for pair in {**base, **given_options}.items() for part in pair]
    result = CliRunner().invoke(cli, ["train", "pipeline", *full])
    assert isinstance(result.exception, InputError)
    assert field in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_the_command_says_both_bubbles(tmp_path: Path) -> None:
    out = CliRunner().invoke(
        cli, ["train", "pipeline", "--schedule", "zb-v", "--stages", "4", "--microbatches", "16", "--json"]
    )
    found = json.loads(out.output)
    assert found["makespan"] == 49.5
    assert found["longest_span"] == 48
    assert found["bubble_longest_span"] == 0
    assert len(found["peak_activations"]) == 4
    for suffix in (".svg", ".png", ".html"):
        path = tmp_path / f"chart{suffix}"
        text = CliRunner().invoke(
            cli,
            ["train", "pipeline", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--plot", str(path)],
        )
        assert text.exit_code == 0
        assert path.stat().st_size > 3000
    assert "0 FFFF" in text.output
    assert np.isclose(found["bubble_makespan"], 1 - 48 / 49.5)
