"""Launch commands of llama.cpp: flags that its server has, files that it reads, slots that share a cache."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import rackmath as rm
from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.engine import Layout
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.adapters import Adapters
from rackmath.serving.launch import LaunchedWorker
from rackmath.serving.launch_boxes import launch_script
from rackmath.serving.launch_drafts import HEAD, OWN, TEXT
from rackmath.serving.launch_llama import llama_command, llama_notes

FLAGS = {
    "--model", "--gpu-layers", "--split-mode", "--parallel", "--kv-unified", "--ctx-size", "--batch-size", "--flash-attn",
    "--cache-type-k", "--cache-type-v", "--cache-prompt", "--no-cache-prompt", "--port",
    "--spec-type", "--spec-draft-n-max", "--spec-draft-model", "--spec-ngram-simple-size-m",
}  # fmt: skip
"""Of ``tools/server/README.md`` at commit 00dc805."""
SERVER = LaunchedWorker(
    model="meta-llama/Llama-3.1-70B-Instruct",
    layout=Layout(pipeline=2),
    role="",
    batch=5.0,
    chunk=2048.0,
    longest=4096,
    draft_tokens=0.0,
    quantise="q4_k_m",
    cache="bf16",
    prefix_caching=False,
)


def value(command: str, name: str) -> str | None:
    match = re.search(rf"{name} (\S+)", command)
    return match.group(1) if match else None


def test_a_server_has_its_file_its_slots_and_one_cache_for_all() -> None:
    command = llama_command(SERVER)
    assert set(re.findall(r"--[a-z-]+", command)) <= FLAGS
    assert value(command, "--model") == "Llama-3.1-70B-Instruct-Q4_K_M.gguf"
    assert value(command, "--split-mode") == "layer"
    assert value(command, "--parallel") == "5"
    assert value(command, "--ctx-size") == str(5 * 4096 // 2)
    assert value(command, "--port") == "8000"
    assert "--no-cache-prompt" in command
    assert value(command, "--cache-type-k") is None


def test_what_differs_changes_its_flag_alone() -> None:
    single = llama_command(replace(SERVER, layout=Layout(), batch=1.0, quantise="", cache="q5_1", prefix_caching=True))
    assert set(re.findall(r"--[a-z-]+", single)) <= FLAGS
    assert value(single, "--split-mode") is None
    assert value(single, "--model") == "Llama-3.1-70B-Instruct-BF16.gguf"
    assert value(single, "--ctx-size") == "4096"
    assert value(single, "--cache-type-k") == value(single, "--cache-type-v") == "q5_1"
    assert " --cache-prompt" in single


@pytest.mark.parametrize(
    ("draft", "eagle", "kind", "file", "tokens"),
    [
        (OWN, False, "draft-mtp", None, "--spec-draft-n-max"),
        (TEXT, False, "ngram-simple", None, "--spec-ngram-simple-size-m"),
        ("meta-llama/Llama-3.2-1B-Instruct", False, "draft-simple", "Llama-3.2-1B-Instruct.gguf", "--spec-draft-n-max"),
        (HEAD, True, "draft-eagle3", f"{HEAD}.gguf", "--spec-draft-n-max"),
    ],
)
def test_drafts_name_what_makes_them(draft: str, eagle: bool, kind: str, file: str | None, tokens: str) -> None:
    command = llama_command(replace(SERVER, draft_tokens=3.0, draft=draft, eagle=eagle))
    assert set(re.findall(r"--[a-z-]+", command)) <= FLAGS
    assert value(command, "--spec-type") == kind
    assert value(command, "--spec-draft-model") == file
    assert value(command, tokens) == "3"
    assert "--spec" not in llama_command(SERVER)


def test_servers_alike_have_devices_and_ports_of_their_own() -> None:
    script = launch_script("llama.cpp", [(SERVER, 2)], catalogue.system("rtx-4090"))
    assert "devices=(0,1 2,3)" in script
    assert "--port $((8100 + i)) &" in script
    assert "load balancer of your own: 127.0.0.1:8100 127.0.0.1:8101" in script


def test_what_flags_cannot_say_is_said() -> None:
    assert len(llama_notes(replace(SERVER, layout=Layout()))) == 2
    more = replace(SERVER, adapters=Adapters(rank=16, count=2, resident=2))
    assert all(word in " ".join(llama_notes(more)) for word in ("--split-mode tensor", "--lora"))


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_a_plan_is_launched_with_its_engine(engine: str) -> None:
    request = {"model": "llama-3.1-8b", "on": "rtx-4090", "gpus": 1, "input": 500, "output": 100, "no_evidence": True}
    launch = run_plan(PlanRequest(**request, engine=engine)).to_dict()["launch"]
    scripts = {name for name in ("vllm", "sglang", "trtllm", "llama.cpp") if name in launch}
    assert scripts == ({"llama.cpp"} if engine == "llama.cpp" else {"vllm", "sglang", "trtllm"})


def test_a_deployment_of_llama_cpp_names_the_commands_that_it_has() -> None:
    model, system = rm.load_model("llama-3.1-8b"), rm.load_system("rtx-4090", gpus=1)
    plan = rm.plan(model, system, rm.Workload(input=500, output=100), engine=rm.Engine("llama.cpp"))
    assert plan.best.launch("llama.cpp").count("llama-server") == 1
    with pytest.raises(InputError, match=r"use one of llama\.cpp"):
        plan.best.launch("vllm")
