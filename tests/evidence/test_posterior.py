"""The process over residuals: its kernel, its solve among near rows, and what it does where nothing is near."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.evidence.configurations import AMOUNTS, NAMES, Configuration, Configurations, book_of, columns_of, scaled
from rackmath.evidence.kernel import Part, covariance, prior_variance
from rackmath.evidence.posterior import (
    FAR,
    NEAR,
    Base,
    Posterior,
    Process,
    Residuals,
    _nearest_first,
    all_factors,
    factors,
    posteriors,
)
from rackmath.io import evidence_files

AT = Configuration(
    engine="vllm", generation="hopper", chip="H100", model="m", kind="dense", question="time per token", bits="16",
    layout="tp1", source="a", year=2026.0, load=16.0, input=1000.0, output=100.0, gpus=1.0, cached_prefix=0.0, draft_tokens=0.0,
)  # fmt: skip
PARTS = (
    Part(name="engine", deviation=0.3, differs={"engine": np.inf, "question": 0.5}, length={"year": 1.0}),
    Part(name="model", deviation=0.2, differs={"model": np.inf, "chip": 0.7}, length={"load": 1.0, "input": 2.0}),
)
PROCESS = Process(
    parts=PARTS,
    noise=0.05,
    unknown_source_weight=0.5,
    quantile={
        "near": {"all": (1.5, 1.6)},
        "middling": {"all": (1.7, 1.8)},
        "far": {"all": (2.0, 2.5), "other": (9, 9)},
    },
)


def configurations(values: list[tuple[int, int, int, float, float]]) -> list[Configuration]:
    return [
        replace(AT, engine=f"e{e}", model=f"m{m}", chip=f"c{c}", load=load, year=year) for e, m, c, load, year in values
    ]


some = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.floats(0.5, 500), st.floats(2023, 2027)
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def columns(of: list[Configuration]) -> Configurations:
    return columns_of(of, book_of(of))


@given(some)
def test_covariances_are_symmetric_and_positive_definite(values: list[tuple[int, int, int, float, float]]) -> None:
    at = columns(configurations(values))
    k = covariance(PARTS, at, at)
    assert np.allclose(k, k.T)
    assert np.allclose(np.diag(k), prior_variance(PARTS))
    assert np.linalg.eigvalsh(k).min() > -1e-9


def test_a_covariance_by_hand() -> None:
    """0.3^2 exp(-0.5 - 2^2 / 2) for the engine; 0.2^2 exp(-0.7 - ln(2)^2 / 2) for the model."""
    pair = [AT, replace(AT, question="first token", chip="H200", year=2028.0, load=32.0)]
    expected = 0.09 * np.exp(-0.5 - 2.0) + 0.04 * np.exp(-0.7 - np.log(2.0) ** 2 / 2)
    at = columns(pair)
    assert covariance(PARTS, at, at)[0, 1] == pytest.approx(expected, rel=1e-12)


def test_names_that_nobody_knows_differ_even_from_each_other() -> None:
    book = book_of([AT])
    both = columns_of([replace(AT, engine="", model="x"), replace(AT, engine="", model="x")], book)
    assert both.names[0, NAMES.index("engine")] == -1
    assert covariance(PARTS, both, both)[0, 1] < 1e-20


@given(some, st.integers(0, 2), st.floats(0.5, 500))
def test_near_rows_solve_what_all_rows_solve(
    values: list[tuple[int, int, int, float, float]], model: int, load: float
) -> None:
    """With fewer rows than it looks at, the answer is that of the whole process, by its textbook formula."""
    rows = configurations(values)
    residuals = np.sin(np.arange(len(rows)) * 1.7)
    noise = np.linspace(0.05, 0.5, len(rows))
    query = replace(AT, engine="e0", model=f"m{model}", load=load)
    book = book_of([*rows, query])
    base, at = Base(columns_of(rows, book), residuals, noise), columns_of([query], book)
    k = covariance(PARTS, base.configurations, base.configurations) + np.diag(noise**2)
    toward = covariance(PARTS, at, base.configurations)[0]
    expected = toward @ np.linalg.inv(k) @ residuals
    variance = prior_variance(PARTS) - toward @ np.linalg.inv(k) @ toward
    (answer,) = posteriors(PROCESS, base, at)
    assert answer.expected == pytest.approx(0.0 if answer.distance == FAR else expected, abs=1e-4)
    assert answer.deviation**2 == pytest.approx(variance + PROCESS.noise**2, abs=1e-4)


def asked(rows: list[Configuration], residuals: list[float], noise: list[float], query: Configuration) -> Posterior:
    book = book_of([*rows, query])
    base = Base(columns_of(rows, book), np.array(residuals), np.array(noise))
    return posteriors(PROCESS, base, columns_of([query], book))[0]


def test_nothing_near_is_physics_with_the_spread_of_all_residuals() -> None:
    answer = asked([replace(AT, engine="other", model="other")], [2.0], [0.05], AT)
    assert answer.expected == 0.0
    assert answer.deviation == pytest.approx(np.sqrt(0.09 + 0.04 + 0.05**2))
    assert (answer.distance, len(answer.rows)) == (FAR, 0)
    middle, low, high = factors(PROCESS, answer, "time per token")
    assert middle == pytest.approx(1.0)
    assert low == pytest.approx(np.exp(-2.0 * answer.deviation))
    assert high == pytest.approx(np.exp(2.5 * answer.deviation))


@given(some, some, st.lists(st.sampled_from([(), (0,), (0, 1)]), min_size=12, max_size=12))
def test_many_configurations_are_answered_as_each_alone(
    values: list[tuple[int, int, int, float, float]],
    queries: list[tuple[int, int, int, float, float]],
    hidden: list[tuple[int, ...]],
) -> None:
    """Whatever else is asked with it, in any order; and a hidden row is as good as none."""
    rows, queried = configurations(values), configurations(queries)
    book = book_of([*rows, *queried])
    residuals, noise = np.cos(np.arange(len(rows)) * 1.3), np.full(len(rows), 0.2)
    without = [[i for i in places if i < len(rows)] for places in hidden[: len(queried)]]
    together = posteriors(PROCESS, Base(columns_of(rows, book), residuals, noise), columns_of(queried, book), without)
    for query, places, answer in zip(queried, without, together, strict=True):
        seen = np.setdiff1d(np.arange(len(rows)), places)
        base = Base(columns_of([rows[i] for i in seen], book), residuals[seen], noise[seen])
        (alone,) = posteriors(PROCESS, base, columns_of([query], book))
        assert answer.expected == pytest.approx(alone.expected, abs=1e-9)
        assert answer.deviation == pytest.approx(alone.deviation, abs=1e-9)
        assert answer.rows.tolist() == seen[alone.rows].tolist()


def test_correlation_is_covariance_over_the_variance_of_a_residual() -> None:
    """A row of the same configuration has 1; one of another model what the engine's part explains: 0.09 of 0.13."""
    answer = asked([replace(AT, model="other"), AT], [0.1, 0.2], [0.05, 0.05], AT)
    assert answer.rows.tolist() == [1, 0]
    assert answer.correlation == pytest.approx([1.0, 0.09 / 0.13])


def test_names_that_nobody_knows_are_explained_by_no_row() -> None:
    book = book_of([AT])
    base = Base(columns_of([AT], book), np.array([2.0]), np.array([0.05]))
    (answer,) = posteriors(PROCESS, base, columns_of([replace(AT, engine="", model="")], book))
    assert (answer.expected, answer.unexplained) == (0.0, 1.0)


def test_loads_beyond_any_service_are_as_far_as_the_farthest_one() -> None:
    at = columns([replace(AT, load=load, gpus=load) for load in (1e-4, 1e-3, 1.0, 1e6, 1e7)])
    for name in ("load", "gpus"):
        scale = at.amounts[:, AMOUNTS.index(name)]
        assert scale == pytest.approx(np.log([1e-3, 1e-3, 1.0, 1e6, 1e6]))


def test_many_twins_settle_it() -> None:
    answer = asked([AT] * 50, [0.7] * 50, [0.05] * 50, AT)
    assert answer.expected == pytest.approx(0.7, abs=0.01)
    assert answer.deviation == pytest.approx(0.05, rel=0.05)
    assert answer.distance == NEAR


def test_a_row_of_large_noise_drags_nobody() -> None:
    calm = asked([AT] * 4, [0.2] * 4, [0.05] * 4, AT)
    dragged = asked([AT] * 5, [0.2] * 4 + [3.0], [0.05] * 4 + [2.0], AT)
    assert dragged.expected == pytest.approx(calm.expected, abs=0.01)


def test_a_row_that_may_not_be_looked_at_tells_nothing() -> None:
    base = Base(columns([AT, AT]), np.array([1.0, 0.3]), np.array([0.05, 0.05]))
    (alone,) = posteriors(PROCESS, base, columns([AT]), without=[[0]])
    assert list(alone.rows) == [1]
    assert alone.expected == pytest.approx(0.13 / 0.1325 * 0.3, rel=1e-6)


def test_the_shipped_process_has_a_range_for_every_place() -> None:
    process = evidence_files.process()
    for distance in ("near", "middling", "far"):
        for place in (distance, f"{distance}, unknown source"):
            ends = process.quantile[place]["all"]
            assert min(ends) > 1.0, place
            assert max(ends) < 8.0, place
    assert 0 < process.unknown_source_weight < 1
    assert prior_variance(process.parts) < 0.3**2 * 2


def test_an_answer_of_no_source_takes_part_of_what_others_suggest() -> None:
    """Parts that stand on the source are out of reach: they count neither as explained nor as left."""
    parts = (*PARTS, Part(name="source", deviation=0.4, differs={"source": np.inf}, length={}))
    process = replace(PROCESS, parts=parts)
    rows = [AT] * 50
    book = book_of(rows)
    base = Base(columns_of(rows, book), np.full(50, 0.7), np.full(50, 0.05))
    (known,) = posteriors(process, base, columns_of([AT], book))
    (unknown,) = posteriors(process, base, columns_of([replace(AT, source="")], book))
    assert (known.range_class, unknown.range_class) == ("near", "middling, unknown source")
    # 0.13 of the 0.29 of covariance is reachable, and half of that is taken.
    assert unknown.expected == pytest.approx(0.5 * 0.7 * 0.13 / 0.29, rel=0.01)
    assert unknown.deviation**2 == pytest.approx(0.29 - 0.13**2 / 0.29 + 0.05**2, rel=0.01)


def test_factors_by_known_answers() -> None:
    """exp(0.1) expected; of a near one 1.5 and 1.6 deviations of 0.2 below and above, of a far one 9 and 9 of "other"."""
    table = {**PROCESS.quantile, "near, unknown source": {"all": (1.0, 3.0)}}
    process = replace(PROCESS, quantile=table)
    many = Residuals(
        expected=np.array([0.1, -0.2, 0.0]),
        deviation=np.array([0.2, 0.1, 0.3]),
        unexplained=np.array([0.1, 0.9, 0.2]),
        unknown_source=np.array([False, False, True]),
    )
    expected, low, high = all_factors(process, many, "other")
    assert np.log(expected) == pytest.approx([0.1, -0.2, 0.0])
    assert np.log(low) == pytest.approx([0.1 - 1.5 * 0.2, -0.2 - 9 * 0.1, -1.0 * 0.3])
    assert np.log(high) == pytest.approx([0.1 + 1.6 * 0.2, -0.2 + 9 * 0.1, 3.0 * 0.3])
    for i in range(3):
        single = Posterior(
            expected=many.expected[i],
            deviation=many.deviation[i],
            unexplained=many.unexplained[i],
            unknown_source=bool(many.unknown_source[i]),
            rows=np.array([], dtype=np.intp),
            correlation=np.array([]),
        )
        assert factors(process, single, "other") == pytest.approx((expected[i], low[i], high[i]))


def test_small_residuals_have_nearest_rows_as_well() -> None:
    """What tells rows apart is their covariance over the variance: residuals of a thousandth are no rounding."""
    small = replace(PROCESS, parts=tuple(replace(part, deviation=part.deviation * 1e-6) for part in PARTS))
    cross = prior_variance(small.parts) * np.array([0.2, 0.5, 0.1])
    assert _nearest_first(small, cross).tolist() == [1, 0, 2]


def test_rows_as_near_stand_in_the_order_of_the_table_on_every_machine() -> None:
    """Covariances of equal rows differ in their last digits from one processor to another."""
    process = evidence_files.process()
    cross = np.array([0.2, 0.5, 0.2, 0.5, 0.1])
    for seed in range(20):
        rounding = 1 + 1e-13 * np.random.default_rng(seed).normal(size=5)
        assert _nearest_first(process, cross * rounding).tolist() == [1, 3, 0, 2, 4]
    assert _nearest_first(process, cross + np.array([0, 0, 1e-4, 0, 0])).tolist() == [1, 3, 2, 0, 4]


def test_amounts_lie_at_logarithms_within_bounds() -> None:
    """Loads and accelerators from a thousandth to a million, tokens from none, behind sixteen, to a billion."""
    year, cached_prefix, draft_tokens = 2026.5, 0.25, 3.0
    for load, tokens in ((1e-5, 0.0), (64.0, 1000.0), (1e9, 1e12)):
        amounts = {"year": year, "load": load, "input": tokens, "output": tokens, "gpus": load}
        row = scaled(np.array([[*amounts.values(), cached_prefix, draft_tokens]]))[0]
        many, long = np.log(np.clip(load, 0.001, 1_000_000)), np.log(min(tokens, 1_000_000_000) + 16)
        assert row == pytest.approx([year, many, long, long, many, cached_prefix, draft_tokens])
