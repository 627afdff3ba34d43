"""Launch scripts are run as printed, with stand-ins for the engines; what these were called with is checked.

Every flag and value is one of a named version of the engine: tests/data/engine_flags.json, from ``tools/engine_flags.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.engine import Layout
from rackmath.io import catalogue, model_names
from rackmath.serving.launch import ENGINES, LaunchedWorker
from rackmath.serving.launch_boxes import box_size, launch_script

FLAGS = json.loads((Path(__file__).parents[1] / "data/engine_flags.json").read_text())
SERVER = LaunchedWorker(
    model="owner/model", layout=Layout(tensor=2), role="", batch=64.0, chunk=8192.0, longest=8192, draft_tokens=0.0,
    quantise="", cache="bf16", prefix_caching=False,
)  # fmt: skip
STAND_IN = """#!/bin/bash
printf '%s\\0' "$(basename "$0")" "$@" > "$CALLS/$$-$RANDOM.call"
{ printf 'CUDA_VISIBLE_DEVICES=%s\\0VLLM_NIXL_SIDE_CHANNEL_PORT=%s\\0' \
"$CUDA_VISIBLE_DEVICES" "$VLLM_NIXL_SIDE_CHANNEL_PORT"; } > "$CALLS/$$.env"
"""


@dataclass(frozen=True)
class Call:
    """One command that a script started."""

    program: str
    words: list[str]
    options: dict[str, list[str]]
    environment: dict[str, str]

    def one(self, flag: str) -> str:
        values = self.options[flag]
        assert len(values) == 1
        return values[0]


def executed(script: str, folder: Path) -> list[Call]:
    """Run a script with stand-ins for all programs that it may call; what each was called with."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    calls = folder / "calls"
    shutil.rmtree(calls, ignore_errors=True)
    calls.mkdir()
    for name in ("vllm", "python", "vllm-router", "trtllm-serve", "mpirun"):
        path = folder / name
        path.write_text(STAND_IN)
        path.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls)}
    done = subprocess.run(
        ["bash", "-euc", script + "\nwait"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Call] = []
    for path in calls.glob("*.call"):
        program, *words = path.read_text().split("\0")[:-1]
        pairs = (calls / (path.name.split("-")[0] + ".env")).read_text().split("\0")[:-1]
        found.append(Call(program, words, options_of(words), dict(pair.split("=", 1) for pair in pairs)))
    return found


def options_of(words: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    last: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            last = options.setdefault(word, [])
        elif last is not None:
            last.append(word)
    return options


def of_program(call: Call) -> dict[str, Any]:
    """The flag list of what was called."""
    if call.program == "python":
        return FLAGS["sglang" if call.words[1] == "sglang.launch_server" else call.words[1]]
    if call.program == "mpirun":
        return FLAGS["trtllm-serve"] | {"flags": FLAGS["trtllm-serve"]["flags"] | {"--host": "any"}}
    return FLAGS[call.program]


def check(call: Call) -> None:
    """Every flag exists, takes what it was given, and is not deprecated."""
    known = of_program(call)
    for flag, values in call.options.items():
        assert flag in known["flags"], f"{call.program} {known['version']} has no {flag}"
        takes = known["flags"][flag]
        assert takes != "deprecated", flag
        if takes == "flag":
            assert values == [], flag
        elif isinstance(takes, list):
            assert len(values) == 1, flag
            assert values[0] in takes, (flag, values)
        elif takes in ("int", "float"):
            assert len(values) == 1, flag
            float(values[0]) if takes == "float" else int(values[0])
        else:
            assert values, flag
        for config in ("--speculative-config", "--kv-transfer-config", "--eplb-config"):
            if flag == config:
                setting = json.loads(values[0])
                assert set(setting) <= set(known["fields"][config])
                assert setting.get("method", "mtp") in known["speculative_methods"]
        if flag == "--speculative-algorithm":
            assert values[0] in known["speculative_algorithms"]


CASES = {
    "mixture on one box": ["qwen3-coder-480b", "--on", "b200-sxm", "--gpus", "8", "--cached-prefix", "0.8"],
    "experts that do not divide": ["deepseek-v3", "--on", "b200-sxm", "--gpus", "6", "--one-pool"],
    "own drafts": ["deepseek-v3", "--on", "h200-sxm", "--gpus", "16", "--draft-tokens", "2"],
    "two pools": ["llama-3.1-70b", "--on", "h100-sxm", "--gpus", "16", "--ttft", "1", "--tpot", "0.03"],
    "draft model": ["llama-3.1-70b", "--on", "h200-sxm", "--gpus", "8", "--draft-tokens", "3",
                    "--draft-model", "llama-3.2-1b"],
    "looked up": ["llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--draft-tokens", "2", "--acceptance", "0.4"],
    "small ones": ["llama-3.1-8b", "--on", "l40s", "--gpus", "8", "--one-pool"],
    "rack": ["kimi-k2", "--on", "gb200-nvl72", "--gpus", "16"],
}  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("case", CASES)
def test_every_point_of_a_plan_starts_as_printed(case: str, engine: str, tmp_path: Path) -> None:
    asked = ["plan", *CASES[case], "--input", "4000", "--output", "500", "--json"]
    result = CliRunner().invoke(cli, asked)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    points = [*facts["frontier"], facts["best"] | {"launch": facts["launch"]}]
    for point in points[:: max(len(points) // 6, 1)]:
        used = sum(
            boxes * sum(_accelerators(call, engine) for call in executed(text, tmp_path))
            for boxes, text in by_box(point["launch"][engine])
        )
        assert used == pytest.approx(point["gpus"])


def _accelerators(call: Call, engine: str) -> float:
    """Accelerators that one command takes on its box; 0 of a router."""
    if "disaggregated" in call.words:
        return 0.0
    check(call)
    if engine == "trtllm":
        return _of_trtllm(call)
    if not (call.program == "vllm" or "sglang.launch_server" in call.words):
        return 0.0
    gpus = 1
    for flag in (
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--tp-size",
        "--pp-size",
    ):
        gpus *= int(call.options.get(flag, ["1"])[0])
    assert "/" in (call.words[1] if engine == "vllm" else call.one("--model-path"))
    devices = call.environment["CUDA_VISIBLE_DEVICES"]
    assert not devices or len(devices.split(",")) == gpus
    return gpus / int(call.options.get("--nnodes", ["1"])[0])


def _of_trtllm(call: Call) -> float:
    """Accelerators of one worker of TensorRT-LLM; MPI starts one that spans boxes from the first."""
    gpus = 1.0
    for flag in ("--tp_size", "--pp_size", "--cp_size"):
        gpus *= int(call.options.get(flag, ["1"])[0])
    if call.program == "mpirun":
        assert call.words[call.words.index("-n") + 1] == f"{gpus:g}"
        hosts = call.words[call.words.index("--host") + 1].split(",")
        assert sum(int(host.split(":")[1]) for host in hosts) == gpus
        return gpus
    devices = call.environment["CUDA_VISIBLE_DEVICES"]
    assert not devices or len(devices.split(",")) == gpus
    return gpus


def by_box(script: str) -> list[tuple[int, str]]:
    """Parts of a script, and on how many boxes each of them is run."""
    parts: list[tuple[int, str]] = []
    boxes, lines = 1, list[str]()
    for line in [*script.splitlines(), "# on the end"]:
        if line.startswith("# on "):
            parts.append((boxes, "\n".join(lines)))
            lines = []
            names = [int(word.split("-")[1]) for word in line.split() if word.startswith("box-")]
            boxes = names[-1] - names[0] + 1 if names else 1
        lines.append(line)
    return parts


def test_servers_of_one_box_have_devices_and_ports_of_their_own(tmp_path: Path) -> None:
    system = catalogue.system("h100-sxm")
    for engine, port in (("vllm", 8100), ("sglang", 30_100)):
        calls = executed(launch_script(engine, [(SERVER, 4)], system), tmp_path)
        servers = [c for c in calls if "--worker-urls" not in c.options]
        (router,) = (c for c in calls if "--worker-urls" in c.options)
        assert sorted(c.environment["CUDA_VISIBLE_DEVICES"] for c in servers) == ["0,1", "2,3", "4,5", "6,7"]
        assert sorted(int(c.one("--port")) for c in servers) == [port, port + 1, port + 2, port + 3]
        assert router.options["--worker-urls"] == [f"http://127.0.0.1:{port + i}" for i in range(4)]


def test_two_pools_have_a_router_that_knows_both(tmp_path: Path) -> None:
    system = catalogue.system("h100-sxm")
    workers = [(replace(SERVER, role="prefill"), 3), (replace(SERVER, role="decode"), 1)]
    calls = executed(launch_script("vllm", workers, system), tmp_path)
    (router,) = (c for c in calls if c.program == "vllm-router")
    assert router.options["--prefill"] == [f"http://127.0.0.1:{8100 + i}" for i in range(3)]
    assert router.options["--decode"] == ["http://127.0.0.1:8103"]
    links = [c.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] for c in calls if c.program == "vllm"]
    assert sorted(links) == ["5600", "5601", "5602", "5603"]
    calls = executed(launch_script("sglang", workers, system), tmp_path)
    (router,) = (c for c in calls if "sglang_router.launch_router" in c.words)
    ports = {c.one("--port"): c.one("--disaggregation-bootstrap-port") for c in calls
             if c.options.get("--disaggregation-mode") == ["prefill"]}  # fmt: skip
    urls = router.options["--prefill"]
    assert {url.rsplit(":", 1)[1]: link for url, link in zip(urls[::2], urls[1::2], strict=True)} == ports


def test_a_server_larger_than_a_box_has_a_rank_on_each(tmp_path: Path) -> None:
    wide = replace(SERVER, layout=Layout(tensor=8, pipeline=2))
    for engine, head in (("vllm", "--master-addr"), ("sglang", "--dist-init-addr")):
        calls = executed(launch_script(engine, [(wide, 1)], catalogue.system("h100-sxm")), tmp_path)
        assert sorted(c.one("--node-rank") for c in calls) == ["0", "1"]
        assert all(c.one("--nnodes") == "2" and c.one(head).startswith("box-1") for c in calls)
        for call in calls:
            check(call)


def test_boxes_are_what_one_operating_system_sees() -> None:
    assert [box_size(catalogue.system(name)) for name in ("h100-sxm", "gb200-nvl72", "l40s")] == [8, 4, 8]


def test_the_versions_are_those_of_the_data() -> None:
    versions = [FLAGS[name]["version"] for name in ("vllm", "sglang", "trtllm-serve")]
    assert f"vLLM {versions[0]}, SGLang {versions[1]} and TensorRT-LLM at {versions[2]}" == ENGINES


def test_settings_of_tensorrt_llm_are_written_before_the_server_that_reads_them(tmp_path: Path) -> None:
    system = catalogue.system("h100-sxm")
    server = replace(
        SERVER, weights=0.5, activations=0.1, memory=0.95, draft_tokens=2.0, cache="fp8", prefix_caching=True
    )
    workers = [(replace(server, role="prefill"), 1), (replace(server, role="decode"), 2)]
    calls = executed(launch_script("trtllm", workers, system), tmp_path)
    files = {name: (tmp_path / name).read_text() for name in ("trtllm-prefill.yml", "trtllm-decode.yml")}
    assert {c.one("--config") for c in calls if "--config" in c.options} == set(files)
    # Of the 0.4 that weights and a pass leave free, 0.35 are the cache's.
    assert all(
        "  free_gpu_memory_fraction: 0.87\n  enable_block_reuse: true\n  dtype: fp8" in t for t in files.values()
    )
    assert "num_nextn_predict_layers: 2" in files["trtllm-decode.yml"]
    assert "disable_overlap_scheduler: true" in files["trtllm-prefill.yml"]
    assert "disable_overlap_scheduler" not in files["trtllm-decode.yml"]
    assert "num_nextn_predict_layers: 2" in files["trtllm-prefill.yml"]
    pools = (tmp_path / "trtllm-pools.yml").read_text()
    assert [line.strip() for line in pools.splitlines() if ":81" in line] == [
        f'- "127.0.0.1:{8100 + i}"' for i in range(3)
    ]


def test_a_script_is_printed_without_a_broken_line() -> None:
    asked = ["plan", *CASES["two pools"], "--input", "4000", "--output", "500"]
    text = CliRunner().invoke(cli, asked).output
    script = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)["launch"]["vllm"]
    assert script in text


def test_what_an_engine_loads() -> None:
    assert model_names.repository("qwen3-coder-480b") == "Qwen/Qwen3-Coder-480B-A35B-Instruct"
    assert model_names.repository("Meta-Llama-3.1-70B") == "meta-llama/Llama-3.1-70B-Instruct"
    assert model_names.repository("someone/Their-Model") == "someone/Their-Model"
    for name in catalogue.model_names():
        if not name.startswith(("mpt-", "gpt-3-")):
            assert "/" in model_names.repository(name), name
            assert catalogue.model(model_names.repository(name)).name == name
