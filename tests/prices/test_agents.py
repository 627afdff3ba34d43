"""Sessions by closed forms, by simulation of their pauses, and against the engine."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.caching.sessions import Session, turns
from rackmath.engine import estimate, parse_layout
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.prices.agents import own_hardware, session_bill
from rackmath.prices.lists import PriceList, Rates

PLAIN = Session(turns=50, instructions=10_000.0, turn_tokens=1000.0, output=300.0, think_time=60.0)
PRICES = PriceList(
    model="m",
    provider="p",
    tiers=(Rates(input=4.0, cached_input=0.2, write=5.0, write_hour=8.0, output=20.0),),
)


@given(
    count=st.integers(1, 200),
    first=st.integers(0, 10**5),
    added=st.integers(0, 5000),
    output=st.integers(0, 5000),
)
def test_prompts_grow_by_what_is_added_and_said(count: int, first: int, added: int, output: int) -> None:
    found = turns(Session(turns=count, instructions=first, turn_tokens=added, output=output, think_time=1.0))
    assert found.prompt.sum() == count * (first + added) + (added + output) * count * (count - 1) // 2
    assert found.prefix.tolist() == [0, *found.prompt[:-1]]
    assert found.output.sum() == count * output


@settings(max_examples=50)
@given(count=st.integers(1, 300), limit=st.integers(20_000, 200_000))
def test_compaction_keeps_prompts_below_its_limit_and_loses_the_cache(count: int, limit: int) -> None:
    found = turns(replace(PLAIN, turns=count, compact_at=float(limit), compact_to=2000.0))
    assert np.all(found.prompt + np.where(found.summary, 0, found.output) <= limit)
    assert np.all(found.prefix <= found.prompt)
    after = np.flatnonzero(found.summary[:-1]) + 1
    assert np.all(found.prompt[after] == 10_000 + 2000 + 1000)
    assert np.all(found.prefix[after] == 10_000)
    assert len(found.prompt) == count + found.summary.sum()


def test_the_hit_rate_is_that_of_simulated_pauses() -> None:
    pauses = np.random.default_rng(3).exponential(90.0, 400_000)
    assert turns(replace(PLAIN, think_time=90.0, keep=100.0)).hit == pytest.approx(np.mean(pauses < 100.0), abs=0.003)
    assert turns(replace(PLAIN, think_time=0.0, keep=300.0)).hit == 1.0
    assert turns(replace(PLAIN, think_time=0.0)).hit == 0.0


def test_a_session_of_two_turns_by_hand() -> None:
    calls = turns(replace(PLAIN, turns=2, think_time=0.0, keep=300.0))
    # Prompts of 11,000 and 12,300; the second finds 11,000.
    assert session_bill(PRICES, calls, 0.0).total.sum() == pytest.approx((23_300 * 4 + 600 * 20) / 1e6)
    minutes = session_bill(PRICES, calls, 300.0)
    assert minutes.total.sum() == pytest.approx((11_000 * 5 + 11_000 * 0.2 + 1300 * 5 + 600 * 20) / 1e6)
    hour = session_bill(PRICES, calls, 3600.0)
    assert hour.write.sum() == pytest.approx(12_300 * 8 / 1e6)


def test_caching_that_never_hits_costs_more_than_none() -> None:
    calls = turns(replace(PLAIN, think_time=1e9, keep=300.0))
    with_writes, without = (session_bill(PRICES, calls, keep).total.sum() for keep in (300.0, 0.0))
    assert with_writes > without
    assert session_bill(PRICES, calls, 300.0).write.sum() == pytest.approx(calls.prompt.sum() * 5 / 1e6, rel=1e-5)


def test_own_hardware_is_the_engines_time_of_every_call() -> None:
    model, system = catalogue.model("qwen3-8b"), catalogue.system("h100-sxm")
    layout = parse_layout("tp1,dp2", None, model)
    calls = turns(replace(PLAIN, turns=3, think_time=60.0, keep=60.0))
    found = own_hardware(model, system, layout, calls, batch=16.0)

    def reading(prompt: float, cached: float) -> float:
        """In chunks of 8,192 tokens at most, all of one size."""
        chunk = (prompt - cached) / max(np.ceil((prompt - cached) / 8192), 1)
        before = np.arange(cached, prompt - 1, chunk)
        passes = estimate(model, system, layout, batch=2, context=before + chunk, cached_tokens=before, phase="prefill")
        return float(np.sum(passes.time))

    wanted = 0.0
    for prompt, prefix, said in zip(calls.prompt, calls.prefix, calls.output, strict=True):
        warm, cold = reading(prompt, prefix), reading(prompt, 0.0)
        step = estimate(model, system, layout, batch=16, context=prompt + said / 2).time
        # Two GPUs read two prompts at a time, and write 16 answers.
        wanted += calls.hit * warm + (1 - calls.hit) * cold + step * said * 2 / 16
    assert found.gpus == 2
    assert found.seconds == pytest.approx(wanted, rel=1e-4)
    always = own_hardware(model, system, layout, replace(calls, hit=1.0), batch=16.0)
    assert always.seconds < found.seconds


def test_sessions_that_do_not_fit_and_bad_sessions_are_refused() -> None:
    model, system = catalogue.model("qwen3-8b"), catalogue.system("h100-sxm")
    layout = parse_layout("tp1", None, model)
    with pytest.raises(DoesNotFit, match="smaller batch") as refusal:
        own_hardware(model, system, layout, turns(PLAIN), batch=1e4)
    # What the refusal says does fit, and not one more.
    room = int(re.search(r"at most (\d+) fit", str(refusal.value))[1])
    assert own_hardware(model, system, layout, turns(PLAIN), batch=room).seconds > 0
    with pytest.raises(DoesNotFit, match=f"at most {room} fit"):
        own_hardware(model, system, layout, turns(PLAIN), batch=room + 1)
    with pytest.raises(DoesNotFit, match="more GPUs"):
        own_hardware(catalogue.model("llama-3.1-405b"), system, layout, turns(PLAIN), batch=1)
    for change in ({"turns": 0}, {"instructions": -1.0}, {"think_time": float("nan")}, {"compact_at": 12_000.0}):
        with pytest.raises(InputError):
            replace(PLAIN, **change)
