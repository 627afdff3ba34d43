"""Counts of a model by request: a name, a config, other formats, and all of the catalogue."""

from __future__ import annotations

import rackmath as rm
from rackmath.io import catalogue


def test_a_model_is_counted_by_name_and_by_record() -> None:
    named = rm.answer(rm.ModelRequest(model="llama-3.1-8b"))
    assert named.to_dict()["total_params"] == 8_030_261_248
    assert named.to_dict()["kv_bytes_per_token"] == 131_072
    assert rm.answer(rm.ModelRequest(model=rm.load_model("llama-3.1-8b"))).to_dict() == named.to_dict()
    narrow = rm.answer(rm.ModelRequest(model="llama-3.1-8b", kv="fp8", weights="fp8")).to_dict()
    assert narrow["kv_bytes_per_token"] == 65_536
    assert narrow["weight_bytes"] < 0.6 * named.to_dict()["weight_bytes"]


def test_without_a_model_all_are_listed() -> None:
    rows = rm.answer(rm.ModelRequest()).to_dict()
    assert [row["name"] for row in rows] == list(catalogue.model_names())
