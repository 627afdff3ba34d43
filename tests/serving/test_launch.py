"""Launch commands: the flags multiply out to the layout, and what they cannot say is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import yaml

from rackmath.engine import Layout
from rackmath.io import catalogue
from rackmath.models.adapters import Adapters
from rackmath.serving.deployment_files import dynamo_yaml
from rackmath.serving.launch import (
    LaunchedWorker,
    longest_request,
    notes,
    one_each,
    sglang_command,
    vllm_command,
)
from rackmath.serving.launch_drafts import OWN, TEXT
from rackmath.serving.launch_trtllm import settings, trtllm_command

SERVER = LaunchedWorker(
    model="deepseek-ai/DeepSeek-V3",
    layout=Layout(tensor=2, expert=8, data=4),
    role="",
    batch=108.0,
    chunk=8192.0,
    longest=10_240,
    draft_tokens=0.0,
    experts=256,
    quantise="",
    cache="bf16",
    prefix_caching=False,
)


def flag(command: str, name: str) -> float:
    found = re.search(rf"{name} (\S+)", command)
    return float(found.group(1)) if found else 1.0


@pytest.mark.parametrize(
    "layout",
    [
        Layout(tensor=8, expert=8),
        Layout(tensor=2, expert=8, data=4),
        Layout(expert=16, data=16),
        Layout(tensor=4, pipeline=2, expert=4),
        Layout(tensor=8, expert=8, context_parallel=4),
    ],
)
def test_widths_multiply_out_to_the_accelerators(layout: Layout) -> None:
    server = replace(SERVER, layout=layout)
    v, s = vllm_command(server), sglang_command(server)
    wide = flag(v, "--tensor-parallel-size") * flag(v, "--data-parallel-size") * flag(v, "--pipeline-parallel-size")
    assert wide == layout.gpus
    assert ("--enable-expert-parallel" in v) == (layout.expert > 1)
    # SGLang counts all ranks of a stage as tensor parallelism.
    assert flag(s, "--tp-size") * flag(s, "--pp-size") == layout.gpus
    assert flag(s, "--ep-size") == layout.expert
    assert flag(s, "--attn-dp-size") == layout.data
    assert flag(v, "--decode-context-parallel-size") == flag(s, "--dcp-size") == layout.context_parallel


def test_batches_and_chunks_are_counted_as_each_engine_counts_them() -> None:
    assert flag(vllm_command(SERVER), "--max-num-seqs") == 27
    assert flag(vllm_command(SERVER), "--max-num-batched-tokens") == 8192
    assert flag(sglang_command(SERVER), "--max-running-requests") == 108
    assert flag(sglang_command(SERVER), "--chunked-prefill-size") == 4 * 8192


def test_groups_that_share_nothing_are_servers_of_their_own() -> None:
    for experts, layout in (
        (0, Layout(tensor=2, data=4)),
        (256, Layout(tensor=2, data=4)),
        (256, Layout(tensor=2, expert=2, data=4)),
    ):
        alone, copies = one_each(replace(SERVER, experts=experts, layout=layout))
        assert (copies, alone.layout.gpus, alone.batch) == (4, 2, 27)
        assert "data-parallel" not in vllm_command(alone)
        assert ("--enable-expert-parallel" in vllm_command(alone)) == (layout.expert > 1)
        assert "--attn-dp-size" not in sglang_command(alone)
    assert one_each(SERVER) == (SERVER, 1)


def test_tensorrt_llm_has_attention_data_parallel_on_all_ranks() -> None:
    """Two ranks to a sequence and eight groups of them: its command has sixteen, and says so."""
    shared = replace(SERVER, experts=256, batch=304.0, layout=Layout(tensor=2, expert=16, data=8))
    assert flag(trtllm_command(shared), "--tp_size") == 16
    assert flag(trtllm_command(shared), "--ep_size") == 16
    assert flag(trtllm_command(shared), "--max_batch_size") == 19
    assert any("on all 16 ranks or on none" in note for note in notes(shared))
    for layout in (Layout(tensor=2, expert=2, data=8), Layout(expert=16, data=16), Layout(tensor=16, expert=16)):
        assert not any("or on none" in note for note in notes(replace(shared, layout=layout)))
    # Groups that hold all experts are servers of their own: nothing is counted per rank.
    assert not any(
        "per data-parallel rank" in note for note in notes(replace(shared, layout=Layout(tensor=2, expert=2, data=8)))
    )


@pytest.mark.parametrize(("ranks", "copies"), [(3, 2), (12, 8), (24, 8)])
def test_experts_that_do_not_divide_have_second_copies(ranks: int, copies: int) -> None:
    server = replace(SERVER, layout=Layout(expert=ranks, data=ranks))
    assert (256 + copies) % ranks == 0
    assert flag(sglang_command(server), "--ep-num-redundant-experts") == copies
    assert f"--enable-eplb --eplb-config '{{\"num_redundant_experts\": {copies}}}'" in vllm_command(server)
    assert any(f"{copies} of them have a second copy" in note for note in notes(server))
    assert "redundant" not in vllm_command(SERVER) + sglang_command(SERVER)


def test_lengths_have_slack_within_what_the_model_was_trained_for() -> None:
    assert longest_request(5000.0, None) == 10_240
    assert longest_request(5000.0, 131_072) == 10_240
    assert longest_request(5000.0, 8192) == 8192
    assert longest_request(5000.0, 4096) == 5000


def test_memory_is_what_the_plan_uses() -> None:
    server = replace(SERVER, memory=0.9, activations=0.034)
    assert "--gpu-memory-utilization 0.90" in vllm_command(server)
    assert "--mem-fraction-static 0.86" in sglang_command(server)


@pytest.mark.parametrize(
    ("draft", "method", "algorithm"),
    [
        (OWN, "mtp", "NEXTN"),
        (TEXT, "ngram", "NGRAM"),
        ("meta-llama/Llama-3.2-1B-Instruct", "draft_model", "STANDALONE"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3", "EAGLE3"),
    ],
)
def test_drafts_name_what_makes_them(draft: str, method: str, algorithm: str) -> None:
    server = replace(SERVER, draft_tokens=3.0, draft=draft, eagle=method == "eagle3")
    setting = json.loads(re.search(r"--speculative-config '(.*)'", vllm_command(server)).group(1))  # type: ignore[union-attr]
    assert setting["method"] == method
    assert setting["num_speculative_tokens"] == 3
    assert setting.get("model") == (draft if "/" in draft else None)
    s = sglang_command(server)
    assert f"--speculative-algorithm {algorithm}" in s
    assert ("--speculative-draft-model-path" in s) == ("/" in draft)
    assert flag(s, "--speculative-num-draft-tokens") == 4


def test_formats_caches_and_drafts_become_flags() -> None:
    server = replace(SERVER, quantise="fp8", cache="fp8", prefix_caching=True, draft_tokens=2.0)
    v, s = vllm_command(server), sglang_command(server)
    assert "--quantization fp8" in v
    assert "--kv-cache-dtype fp8" in v
    assert "--kv-cache-dtype fp8_e4m3" in s
    assert "--enable-prefix-caching" in v
    assert "radix" not in s
    setting = re.search(r"--speculative-config '(.*)'", v)
    assert setting is not None
    assert json.loads(setting.group(1)) == {"method": "mtp", "num_speculative_tokens": 2}
    assert flag(s, "--speculative-num-draft-tokens") == 3
    assert "--no-enable-prefix-caching" in vllm_command(SERVER)


def test_formats_that_need_a_checkpoint_get_a_note_and_no_flag() -> None:
    server = replace(SERVER, quantise="nvfp4")
    assert "--quantization" not in vllm_command(server) + sglang_command(server)
    assert any("checkpoint" in note for note in notes(server))


def test_two_pools_become_a_resource_with_as_many_workers() -> None:
    prefill, decode = (
        replace(SERVER, role="prefill", draft_tokens=1.0),
        replace(SERVER, role="decode", draft_tokens=1.0),
    )
    # Both sides are told what drafts, or vLLM's refuse each other; who looks drafts up in the text reads alike.
    assert "speculative" in vllm_command(prefill)
    assert "speculative" in sglang_command(prefill)
    assert "speculative" not in vllm_command(replace(prefill, draft=TEXT))
    assert "--disaggregation-mode prefill" in sglang_command(prefill)
    text = dynamo_yaml("deepseek-v3", [(prefill, 2), (decode, 6)], catalogue.system("h100-sxm"))
    services = yaml.safe_load(text)["spec"]["services"]
    for name, role, replicas in (("VllmPrefillWorker", "prefill", 2), ("VllmDecodeWorker", "decode", 6)):
        worker = services[name]
        assert worker["replicas"] == replicas
        assert worker["resources"]["limits"]["gpu"] == "8"
        args = worker["extraPodSpec"]["mainContainer"]["args"]
        assert args[-2:] == ["--disaggregation-mode", role]
        transfer = json.loads(args[args.index("--kv-transfer-config") + 1])
        assert transfer == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_what_flags_cannot_say_is_said() -> None:
    assert any("ep4" in n for n in notes(replace(SERVER, layout=Layout(tensor=2, expert=4, data=4))))
    assert notes(replace(SERVER, layout=Layout(tensor=8, expert=8))) == []


def test_copies_of_experts_that_were_asked() -> None:
    """As many as asked or the next more that divide: 256 and 20 over 8 ranks are 280."""
    assert 'num_redundant_experts": 24' in vllm_command(replace(SERVER, redundant=20))
    assert flag(sglang_command(replace(SERVER, redundant=20)), "--ep-num-redundant-experts") == 24


def test_experts_that_move_say_how_often() -> None:
    server = replace(SERVER, redundant=24, interval=500)
    assert flag(sglang_command(server), "--eplb-rebalance-num-iterations") == 500
    assert "--enable-eplb" in sglang_command(server)
    assert '{"num_redundant_experts": 24, "step_interval": 500}' in vllm_command(server)
    assert "--enable-eplb" not in sglang_command(replace(server, interval=None))


def test_adapters_are_named() -> None:
    """Room on the accelerators, in host memory all of them; vLLM's ranks are those that it takes."""
    served = replace(SERVER, adapters=Adapters(rank=20, count=64, resident=8))
    assert flag(vllm_command(served), "--max-loras") == 8
    assert flag(vllm_command(served), "--max-lora-rank") == 32
    assert flag(vllm_command(served), "--max-cpu-loras") == 64
    assert "--max-cpu-loras" not in vllm_command(replace(SERVER, adapters=Adapters(rank=8, count=2, resident=2)))
    # vLLM's largest, and a note, where the rank is larger still.
    large = replace(SERVER, adapters=Adapters(rank=600, count=2, resident=2))
    assert flag(vllm_command(large), "--max-lora-rank") == 512
    assert "vLLM takes adapters up to rank 512" in notes(large)
    assert flag(sglang_command(served), "--max-loras-per-batch") == 8
    assert "--lora-target-modules all" in sglang_command(served)
    few = replace(SERVER, adapters=Adapters(rank=20, targets=("Wqkv", "q_proj")))
    assert "--lora-target-modules Wqkv q_proj" in sglang_command(few)
    assert "max_lora_rank: 20" in settings(served)
    assert any("--lora-modules" in note for note in notes(served))
    assert "lora" not in vllm_command(SERVER) + sglang_command(SERVER) + settings(SERVER)
