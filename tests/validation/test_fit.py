"""Fitting: planted constants come back, flattened passes equal the engine's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.engine.constants import Constants, EngineVersion, inward, outward
from rackmath.engine.losses import without_host
from rackmath.engine.terms import TERM, TERMS
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file, kernel_files, tables
from rackmath.models.eagle import typical_head
from rackmath.validation.answers import answer
from rackmath.validation.baselines import ideal_values
from rackmath.validation.calibrate import calibrate, possible, usable
from rackmath.validation.calibration_text import constants_text
from rackmath.validation.consistency import NUMBERS
from rackmath.validation.features import RecordedTimer, Recorder, flattened
from rackmath.validation.fit import Prior, Start, as_constants, as_vector, at_centres, fit, shrunk
from rackmath.validation.groups import groups
from rackmath.validation.held import held_by
from rackmath.validation.left_out import weights
from rackmath.validation.priors import FEWEST, has_place, priors
from rackmath.validation.problem import STEP, Problem, evaluate
from rackmath.validation.question_constants import Engines, stacked_constants, taken
from rackmath.validation.questions import question
from rackmath.validation.rows import read_row
from tests.validation.rows import cells

SHIPPED = constants_file.constants()
TABLE = tables.read_csv(Path(__file__).parents[1] / "data/rows.csv", "rows")
TIMED = kernel_files.timed_generations()


def spread_of_rows():
    """Rows over batches, lengths and layouts, of a dense and a sparse model."""
    made = []
    for model, gpus in (("Llama-3.1-8B", 1), ("Llama-3.1-70B", 8), ("gpt-oss-120b", 2)):
        for load in (1, 8, 64):
            for length in (256, 2048):
                for metric, per in (("tpot", "request"), ("total_throughput", "system")):
                    made.append(
                        cells(
                            model=model,
                            n_gpus=str(gpus),
                            tp=str(gpus),
                            concurrency=str(load),
                            input_mean=str(length),
                            metric=metric,
                            statistic="mean" if metric == "tpot" else "",
                            per=per,
                        )
                    )
    return [question(read_row(c, i)) for i, c in enumerate(made)]


def by_a_head(**more: str):
    """A service whose tokens a head of EAGLE drafts."""
    row = cells(model="Llama-3.1-8B", concurrency="8", speculative="eagle", draft_tokens="3", engine="sglang", **more)
    return question(read_row(row, 1))


def test_a_head_that_drafts_is_a_pass_for_each_token_and_one_over_each_prompt() -> None:
    """One user: a step is the target's over four tokens and three of the head; nothing else differs."""
    with_head = replace(by_a_head(), load=1.0)
    without = replace(with_head, row=replace(with_head.row, speculative="ngram"))
    assert with_head.draft is not None
    assert without.draft is None
    (slow, quick), _ = evaluate([with_head, without], SHIPPED)
    group = groups([with_head])[0]
    stacked = stacked_constants(SHIPPED, Engines.of([with_head]))
    losses = replace(taken(stacked.losses, 0), kernels=group.kernels)
    head, system = typical_head(with_head.architecture), with_head.system
    context = with_head.input + with_head.output / 2
    own = engine_timer(head, system, without_host(losses))("decode", Layout(), 1.0, context, 0.0)
    accepted = taken(stacked.outside, 0).serving.accepted(3.0)
    assert slow - quick == pytest.approx(3 * float(own) / float(accepted), rel=1e-3)


def test_flattened_passes_take_as_long_as_the_engine_says() -> None:
    questions, _ = usable(TABLE)
    questions += [by_a_head(metric=m, statistic="mean") for m in ("tpot", "ttft")]
    losses, outside = stacked_constants(SHIPPED, Engines.of(questions))
    values, running = evaluate(questions, SHIPPED)
    sorted_groups = groups(questions)
    recorders = [Recorder(g) for g in sorted_groups]
    for group, recorder in zip(sorted_groups, recorders, strict=True):
        answer(group, recorder, taken(outside, group.index), held_by(group), running[group.index])
    features = flattened(sorted_groups, recorders)
    times = features.times(losses, features.kernel_seconds(losses))
    for group, ranges in zip(sorted_groups, features.calls, strict=True):
        constants = taken(outside, group.index)
        again, _ = answer(
            group,
            RecordedTimer(times, ranges, group.draft is not None),
            constants,
            held_by(group),
            running[group.index],
        )
        assert again == pytest.approx(values[group.index], rel=1e-3)


def test_the_share_of_a_first_burst_falls_with_the_requests_of_each_user() -> None:
    """64 users of long answers: of m requests each, one waits for half of the others' prompts; SGLang's come again."""

    def first(engine: str, rounds: str) -> float:
        row = cells(model="Llama-3.1-8B", engine=engine, concurrency="64", num_requests=rounds, output_mean="40000",
                    metric="ttft", statistic="mean", length_cv="0", weights="bf16", tp="8", n_gpus="8")  # fmt: skip
        return float(evaluate([question(read_row(row, 1))], SHIPPED)[0][0])

    never, twice, four_times = (first("vllm", str(64 * m)) for m in (10**6, 2, 4))
    assert (twice - never) / (four_times - never) == pytest.approx(2, rel=0.02)
    assert first("sglang", "128") == pytest.approx(first("sglang", "6400"), rel=1e-3)
    fitted = replace(SHIPPED, base={**SHIPPED.base, "queueing": 0.25}, moves={**SHIPPED.moves, "queueing": {}})
    row = cells(model="Llama-3.1-8B", concurrency="64", output_mean="40000", metric="ttft", statistic="mean",
                length_cv="0", weights="bf16", tp="8", n_gpus="8")  # fmt: skip
    assert evaluate([question(read_row(row, 1))], fitted)[0][0] == pytest.approx(twice, rel=1e-3)


def open_loops():
    """Requests that arrive by themselves: a tenth to nine tenths of what an 8B on one H100 serves."""
    return [
        question(
            read_row(
                cells(
                    arrivals="poisson", concurrency="", request_rate=rate, num_requests="5000", input_mean="512",
                    output_mean="200", metric=metric, statistic="mean",
                ),
                i,
            )
        )
        for i, (rate, metric) in enumerate((r, m) for r in ("2", "5", "8", "20") for m in ("ttft", "tpot", "e2e"))
    ]  # fmt: skip


def test_no_small_change_of_a_constant_throws_a_prediction_far() -> None:
    """Slopes of all kinds of rows follow from the times of steps: what a fit steps along."""
    questions = [*spread_of_rows(), *open_loops(), *usable(TABLE)[0]]
    problem = Problem.of(questions, SHIPPED)
    usual = problem.at(SHIPPED)
    for name in ("host", "launch", "memory", "routing", "software"):
        for step in (1e-3, -1e-3):
            assert np.abs(problem.moved(SHIPPED, name, usual, step) - usual.values).max() < 20 * abs(step), name


def test_a_moved_constant_moves_every_row_that_it_reaches() -> None:
    """Groups that a constant does not reach are not asked again: the same as constants that differ everywhere."""
    questions = [*spread_of_rows(), *open_loops(), *usable(TABLE)[0]]
    problem = Problem.of(questions, SHIPPED)
    usual = problem.at(SHIPPED)
    for name, value in SHIPPED.base.items():
        scale = TERM[name].scale
        other = replace(SHIPPED, base={**SHIPPED.base, name: outward(inward(value, scale) + STEP, scale)})
        assert problem.moved(SHIPPED, name, usual, STEP) == pytest.approx(problem.at(other).values, abs=1e-9), name


def test_rows_without_weight_change_no_fit() -> None:
    """Fits that leave rows out share the passes of all rows."""
    questions = spread_of_rows()[:40]
    values, _ = evaluate(questions, SHIPPED)
    rows = [replace(q, row=replace(q.row, value=float(v) * 1.1)) for q, v in zip(questions, values, strict=True)]
    known = priors(rows, TIMED)
    out = np.arange(len(rows)) % 4 == 0
    train = [q for q, hidden in zip(rows, out, strict=True) if not hidden]
    alone = fit(train, np.ones(len(train)), known, rounds=2, iterations=3, shrink=False)
    shared = fit(
        rows, np.where(out, 0.0, 1.0), known, rounds=2, iterations=3, shrink=False, first=at_centres(rows, known)
    )
    assert shared.constants.base == pytest.approx(alone.constants.base, rel=1e-6)


def test_a_fit_moves_along_open_loops() -> None:
    """Rows that arrive by themselves tell of steps as closed loops do, in both directions."""
    questions = open_loops()
    centre = inward(1.3, TERM["memory"].scale)
    prior = Prior(name="memory", kind="base", member="", axis="", centre=centre, width=10.0)
    fixed = [p for p in priors(questions, TIMED) if p.name != "memory" or p.kind != "base"]
    frozen = [replace(p, centre=float(as_vector(SHIPPED, [p])[0]), width=1e-4) for p in fixed]
    for memory in (1.1, 1.6):
        values, _ = evaluate(questions, replace(SHIPPED, base={**SHIPPED.base, "memory": memory}))
        rows = [replace(q, row=replace(q.row, value=float(v))) for q, v in zip(questions, values, strict=True)]
        fitted = fit(rows, np.ones(len(rows)), [prior, *frozen], shrink=False)
        assert fitted.constants.base["memory"] == pytest.approx(memory, rel=0.01)


def test_planted_constants_are_found_again() -> None:
    questions = spread_of_rows()
    names = {"host": 4e-3, "memory": 1.4, "queueing": 0.5}
    planted = replace(SHIPPED, base={**SHIPPED.base, **names})
    values, _ = evaluate(questions, planted)
    rows = [replace(q, row=replace(q.row, value=float(v))) for q, v in zip(questions, values, strict=True)]
    known = [
        Prior(name=n, kind="base", member="", axis="", centre=inward(SHIPPED.base[n], TERM[n].scale), width=1e3)
        for n in names
    ]
    fixed = [p for p in priors(questions, TIMED) if p.name not in names or p.kind != "base"]
    frozen = [replace(p, centre=float(as_vector(SHIPPED, [p])[0]), width=1e-4) for p in fixed]
    found = fit(rows, np.ones(len(rows)), [*known, *frozen], SHIPPED, iterations=12, shrink=False)
    assert found.constants.base["host"] == pytest.approx(4e-3, rel=0.03)
    assert found.constants.base["memory"] == pytest.approx(1.4, rel=0.03)
    assert found.constants.base["queueing"] == pytest.approx(0.5, rel=0.1)
    again, _ = evaluate(rows, found.constants)
    assert np.median(np.abs(again / values - 1)) < 0.01
    # Three constants were free; the frozen ones count for nothing.
    assert found.effective == pytest.approx(3, abs=0.3)


class KinkedProblem:
    """Ten rows whose logarithm is a constant, and one of what another is beyond 0.3: its slopes say nothing before."""

    engines = SimpleNamespace(distinct=[SimpleNamespace(members=())], at=np.zeros(11, dtype=int))
    asked = 0

    def of_weights(self, _weights: object) -> KinkedProblem:
        return self

    def at(self, constants: Constants) -> SimpleNamespace:
        self.asked += 1
        smooth, kinked = (inward(constants.base[name], TERM[name].scale) for name in ("memory", "host"))
        return SimpleNamespace(values=np.array([*[smooth] * 10, max(0.0, 100 * (kinked - 0.3))]))

    def moved(self, constants: Constants, name: str, _before: object) -> np.ndarray:
        inner = inward(constants.base[name], TERM[name].scale) + STEP
        base = {**constants.base, name: outward(inner, TERM[name].scale)}
        return self.at(Constants(base=base, moves={}, basis="")).values


def test_one_constant_at_a_kink_holds_no_other_back() -> None:
    """Damped alike, both would creep: the one that its prior draws over the kink fails every step of both."""
    questions = [SimpleNamespace(row=SimpleNamespace(value=float(np.exp(v)))) for v in [*[0.5] * 10, 0.0]]
    drawn = [
        Prior(name="memory", kind="base", member="", axis="", centre=0.0, width=10.0),
        Prior(name="host", kind="base", member="", axis="", centre=2.0, width=0.4),
    ]
    problem = KinkedProblem()
    constants = Constants(
        base={name: outward(0.0, TERM[name].scale) for name in ("memory", "host")}, moves={}, basis=""
    )
    start = Start.at(problem, constants, ["memory", "host"])  # type: ignore[arg-type]
    found = fit(questions, np.ones(11), drawn, constants, rounds=1, iterations=3, shrink=False, first=start)  # type: ignore[arg-type]
    memory, host = (inward(found.constants.base[name], TERM[name].scale) for name in ("memory", "host"))
    assert memory == pytest.approx(0.5, abs=0.01)
    assert 0.1 < host < 0.31
    assert problem.asked < 60


def test_widths_of_moves_are_those_that_the_rows_want() -> None:
    def moves(values) -> list[float]:
        made = [Prior(name="host", kind="move", member=m, axis="family", centre=0.0, width=1.0) for m in "abcd"]
        found = shrunk(made, np.array(values), 1e-6 * np.eye(4))
        return [p.width for p in found]

    assert moves([0.5, -0.5, 0.5, -0.5]) == pytest.approx([0.5] * 4, rel=1e-3)
    assert moves([0.0, 0.0, 0.0, 0.0]) == pytest.approx([0.02] * 4)


def test_rows_that_their_table_calls_flawed_are_not_fitted_on() -> None:
    found, others = usable([cells(), cells(flags="outlier:why"), cells(value=""), cells(flags="no_outlier")])
    assert len(found) == 2
    assert [reason for _, reason in others] == ["flagged: outlier", "no measured value"]


def test_closed_loops_without_a_middle_weigh_little() -> None:
    """512 users and a thousand requests are a start and an end; as many rows with ten requests each are a service."""
    short, long = cells(concurrency="512", num_requests="1000"), cells(concurrency="100", num_requests="1000")
    rows = [question(read_row(c, 2)) for c in (short, long)]
    assert weights(rows)[1] == pytest.approx(5 * weights(rows)[0])


def test_routing_made_even_leaves_nothing_to_imbalance() -> None:
    even, uneven = (
        SHIPPED.value("imbalance", EngineVersion(generation="hopper", stage=stage)) for stage in ("balanced", "")
    )
    assert even == 0 < uneven


def test_compiled_hosts_start_kernels_in_no_time() -> None:
    system = catalogue.system("h100-sxm")
    python, native = (
        SHIPPED.value("dispatch", constants_file.engine_of(system, family, 2026.0)) for family in ("vllm", "llama.cpp")
    )
    assert native == 0 < python


def test_vectors_and_constants_round_trip() -> None:
    made = priors(spread_of_rows(), TIMED)
    vector = as_vector(SHIPPED, made)
    assert as_vector(as_constants(vector, made), made) == pytest.approx(vector, abs=1e-6)


def test_moves_belong_to_members_with_rows_and_to_no_model() -> None:
    questions = [question(read_row(cells(engine="vllm"), 2))] * FEWEST + [question(read_row(cells(engine="sglang"), 2))]
    members = {p.member for p in priors(questions, TIMED) if p.kind == "move"}
    assert members == {"vllm", "hopper"}
    names = {m.lower() for moves in SHIPPED.moves.values() for m in moves}
    assert not any(word in m for m in names for word in ("deepseek", "llama-", "qwen", "gpt-oss", "mpt"))


def test_kernels_that_were_timed_are_frozen() -> None:
    made = priors(spread_of_rows() * FEWEST, TIMED)
    moved = {(p.name, p.member) for p in made if p.kind == "move"}
    assert not {(n, m) for n in ("compute", "memory", "grouped") for m in ("hopper", "vllm")} & moved
    # Where no timings are, rows may say what the kernels reach.
    other = [question(read_row(cells(hardware="MI300X", engine="atom"), 2))] * FEWEST
    moved = {(p.name, p.member) for p in priors(other, TIMED) if p.kind == "move"}
    assert {("compute", "cdna3"), ("memory", "atom")} <= moved


def test_a_generation_is_frozen_in_what_was_timed_on_it_alone() -> None:
    """Memory's traffic is that of products and of attention: with products alone timed, rows may say how fast it is."""
    rows = [question(read_row(cells(engine="vllm", hardware="MI355X"), 2))] * FEWEST
    frozen_by = {"product.wide": {"compute"}, "attention.decode": set(), "experts.byte": {"grouped"}}
    free = {"compute", "memory", "grouped"}
    for timed in (set(), {"product.wide"}, {"product.wide", "attention.decode"}, set(frozen_by)):
        moved = {p.name for p in priors(rows, {"cdna4": frozenset(timed)}) if p.member == "cdna4"}
        frozen = {term for kind in timed for term in frozen_by[kind]}
        frozen |= {"memory"} if timed >= {"product.wide", "attention.decode"} else set()
        assert moved & free == free - frozen


def test_what_is_no_engine_has_no_constants_of_its_own() -> None:
    rows = [question(read_row(cells(engine=name), 2)) for name in ("vllm", "") for _ in range(FEWEST)]
    assert {q.row.family for q in rows} == {"vllm", "other"}
    assert {p.member for p in priors(rows, TIMED) if p.axis.startswith("family")} == {"vllm"}


def test_frameworks_that_only_train_have_no_products_of_their_own() -> None:
    """There every slowness of products is ``sustained``: a free ``compute`` beside it would be told by nothing."""
    run = cells(
        metric="train_throughput", phase="training", per="gpu", engine="megatron", model="Llama-3.1-70B", n_gpus="64",
        global_batch="128", sequence_length="8192", framework_precision="bf16", hardware="H100-SXM",
    )  # fmt: skip
    made = priors([question(read_row(run, 2))] * FEWEST, {})
    moved = {p.name for p in made if p.kind == "move" and p.member in ("megatron", "hopper")}
    assert "sustained" in moved
    assert "compute" not in moved
    # Attention backwards has kernels of its own.
    assert "prompt_attention" in moved


def test_shipped_constants_are_those_of_the_table_of_terms_and_physical() -> None:
    deviation = constants_file.deviations()
    assert set(SHIPPED.base) == {t.name for t in TERMS}
    assert {n for kind, n, _ in deviation if kind == "base"} == set(SHIPPED.base)
    assert all(0 < value < 10 for value in deviation.values())
    assert set(SHIPPED.ranges) >= {"all", "time per token", "throughput", "training", "prompt pass", "decode pass"}
    for table in SHIPPED.ranges.values():
        assert set(table) >= {"chip", "pair", "member", "none"}
        assert all(low <= 1 <= high for low, high in table.values())
    assert sum(e.rows for e in SHIPPED.evidence) > 7000
    assert all(2019 < e.first <= e.last < 2027 for e in SHIPPED.evidence)


def test_rows_of_ones_own_move_the_constants_towards_them() -> None:
    questions = spread_of_rows()
    slower, _ = evaluate(questions, SHIPPED)
    factor = {"tpot": 1.3, "total_throughput": 1 / 1.3}
    mine = [
        {**cells(), **_cells_of(q), "value": repr(float(v) * factor[q.row.metric])}
        for q, v in zip(questions, slower, strict=True)
    ]
    done = calibrate(mine, SHIPPED, constants_file.deviations())
    after, _ = evaluate(questions, done.constants)
    ways = [1 if q.row.metric == "tpot" else -1 for q in questions]
    ratio = [(a / s) ** way for way, a, s in zip(ways, after, slower, strict=True)]
    assert 1.05 < np.median(ratio) < 1.4
    assert f"{len(mine)} rows of the user's own" in done.constants.basis


def test_too_few_rows_and_impossible_ones_are_refused() -> None:
    with pytest.raises(InputError, match="needs 8 usable rows"):
        calibrate([cells()], SHIPPED, {})
    with pytest.raises(InputError, match="beats the ideal bound"):
        calibrate([cells(value="0.000001", id=str(i)) for i in range(20)], SHIPPED, {})


def test_runs_that_share_the_labels_of_an_impossible_one_are_not_fitted_on() -> None:
    def run(arrivals: str, value: float, model: str = "Llama-2-70B", name: str = "") -> dict[str, str]:
        load = {
            "arrivals": arrivals,
            "concurrency": "",
            "metric": "output_throughput",
            "statistic": "",
            "per": "system",
        }
        return cells(model=model, n_gpus="8", tp="8", value=repr(value), id=name, **load)

    bound = float(ideal_values([question(read_row(run("offline", 1.0), 0))])[0])
    rows = [
        run("offline", 1.01 * bound, name="beats"),
        {**run("server", 0.2 * bound, name="beside it"), "benchmark": "mlperf-inference-v5.1", "scenario": "server"},
        run("offline", 0.2 * bound, "Llama-3.1-8B", name="other model"),
    ]
    kept, reasons = possible([question(read_row(c, i)) for i, c in enumerate(rows)])
    assert [q.row.id for q in kept] == ["other model"]
    assert [name for name, _ in reasons] == ["beats", "beside it"]
    assert "another run" in reasons[1][1]
    # Below the bound both are measurements.
    rows[0]["value"] = repr(0.99 * bound)
    assert len(possible([question(read_row(c, i)) for i, c in enumerate(rows)])[0]) == 3


def test_runs_that_print_the_numbers_of_a_run_on_other_accelerators_are_copies() -> None:
    columns = [("ttft", "mean"), ("ttft", "p50"), ("tpot", "mean"), ("tpot", "p50"), ("request_throughput", "")]

    def run(name: str, hardware: str, shift: float = 1.0, numbers: int = NUMBERS) -> list[dict[str, str]]:
        """Numbers of one run, the first of them moved by ``shift``."""
        values = [0.5 * shift, 0.4, 0.031, 0.030, 1.5]
        return [
            cells(hardware=hardware, run_id=name, id=f"{name} {i}", metric=metric, statistic=statistic, value=repr(v))
            for i, ((metric, statistic), v) in enumerate(zip(columns[:numbers], values, strict=False))
        ]

    def kept(*runs: list[dict[str, str]]) -> set[str]:
        rows = [question(read_row(c, i)) for i, c in enumerate(c for run in runs for c in run)]
        return {q.row.run_id for q in possible(rows)[0]}

    first, third = run("one", "h100-sxm"), run("three", "a100-sxm", shift=1.01)
    assert kept(first, run("two", "a100-sxm"), third) == {"three"}
    # On the same accelerators it is the same measurement, and few numbers may be equal by chance.
    assert kept(first, run("two", "h100-sxm"), third) == {"one", "two", "three"}
    assert kept(first[:-1], run("two", "a100-sxm", numbers=NUMBERS - 1)) == {"one", "two"}
    rows = [question(read_row(c, i)) for i, c in enumerate([*first, *run("two", "a100-sxm")])]
    assert all("numbers of run" in reason for _, reason in possible(rows)[1])


def test_written_constants_are_read_back_the_same(tmp_path) -> None:
    done = calibrate(TABLE, SHIPPED, constants_file.deviations())
    path = tmp_path / "mine.toml"
    path.write_text(constants_text(done, "rackmath calibrate mine.csv"))
    again: Constants = constants_file.constants(path)
    assert dict(again.base) == pytest.approx(dict(done.constants.base), rel=1e-5)
    assert again.chips == done.constants.chips
    assert len(again.evidence) == len(done.constants.evidence)
    assert again.ranges.keys() == done.constants.ranges.keys()


def _cells_of(q) -> dict[str, str]:
    row = q.row
    return {
        "model": row.model,
        "n_gpus": str(row.gpus),
        "tp": f"{row.tp:g}",
        "concurrency": str(row.load),
        "input_mean": str(row.input_mean),
        "metric": row.metric,
        "statistic": row.statistic,
        "per": row.per,
    }


def test_a_few_rows_of_chips_without_timings_move_nothing() -> None:
    """What their kernels lack has no constant of its own: with rows enough it has, and timed chips need none."""

    def of(hardware: str, rows: int):
        return [question(read_row(cells(hardware=hardware, concurrency=str(i + 1)), 2)) for i in range(rows)]

    assert has_place([*of("mi210", FEWEST - 1), *of("L40S", 1)], TIMED).tolist() == [False] * (FEWEST - 1) + [True]
    assert has_place(of("mi210", FEWEST), TIMED).all()
