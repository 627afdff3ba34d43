"""Fitting: planted constants come back, flattened passes equal the engine's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rackmath import constants_file, tables
from rackmath.engine.constants import Constants, Engine, inward
from rackmath.errors import InputError
from rackmath.validation.answers import answer, engine_of, groups, stacked_constants, taken
from rackmath.validation.calibrate import calibrate, constants_text, usable
from rackmath.validation.features import Recorder, Replay, flattened
from rackmath.validation.fit import Prior, as_constants, as_vector, evaluate, fit
from rackmath.validation.priors import priors
from rackmath.validation.questions import question
from rackmath.validation.rows import read_row
from tests.validation.rows import cells

SHIPPED = constants_file.constants()
TABLE = tables.read_csv(Path(__file__).parents[1] / "data/rows.csv", "rows")


def spread_of_rows():
    """Rows over batches, lengths and layouts, of a dense and a sparse model."""
    made = []
    for model, gpus in (("Llama-3.1-8B", 1), ("Llama-3.1-70B", 8), ("gpt-oss-120b", 2)):
        for load in (1, 8, 64):
            for length in (256, 2048):
                for metric, unit in (("tpot_mean", "ms"), ("total_throughput (input+output)", "tok/s")):
                    made.append(
                        cells(
                            model=model,
                            n_gpus=str(gpus),
                            parallelism=f"tp={gpus}",
                            batch_or_concurrency=str(load),
                            input_len=str(length),
                            metric=metric,
                            unit=unit,
                            per="system",
                        )
                    )
    return [question(read_row(c, i)) for i, c in enumerate(made)]


def test_flattened_passes_take_as_long_as_the_engine_says() -> None:
    questions, _ = usable(TABLE)
    losses, outside = stacked_constants(SHIPPED, [engine_of(q) for q in questions])
    values, running = evaluate(questions, SHIPPED)
    sorted_groups = groups(questions)
    recorders = [Recorder(g) for g in sorted_groups]
    for group, recorder in zip(sorted_groups, recorders, strict=True):
        answer(group, recorder, taken(outside, group.index), running[group.index])
    features = flattened(sorted_groups, recorders)
    times = features.times(losses)
    for group, ranges in zip(sorted_groups, features.calls, strict=True):
        again, _ = answer(group, Replay(times, ranges), taken(outside, group.index), running[group.index])
        assert again == pytest.approx(values[group.index], rel=1e-3)


def test_planted_constants_are_found_again() -> None:
    questions = spread_of_rows()
    planted = replace(SHIPPED, base={**SHIPPED.base, "host": 4e-3, "stream": 0.6, "interruption": 0.5})
    values, _ = evaluate(questions, planted)
    rows = [replace(q, row=replace(q.row, value=float(v))) for q, v in zip(questions, values, strict=True)]
    known = [
        Prior(name=n, kind="base", member="", centre=inward(SHIPPED.base[n], scale), width=10.0)
        for n, scale in (("host", "positive"), ("stream", "part"), ("interruption", "part"))
    ]
    fixed = [p for p in priors() if p.name not in ("host", "stream", "interruption") or p.kind != "base"]
    frozen = [replace(p, centre=float(as_vector(SHIPPED, [p])[0]), width=1e-4) for p in fixed]
    found = fit(rows, np.ones(len(rows)), [*known, *frozen], SHIPPED, iterations=12)
    assert found.constants.base["host"] == pytest.approx(4e-3, rel=0.03)
    assert found.constants.base["stream"] == pytest.approx(0.6, rel=0.03)
    assert found.constants.base["interruption"] == pytest.approx(0.5, rel=0.1)
    again, _ = evaluate(rows, found.constants)
    assert np.median(np.abs(again / values - 1)) < 0.01


def test_rows_that_contradict_themselves_are_not_fitted_on() -> None:
    """Eight requests of 1,500 tokens in 10 s are 1,200 tokens per second; twice that is another number of requests."""
    wave = {"metric": "total_throughput (input+output)", "unit": "tok/s", "per": "gpu", "batch_or_concurrency": "8"}
    noted = "elapsed_s=10;all requests submitted at once"
    right, wrong, silent = (
        cells(**wave, n_gpus="2", parallelism="tp=2", value=value, notes=notes)
        for value, notes in (("600", noted), ("1200", noted), ("1200", "all requests submitted at once"))
    )
    found, others = usable([right, wrong, silent])
    assert [q.row.value for q in found] == [600, 1200]
    assert others == [("a-1", "value times elapsed_s make 16 requests, batch_or_concurrency says 8: mislabelled")]
    named, reasons = usable([cells(notes="warm-up artefact")])
    assert not named
    assert "artefact" in reasons[0][1]


def test_routing_made_even_leaves_nothing_to_imbalance() -> None:
    even, uneven = (SHIPPED.losses(Engine(generation="hopper", stage=stage)).imbalance for stage in ("balanced", ""))
    assert even == 0 < uneven


def test_compiled_hosts_start_kernels_in_no_time() -> None:
    python, compiled = (SHIPPED.value("dispatch", Engine(family=family)) for family in ("vllm", "llama.cpp"))
    assert compiled == 0 < python


def test_vectors_and_constants_round_trip() -> None:
    vector = as_vector(SHIPPED, priors())
    assert as_vector(as_constants(vector, priors()), priors()) == pytest.approx(vector, abs=1e-6)


def test_about_sixty_constants_and_none_tied_to_a_model() -> None:
    assert len(priors()) <= 65
    members = {p.member for p in priors()}
    assert not any(word in m.lower() for m in members for word in ("deepseek", "llama-", "qwen", "gpt-oss", "mpt"))


def test_shipped_constants_are_those_of_the_priors_and_physical() -> None:
    deviation = constants_file.deviations()
    assert set(deviation) == {(p.kind, p.name, p.member) for p in priors()}
    assert all(0 < value < 10 for value in deviation.values())
    assert set(SHIPPED.ranges) >= {"all", "time per token", "throughput", "training", "prompt pass", "decode pass"}
    for pair in SHIPPED.ranges.values():
        assert all(low < 1 < high for low, high in pair.values())


def test_rows_of_ones_own_move_the_constants_towards_them() -> None:
    questions = spread_of_rows()
    slower, _ = evaluate(questions, SHIPPED)
    factor = {"ms": 1.3, "tok/s": 1 / 1.3}
    mine = [
        {**cells(), **_cells_of(q), "value": repr(float(v) * factor[q.row.unit])}
        for q, v in zip(questions, slower, strict=True)
    ]
    done = calibrate(mine, SHIPPED, constants_file.deviations())
    after, _ = evaluate(questions, done.constants)
    ratio = [(a / s) ** (1 if q.row.unit == "ms" else -1) for q, a, s in zip(questions, after, slower, strict=True)]
    assert 1.1 < np.median(ratio) < 1.4
    assert f"{len(mine)} rows of the user's own" in done.constants.basis


def test_too_few_rows_and_impossible_ones_are_refused() -> None:
    with pytest.raises(InputError, match="needs 8 usable rows"):
        calibrate([cells()], SHIPPED, {})
    with pytest.raises(InputError, match="beats the ideal bound"):
        calibrate([cells(value="0.001", id=str(i)) for i in range(20)], SHIPPED, {})


def test_written_constants_are_read_back_the_same(tmp_path) -> None:
    done = calibrate(TABLE, SHIPPED, constants_file.deviations())
    path = tmp_path / "mine.toml"
    path.write_text(constants_text(done, "rackmath calibrate mine.csv"))
    again: Constants = constants_file.constants(path)
    assert dict(again.base) == pytest.approx(dict(done.constants.base), rel=1e-5)
    assert again.chips == done.constants.chips
    assert again.latest == pytest.approx(done.constants.latest, rel=1e-5)
    assert again.ranges.keys() == done.constants.ranges.keys()


def _cells_of(q) -> dict[str, str]:
    row = q.row
    return {
        "model": row.model,
        "n_gpus": str(row.gpus),
        "parallelism": row.parallelism,
        "batch_or_concurrency": str(row.load),
        "input_len": str(row.input),
        "metric": row.metric,
        "unit": row.unit,
        "per": row.per,
    }
