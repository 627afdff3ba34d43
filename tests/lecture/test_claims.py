"""The ledger: complete, computed, and saying where the lecture is off."""

from __future__ import annotations

import csv
import json
import shlex

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.lecture import ciphers, real
from rackmath.lecture.claims import ENTRIES, RULINGS, Claim, claims, off, rows, text_of
from rackmath.lecture.verdicts import Value, off_by, parse_expected, verdict
from tests.conftest import SHARED

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def ledger() -> dict[str, Claim]:
    return {c.id: c for c in claims()}


def test_every_claim_of_the_lecture_is_in_the_ledger(ledger: dict[str, Claim]) -> None:
    assert set(ledger) == {row["id"] for row in rows()} == set(ENTRIES)
    if SHARED.exists():
        text = (SHARED / "lecture/claims.csv").read_text(encoding="utf-8")
        assert [r["id"] for r in csv.DictReader(text.splitlines())] == list(ledger)


def test_verdicts_have_one_of_three_forms_and_a_reason(ledger: dict[str, Claim]) -> None:
    for claim in ledger.values():
        assert claim.verdict in ("holds", "does not hold") or claim.verdict.startswith("holds within a factor of ")
        assert claim.why.endswith(".") or claim.why.endswith(":")
        assert len(claim.why) > 20


def test_rulings_are_three_and_partial_ones_name_their_cases(ledger: dict[str, Claim]) -> None:
    assert {claim.ruling for claim in ledger.values()} == set(RULINGS)
    for claim in ledger.values():
        assert bool(claim.holds_for) is bool(claim.fails_for) is (claim.ruling == "holds only for some"), claim.id
        assert claim.command.startswith("rackmath "), claim.id
        assert claim.source, claim.id
    ratio = ledger["batch-ratio"]
    assert "h100-sxm" in ratio.holds_for
    assert set(ratio.fails_for) == {"a100-sxm", "gb300-nvl72"}
    assert "DeepSeek" in ledger["cache-hit"].fails_for
    assert ledger["attention-millions"].ruling == "does not hold"


def test_how_far_a_claim_is_off_is_told_at_its_worse_end(ledger: dict[str, Claim]) -> None:
    assert off(ledger["tier-flash"]) == pytest.approx(7680 / 14 / 60)
    assert off(ledger["batch-ratio"]) == pytest.approx(153 / 300, rel=0.01)
    assert off(ledger["blackwell-memory"]) == 1.0
    assert off(ledger["tier-match"]) is None


def test_a_claim_that_does_not_hold_has_its_number_and_the_command_that_shows_it(ledger: dict[str, Claim]) -> None:
    false = [c for c in ledger.values() if c.verdict == "does not hold"]
    assert len(false) >= 15
    for claim in ledger.values():
        assert bool(claim.replaced_by) is (claim in false), claim.id
        factor = claim.verdict.removeprefix("holds within a factor of ")
        assert factor == claim.verdict or float(factor) <= 1.5
    # The command of both modes, the longest, runs in the test below.
    for command in {c.command for c in false} - {ledger["fast-mode"].command}:
        assert command.startswith("rackmath "), command
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output[-300:])


def test_modes_and_the_ledger_give_one_answer(ledger: dict[str, Claim]) -> None:
    command = ledger["fast-mode"].command
    assert command == ledger["slow-mode"].command
    facts = json.loads(CliRunner().invoke(cli, [*shlex.split(command)[1:], "--json"]).stdout)
    assert ledger["fast-mode"].with_real_inputs == pytest.approx(facts["fast"]["price_ratio"])
    assert f"{facts['levers'][0]['price_ratio']:.2g}x with a smaller batch alone" in ledger["fast-mode"].why
    saved = facts["waiting"]["saved_by_amortisation"]
    assert saved == pytest.approx(1 - facts["slow"]["price_ratio"])
    assert f"saves {saved:.0%} of the cost" in ledger["slow-mode"].why
    assert facts["standard"]["tokens_per_second_per_user"] >= 50
    # The baseline is stated wherever the answer is.
    for claim in ("fast-mode", "slow-mode"):
        assert "the cheapest deployment that writes 50 tokens/s" in ledger[claim].why


def test_the_lectures_numbers_follow_from_its_own_inputs(ledger: dict[str, Claim]) -> None:
    # Fast mode does not: on the lecture's own curve a smaller batch alone costs nothing until the floor.
    for claim in ledger.values():
        if claim.kind in ("exact", "approx") and claim.id != "fast-mode":
            assert off_by(claim.lecture, claim.with_lecture_inputs) < 1.2, claim.id


def test_the_ledger_says_where_the_lecture_is_off(ledger: dict[str, Claim]) -> None:
    assert "17.9" in ledger["batch-optimum"].why
    assert "32 by experts" in ledger["batch-optimum"].why
    low, high = ledger["batch-ratio"].with_real_inputs  # type: ignore[misc]
    assert (round(low), round(high)) == (153, 469)
    low, high = ledger["attention-millions"].with_real_inputs  # type: ignore[misc]
    assert 13_000 < low < 16_000
    assert 90_000 < high < 140_000
    assert ledger["attention-millions"].verdict == "does not hold"
    assert "linear" in ledger["sparse-sqrt"].why
    assert ledger["kv-from-cliff"].verdict == "does not hold"
    assert "13 to 43" in ledger["drain-stable"].why or "43 ms" in ledger["drain-stable"].why
    assert ledger["tier-disk"].verdict == "does not hold"


def test_real_numbers_come_from_the_engine(ledger: dict[str, Claim]) -> None:
    assert ledger["throughput-rack"].with_real_inputs == pytest.approx(float(real.decode(2000.0).tokens_per_second))
    assert ledger["pipeline-kv-cancels"].with_real_inputs == pytest.approx(1.0)
    assert ledger["routed-64x"].with_lecture_inputs == pytest.approx(1.36e9, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "expected", "found", "said"),
    [
        ("exact", 4.0, 4.0, "holds"),
        ("exact", 4.0, 5.0, "holds within a factor of 1.2"),
        ("exact", 4.0, 41.0, "does not hold"),
        ("order", 1000.0, 400.0, "holds"),
        ("exact", 4.0, 6.1, "does not hold"),
        ("order", 1000.0, 200.0, "does not hold"),
        ("range", (15.0, 20.0), (16.0, 19.0), "holds"),
        ("range", (15.0, 20.0), (12.0, 24.0), "holds within a factor of 1.2"),
        ("exact", 0.0, 0.0, "holds"),
        ("exact", 0.0, 1.0, "does not hold"),
        ("qualitative", "small", "small", "holds"),
        ("qualitative", "small", "large", "does not hold"),
    ],
)
def test_verdicts_follow_from_the_numbers(kind: str, expected, found, said: str) -> None:
    assert verdict(kind, expected, found) == said


def test_expected_values_are_read_as_numbers_ranges_or_words() -> None:
    assert parse_expected("300") == 300
    assert parse_expected("150..300") == (150, 300)
    assert parse_expected("flash; disk") == "flash; disk"


def test_a_feistel_network_inverts_for_any_round_function() -> None:
    assert ciphers.reconstruction_error() == 0
    constant = lambda half, key: 12345  # noqa: E731
    assert ciphers.decrypt(*ciphers.encrypt(1, 2, 7, constant), 7, constant) == (1, 2)


def test_few_rounds_do_not_mix_and_many_do() -> None:
    assert ciphers.avalanche(1) < 0.3
    assert ciphers.avalanche(16) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00123456, "0.001235"), (999.4, "999.4"), (2400.0, "2,400"), (306_249.0, "306,200"), (1.369e9, "1,369,000,000"),
        (6.02e23, "6.02e+23"), ((150.0, 1250.0), "150 to 1,250"), ("yes/no", "yes/no"),
    ],
)  # fmt: skip
def test_values_have_four_digits_and_no_power_of_ten_that_a_reader_can_do_without(value: Value, text: str) -> None:
    assert text_of(value) == text
