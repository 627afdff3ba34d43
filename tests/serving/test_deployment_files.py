"""Deployment files: every field exists where it is written, devices and flags are those of the servers, folders whole."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import rackmath as rm
from rackmath.engine import Layout
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.adapters import Adapters
from rackmath.serving.deployment_files import deployment_files
from rackmath.serving.launch import LaunchedWorker, vllm_command
from tests.conftest import tool

SCHEMAS = json.loads((Path(__file__).parents[1] / "data/deployment_schemas.json").read_text(encoding="utf-8"))
VALIDATORS = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
H100 = catalogue.system("h100-sxm")
SERVER: LaunchedWorker = tool("deployment_schemas").SERVER


def documents(workers: list[tuple[LaunchedWorker, int]]) -> dict[str, Any]:
    """Documents of all files, each of which holds to what is published."""
    made: dict[str, Any] = {}
    for file, text in deployment_files("sample", workers, H100).text.items():
        if not file.endswith(".yaml"):
            continue
        for document in yaml.safe_load_all(text):
            name = document["kind"] if file == "kubernetes.yaml" else file
            VALIDATORS[name].validate(document)
            made[name] = document
    return made


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    data=st.sampled_from([1, 2]),
    many=st.integers(1, 3),
    draft_tokens=st.sampled_from([0.0, 2.0]),
    adapters=st.sampled_from([None, Adapters(rank=16, count=9, resident=3)]),
    pools=st.booleans(),
)
def test_files_hold_to_what_is_published(
    tensor: int, data: int, many: int, draft_tokens: float, adapters: Adapters | None, *, pools: bool
) -> None:
    layout = Layout(tensor=tensor, data=data, expert=tensor * data)
    server = replace(SERVER, layout=layout, experts=256, draft_tokens=draft_tokens, adapters=adapters)
    workers = [(server, many)]
    if pools:
        workers = [(replace(server, role="prefill"), many), (replace(server, role="decode"), many + 1)]
    made = documents(workers)
    services = made["dynamo.yaml"]["spec"]["services"]
    boxes = -(-tensor * data // 8)
    for name, copies in (("VllmPrefillWorker", many), ("VllmDecodeWorker", many + 1)) if pools else (
        ("VllmWorker", many),):  # fmt: skip
        assert services[name]["replicas"] == copies
        assert int(services[name]["resources"]["limits"]["gpu"]) * boxes == tensor * data
        assert services[name].get("multinode", {"nodeCount": 1})["nodeCount"] == boxes
    if boxes == 1:
        decode = made["llm-d-values.yaml"]["decode"]
        assert decode["parallelism"]["tensor"] * decode["parallelism"]["data"] == tensor * data
        assert not any(flag.startswith("--tensor-parallel-size") for flag in decode["containers"][0]["args"])


def test_llm_d_s_chart_counts_no_stages() -> None:
    """It writes the width of tensor parallelism as the flag, and as the accelerators of a pod unless these are stated."""
    made = documents([(replace(SERVER, layout=Layout(tensor=2, pipeline=4)), 1)])["llm-d-values.yaml"]["decode"]
    (container,) = made["containers"]
    assert made["parallelism"] == {"tensor": 2, "data": 1, "dataLocal": 1, "workers": 1}
    args = container["args"]
    assert args[args.index("--pipeline-parallel-size") + 1] == "4"
    assert container["resources"] == {name: {"nvidia.com/gpu": "8"} for name in ("limits", "requests")}
    text = deployment_files("sample", [(replace(SERVER, layout=Layout(tensor=2, pipeline=4)), 1)], H100).text
    assert "&id" not in text["llm-d-values.yaml"]
    assert "resources" not in documents([(SERVER, 1)])["llm-d-values.yaml"]["decode"]["containers"][0]


def test_a_field_that_does_not_exist_fails() -> None:
    """The schemas are closed: what no program reads is refused, at every depth."""
    made = documents([(SERVER, 1)])
    for name, path in (
        ("compose.yaml", ("services", "vllm")),
        ("Deployment", ("spec", "template", "spec", "containers", 0)),
        ("dynamo.yaml", ("spec", "services", "VllmWorker")),
        ("llm-d-values.yaml", ("decode", "parallelism")),
    ):
        inside = made[name]
        for step in path:
            inside = inside[step]
        inside["gpuz"] = 1
        with pytest.raises(jsonschema.ValidationError):
            VALIDATORS[name].validate(made[name])


def test_compose_deals_devices() -> None:
    """Two servers of four accelerators have all eight, none twice; nginx knows both."""
    files = deployment_files("sample", [(SERVER, 2)], H100).text
    services = yaml.safe_load(files["compose.yaml"])["services"]
    devices = [
        entry["device_ids"]
        for service in services.values()
        if "deploy" in service
        for entry in service["deploy"]["resources"]["reservations"]["devices"]
    ]
    assert devices == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert "server vllm-0:8000;" in files["nginx.conf"]
    assert "server vllm-1:8000;" in files["nginx.conf"]
    alone = yaml.safe_load(deployment_files("sample", [(SERVER, 1)], H100).text["compose.yaml"])["services"]
    assert list(alone) == ["vllm"]
    assert alone["vllm"]["ports"] == ["8000:8000"]


def test_groups_that_share_nothing_are_servers_of_their_own() -> None:
    """Two workers of two groups are four servers of two accelerators."""
    worker = replace(SERVER, layout=Layout(tensor=2, data=2), experts=False)
    services = yaml.safe_load(deployment_files("sample", [(worker, 2)], H100).text["compose.yaml"])["services"]
    assert [name for name in services if name.startswith("vllm")] == ["vllm-0", "vllm-1", "vllm-2", "vllm-3"]


def test_flags_are_those_of_the_command() -> None:
    args = documents([(SERVER, 1)])["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "vllm serve " + " ".join(args) == " ".join(vllm_command(SERVER).replace("\\\n", " ").split())


def test_what_cannot_be_written_is_said() -> None:
    pools = [(replace(SERVER, role="prefill"), 1), (replace(SERVER, role="decode"), 1)]
    missing = deployment_files("sample", pools, H100).missing
    assert set(missing) == {"compose.yaml", "kubernetes.yaml"}
    wide = deployment_files("sample", [(replace(SERVER, layout=Layout(tensor=16)), 1)], H100)
    assert set(wide.text) == {"dynamo.yaml"}
    assert "spans boxes" in wide.missing["kubernetes.yaml"]
    assert "stand in one box of 8" in deployment_files("sample", [(SERVER, 3)], H100).missing["compose.yaml"]
    amd = deployment_files("sample", [(SERVER, 1)], catalogue.system("mi300x"))
    assert not amd.text
    assert all("AMD" in reason or "NVIDIA" in reason for reason in amd.missing.values())


def test_a_folder_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rm.plan("llama-3.1-8b", "h100-sxm", rm.Workload(input=1000, output=300), gpus=2)
    folder = tmp_path / "deep" / "plan"
    names = plan.write(folder)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert {"README.md", "check.sh", "compose.yaml", "dynamo.yaml", "plan.json", "vllm.sh"} <= set(names)
    assert (folder / "vllm.sh").stat().st_mode & stat.S_IXUSR
    best = json.loads((folder / "plan.json").read_text())["best"]
    page = (folder / "README.md").read_text()
    assert f"{best['time_to_first_token']:.4g}" in page
    assert "--num-prompts" in (folder / "check.sh").read_text()
    with pytest.raises(InputError, match="there already"):
        plan.write(folder)
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="No space left"):
        plan.write(tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]


def test_nothing_is_written_of_no_plan(tmp_path: Path) -> None:
    work = rm.Workload(input=1000, output=300, tpot=1e-6)
    plan = rm.plan("llama-3.1-70b", "h100-sxm", work, gpus=4)
    with pytest.raises(InputError, match="nothing keeps the limits"):
        plan.write(str(tmp_path / "none"))
    assert not list(tmp_path.iterdir())
