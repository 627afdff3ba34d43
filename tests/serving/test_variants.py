"""Formats that plans try, and what llama.cpp makes of checkpoints that its files cannot hold."""

from __future__ import annotations

from typing import Any

import pytest

from rackmath.api.agent import AgentRequest, run_agent
from rackmath.api.cache import CacheRequest, run_cache
from rackmath.api.context import ContextRequest, run_context
from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.model import ModelRequest, run_model
from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.api.rl import RlRequest, run_rl
from rackmath.api.token_costs import CostRequest, run_cost
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.counts import weight_bytes
from rackmath.serving.variants import as_read, file_of, supported


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("gpt-oss-20b", "mxfp4_moe"),
        ("deepseek-r1", "q8_0"),
        ("kimi-k2.5", "q4_0"),
        ("llama-3.1-8b", None),
    ],
)
def test_llama_cpp_makes_files_of_formats_that_it_has_not(model: str, file: str | None) -> None:
    architecture = catalogue.model(model)
    assert file_of(architecture, "llama.cpp") == file
    assert file_of(architecture, "vllm") is None
    as_file, notes = as_read(architecture, "llama.cpp")
    assert (as_file is architecture) is (file is None)
    assert len(notes) == (file is not None)


@pytest.mark.parametrize(
    ("weights", "family", "strange"),
    [
        ("awq", "llama.cpp", True),
        ("fp8", "llama.cpp", True),
        ("q4_k_m", "llama.cpp", False),
        ("mxfp4", "llama.cpp", False),
        ("f16", "llama.cpp", False),
        ("bf16", "llama.cpp", False),
        ("awq", "vllm", False),
    ],
)
def test_a_format_that_its_files_have_not_is_named(weights: str, family: str, strange: bool) -> None:
    _, notes = as_read(catalogue.model("llama-3.1-8b"), family, weights)
    assert any("has no file type" in note for note in notes) is strange


def test_a_plan_names_formats_that_its_files_have_not() -> None:
    request = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "input": 500, "output": 100, "weights": "awq"}
    for engine in ("llama.cpp", "vllm"):
        notes = question_of(PlanRequest(**request, engine=engine, no_evidence=True)).notes
        assert any("has no file type awq" in note for note in notes) is (engine == "llama.cpp")


def test_an_estimate_reads_the_file() -> None:
    """12.1 GB, as llama-bench prints 11.27 GiB of gpt-oss 20B; the checkpoint keeps what is no expert in 16 bits."""
    request = {"model": "gpt-oss-20b", "on": "rtx-4090", "batch": 1, "context": 512, "no_evidence": True}
    of_llama, of_vllm, bound = (
        run_estimate(EstimateRequest(**request, engine=engine, ideal=ideal))
        for engine, ideal in (("llama.cpp", False), ("vllm", False), ("llama.cpp", True))
    )
    assert float(of_llama.step.memory.weights) == pytest.approx(11.27 * 2**30, rel=1e-3)
    assert float(of_vllm.step.memory.weights) == pytest.approx(
        sum(weight_bytes(catalogue.model("gpt-oss-20b")).values())
    )
    assert float(bound.step.memory.weights) == float(of_vllm.step.memory.weights)
    assert any("mxfp4_moe" in note for note in of_llama.notes)
    assert not any("mxfp4_moe" in note for note in (*of_vllm.notes, *bound.notes))


def test_plans_for_llama_cpp_try_its_own_files() -> None:
    chip = catalogue.system("rtx-4090").chip

    def formats(model: str, family: str) -> set[tuple[str, str]]:
        return {(v.weights, v.kv) for v in supported(catalogue.model(model), chip, family=family)}

    assert formats("llama-3.1-8b", "llama.cpp") == {("bf16", "bf16"), ("q8_0", "bf16"), ("q4_k_m", "bf16")}
    assert formats("gpt-oss-20b", "llama.cpp") == {("mxfp4_moe", "bf16")}
    assert formats("llama-3.1-8b", "vllm") == {(w, kv) for w in ("bf16", "fp8") for kv in ("bf16", "fp8")}
    sizes = {
        v.weights: sum(weight_bytes(v.architecture).values())
        for v in supported(catalogue.model("llama-3.1-8b"), chip, family="llama.cpp")
    }
    assert sizes["q4_k_m"] / 2**30 == pytest.approx(4.58, abs=0.01)
    assert supported(catalogue.model("llama-3.1-8b"), chip, ["q6_k"], ["fp8"], "llama.cpp")[0].kv == "q8_0"


@pytest.mark.parametrize(
    ("model", "own", "other"),
    [("gpt-oss-120b", "mxfp4", "bf16"), ("kimi-k2.5", "int4", "fp8"), ("deepseek-v3", "fp8", "nvfp4")],
)
def test_the_format_of_the_checkpoint_means_the_checkpoint(model: str, own: str, other: str) -> None:
    """Releases with experts in 4 bits keep attention wider: their format's name means them, wherever it stands."""
    architecture, chip = catalogue.model(model), catalogue.system("b200-sxm").chip
    assert as_read(architecture, "vllm", own)[0] == architecture
    assert as_read(architecture, "vllm", other)[0] != architecture
    assert {v.architecture for v in supported(architecture, chip, [own], [architecture.cache_format.name])} == {
        architecture
    }
    as_planned, as_it_comes = (
        run_estimate(EstimateRequest(model=model, on="b200-sxm", gpus=8, batch=1, context=100, weights=text))
        for text in (own, None)
    )
    assert float(as_planned.step.memory.weights) == float(as_it_comes.step.memory.weights)


def test_a_cache_in_another_format_beside_weights_in_theirs() -> None:
    architecture = catalogue.model("llama-3.1-8b")
    narrow, _ = as_read(architecture, "vllm", "fp8", "fp8")
    assert narrow.cache_format.bits == 8
    assert narrow.layers == as_read(architecture, "vllm", "fp8")[0].layers
    as_file, notes = as_read(catalogue.model("gpt-oss-20b"), "llama.cpp", None, "fp8")
    assert as_file.cache_format.bits == 8.5
    assert any("mxfp4_moe" in note for note in notes)
    assert any("no cache type fp8: taken as q8_0" in note for note in notes)


def test_caches_of_llama_cpp_are_its_own() -> None:
    """Blocks of 32 elements in 34 bytes (Q8_0) and 18 (Q4_0), as llama.cpp prints the size of its cache."""
    architecture = catalogue.model("llama-3.1-8b")
    elements = 32 * 8 * 128 * 2
    for name, block in (("q8_0", 34), ("q5_1", 24), ("q5_0", 22), ("q4_1", 20), ("q4_0", 18), ("iq4_nl", 18)):
        as_file, notes = as_read(architecture, "llama.cpp", None, name)
        assert kv_bytes_per_token(as_file) == elements / 32 * block
        assert not notes
        with pytest.raises(InputError, match=r"only llama\.cpp has this cache type: for vllm write"):
            as_read(architecture, "vllm", None, name)


def test_llama_cpp_keeps_16_bits_whatever_the_checkpoint_says() -> None:
    architecture = catalogue.model("llama-3.1-70b-fp8")
    widths = {family: as_read(architecture, family, "q4_k_m")[0].cache_format.bits for family in ("vllm", "llama.cpp")}
    assert widths == {"vllm": 8, "llama.cpp": 16}
    chip = catalogue.system("rtx-4090").chip
    assert {v.kv for v in supported(architecture, chip, family="llama.cpp")} == {"bf16"}
    assert {v.kv for v in supported(architecture, chip, kv=["auto", "fp8"], family="vllm")} == {"fp8"}


def test_studies_and_counts_take_auto_for_the_engine_s_own() -> None:
    """A release with a cache of 8 bits: a tier holds twice the bytes of it under llama.cpp, which keeps 16."""
    name = "llama-3.1-70b-fp8"

    def hold_usd(engine: str, kv: str | None) -> float:
        facts = run_cache(CacheRequest(model=name, on="h100-sxm", engine=engine, kv=kv)).to_dict()
        return facts["tiers"][0]["hold_usd_per_million_hour"]

    wide = hold_usd("vllm", "bf16")
    assert hold_usd("vllm", None) == hold_usd("vllm", "auto") == pytest.approx(wide / 2)
    for kv in (None, "auto", "bf16"):
        assert hold_usd("llama.cpp", kv) == pytest.approx(wide)
    counts = {
        kv: run_model(ModelRequest(model=name, kv=kv)).to_dict()["kv_bytes_per_token"] for kv in ("auto", "fp8", "bf16")
    }
    assert counts["auto"] == counts["fp8"] == counts["bf16"] / 2


def test_auto_is_what_the_engine_takes_by_itself() -> None:
    for name in ("llama-3.1-70b-fp8", "llama-3.1-8b"):
        architecture = catalogue.model(name)
        assert as_read(architecture, "vllm", None, "auto")[0] == architecture


def test_every_answer_about_a_served_model_takes_its_formats() -> None:
    """Half the bytes of weights and cache, at batches that read both: half the time and half the cost at the bound."""
    on: dict[str, Any] = {"on": "h100-sxm", "gpus": 1}
    formats = {"weights": "fp8", "kv": "fp8"}
    cost: dict[str, Any] = {"model": "llama-3.1-8b", "batch": 16, "ideal": True, "spread": 0.0, **on}
    wide, narrow = (run_cost(CostRequest(**cost, **more)).facts["rates"]["output"] for more in ({}, formats))
    assert narrow / wide == pytest.approx(2, rel=0.1)
    context: dict[str, Any] = {"models": "llama-3.1-8b", "to": 2000, "ideal": True, **on}
    wide, narrow = (run_context(ContextRequest(**context, **more)).facts[0]["cost"][0] for more in ({}, formats))
    assert 1.8 < wide / narrow < 2.3
    agent: dict[str, Any] = {
        "model": "gpt-5",
        "own_model": "llama-3.1-8b",
        "on": "h100-sxm",
        "layout": "tp1",
        "batch": 6,
    }
    wide, narrow = (run_agent(AgentRequest(**agent, **more)).facts["own"]["usd_per_session"] for more in ({}, formats))
    assert narrow < 0.8 * wide
    loop: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "rollouts": 512,
        "answer": 2000,
        "rollout_gpus": 1,
        "on": "h100-sxm",
    }
    wide, narrow = (run_rl(RlRequest(gpus=8, **loop, **more)).facts for more in ({}, formats))
    assert narrow["generation_time"] < 0.8 * wide["generation_time"]
    assert narrow["training_time"] == wide["training_time"]


def test_answers_name_the_file_that_llama_cpp_makes() -> None:
    on: dict[str, Any] = {"on": "h100-sxm", "gpus": 1, "engine": "llama.cpp"}
    texts = [
        run_cost(CostRequest(model="gpt-oss-20b", **on)).facts["assumptions"],
        run_context(ContextRequest(models="gpt-oss-20b", to=2000, **on)).facts[0]["warnings"],
        run_rl(RlRequest(model="gpt-oss-20b", **(on | {"gpus": 8}), rollout_gpus=1, answer=500)).facts["assumptions"],
    ]
    agent: dict[str, Any] = {"model": "gpt-5", "own_model": "gpt-oss-20b", "on": "h100-sxm", "engine": "llama.cpp"}
    texts.append(run_agent(AgentRequest(**agent, layout="tp1", batch=4)).facts["assumptions"])
    for notes in texts:
        assert any("mxfp4_moe" in note for note in notes)
    sliced = run_agent(AgentRequest(**agent, layout="tp2", batch=4)).facts["assumptions"]
    assert any("--split-mode tensor" in note for note in sliced)
    with pytest.raises(InputError, match="spreads no experts"):
        run_agent(AgentRequest(**agent, layout="tp2,ep2"))
