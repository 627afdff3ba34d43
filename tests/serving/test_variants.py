"""Formats that plans try, and what llama.cpp makes of checkpoints that its files cannot hold."""

from __future__ import annotations

import pytest

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.io import catalogue
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
    assert supported(catalogue.model("llama-3.1-8b"), chip, ["q6_k"], ["fp8"], "llama.cpp")[0].kv == "fp8"
