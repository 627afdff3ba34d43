"""Launch commands: the flags multiply out to the layout, and what they cannot say is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from rackmath.engine import Layout
from rackmath.serving.launch import Server, notes, pools_yaml, sglang_command, vllm_command

SERVER = Server(
    model="deepseek-ai/DeepSeek-V3",
    layout=Layout(tensor=2, expert=8, data=4),
    role="",
    batch=108.0,
    chunk=8192.0,
    context=5000.0,
    drafted=0.0,
    mixture=True,
    quantise="",
    cache="bf16",
    cached=False,
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
    assert flag(s, "--dp-size") == layout.data
    assert flag(v, "--decode-context-parallel-size") == flag(s, "--dcp-size") == layout.context_parallel


def test_batches_and_chunks_are_counted_as_each_engine_counts_them() -> None:
    assert flag(vllm_command(SERVER), "--max-num-seqs") == 27
    assert flag(vllm_command(SERVER), "--max-num-batched-tokens") == 8192
    assert flag(sglang_command(SERVER), "--max-running-requests") == 108
    assert flag(sglang_command(SERVER), "--chunked-prefill-size") == 4 * 8192


def test_a_dense_model_gets_no_flags_for_experts() -> None:
    dense = replace(SERVER, mixture=False, layout=Layout(tensor=2, data=4))
    assert "data-parallel" not in vllm_command(dense)
    assert "expert" not in vllm_command(dense)
    assert "dp-attention" not in sglang_command(dense)
    assert any("launch 4 instances" in note for note in notes(dense))


def test_formats_caches_and_drafts_become_flags() -> None:
    server = replace(SERVER, quantise="fp8", cache="fp8", cached=True, drafted=2.0)
    v, s = vllm_command(server), sglang_command(server)
    assert "--quantization fp8" in v
    assert "--kv-cache-dtype fp8" in v
    assert "--kv-cache-dtype fp8_e4m3" in s
    assert "prefix-caching" not in v
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
    prefill, decode = replace(SERVER, role="prefill", drafted=1.0), replace(SERVER, role="decode", drafted=1.0)
    assert "speculative" not in vllm_command(prefill)
    assert "--disaggregation-mode prefill" in sglang_command(prefill)
    text = pools_yaml("deepseek-v3", [(prefill, 2), (decode, 6)])
    assert text.count("replicas: 2") == 1
    assert text.count("replicas: 6") == 1
    assert text.count('gpu: "8"') == 2
    assert "--is-prefill-worker" in text
    assert "--is-decode-worker" in text
    arguments = [json.loads(line.strip()[2:]) for line in text.splitlines() if line.strip().startswith('- "')]
    assert {"kv_connector": "NixlConnector", "kv_role": "kv_both"} in [
        json.loads(a) for a in arguments if a.startswith("{")
    ]
    assert "\t" not in text


def test_what_flags_cannot_say_is_said() -> None:
    assert any("ep4" in n for n in notes(replace(SERVER, layout=Layout(tensor=2, expert=4, data=4))))
    assert any("spans nodes" in n for n in notes(replace(SERVER, layout=Layout(tensor=16, expert=16))))
    assert notes(replace(SERVER, layout=Layout(tensor=8, expert=8))) == []
