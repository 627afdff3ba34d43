"""Deployments as files beside shell commands: Docker Compose, Kubernetes, Helm values of llm-d, a resource of Dynamo.

Names of fields are those of the Compose specification, of Kubernetes, of the chart llm-d-modelservice v0.4.12 and of
Dynamo's ``v1alpha1`` resources; ``tools/deployment_schemas.py`` reads them, and the tests hold every file against them.
Flags of containers are those of ``rackmath plan``'s commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from rackmath.engine import Layout
from rackmath.hardware import System
from rackmath.serving.launch import LaunchedWorker, Place, one_each, vllm_command
from rackmath.serving.launch_boxes import FRONT, box_size

VLLM_IMAGE = "vllm/vllm-openai:v0.33.0"
LLMD_IMAGE = "ghcr.io/llm-d/llm-d-cuda:latest"
DYNAMO_IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:${VERSION}"
_FILES = ("compose.yaml", "kubernetes.yaml", "llm-d-values.yaml", "dynamo.yaml")
_SECRET = "hf-token-secret"
"""Kubernetes secret that holds HF_TOKEN."""
_CACHE = "/models"
"""Where a container keeps the checkpoints of Hugging Face."""
_NIXL_PORT = 5600
_WORKER_PORT = 8200
"""Where workers of llm-d listen behind its routing sidecar."""
_BY_CHART = ("--tensor-parallel-size", "--data-parallel-size")
"""Flags that llm-d's chart writes from ``parallelism``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files of one deployment."""

    text: Mapping[str, str]
    """Name -> content."""
    missing: Mapping[str, str]
    """Files that were not written, and why."""


def deployment_files(name: str, workers: Sequence[tuple[LaunchedWorker, int]], system: System) -> Files:
    """All files that a deployment can be written as.

    Parameters
    ----------
    name : str
        Of the deployment, in lower case.
    workers : sequence of (LaunchedWorker, int)
        Each kind of worker, and how many there are.
    """
    alone = [(server, many * copies) for worker, many in workers for server, copies in [one_each(worker)]]
    pools = any(server.role for server, _ in workers)
    wide = max(int(server.layout.gpus) for server, _ in alone) > box_size(system)
    total = sum(int(server.layout.gpus) * many for server, many in alone)
    nvidia = system.chip.vendor == "NVIDIA"
    text: dict[str, str] = {}
    if any(server.layout.ffn for server, _ in workers):
        return Files(text={}, missing=dict.fromkeys(_FILES, "servers of routed experts are known to vllm.sh alone"))
    reasons = {
        "compose.yaml": "two pools need a router between them: dynamo.yaml or llm-d-values.yaml" if pools
        else f"{total} accelerators do not stand in one box of {box_size(system)}" if total > box_size(system)
        else "" if nvidia else f"images for {system.chip.vendor} are not known here",
        "kubernetes.yaml": "two pools need a router between them: dynamo.yaml or llm-d-values.yaml" if pools
        else "a server spans boxes: a Deployment's pods stand on one node each" if wide
        else "" if nvidia else f"images for {system.chip.vendor} are not known here",
        "llm-d-values.yaml": "a server spans boxes: the chart divides data parallelism over nodes, nothing else" if wide
        else "" if nvidia else f"images for {system.chip.vendor} are not known here",
        "dynamo.yaml": "" if nvidia else "Dynamo's images are NVIDIA's",
    }  # fmt: skip
    missing = {file: reason for file, reason in reasons.items() if reason}
    if "compose.yaml" not in missing:
        text["compose.yaml"] = _yaml(compose(alone))
        if sum(many for _, many in alone) > 1:
            text["nginx.conf"] = balancer([f"vllm-{place}:8000" for place in range(sum(many for _, many in alone))])
    if "kubernetes.yaml" not in missing:
        text["kubernetes.yaml"] = _yaml(*kubernetes(name, *alone[0]))
    if "llm-d-values.yaml" not in missing:
        text["llm-d-values.yaml"] = _yaml(llmd_values(name, alone))
    if "dynamo.yaml" not in missing:
        text["dynamo.yaml"] = dynamo_yaml(name, workers, system)
    return Files(text=text, missing=missing)


def compose(workers: Sequence[tuple[LaunchedWorker, int]]) -> dict[str, Any]:
    """Docker Compose of servers in one box; before several nginx deals requests in turn."""
    servers = [server for server, many in workers for _ in range(many)]
    services: dict[str, Any] = {}
    first = 0
    for place, server in enumerate(servers):
        gpus = int(server.layout.gpus)
        devices = [str(device) for device in range(first, first + gpus)]
        first += gpus
        services["vllm" if len(servers) == 1 else f"vllm-{place}"] = {
            "image": VLLM_IMAGE,
            "command": _arguments(server),
            "environment": {"HF_TOKEN": "${HF_TOKEN:-}", "HF_HOME": _CACHE},
            "volumes": [f"${{HF_HOME:-~/.cache/huggingface}}:{_CACHE}"],
            "ipc": "host",
            **({"ports": [f"{FRONT['vllm']}:8000"]} if len(servers) == 1 else {}),
            "healthcheck": {
                "test": ["CMD", "curl", "-fsS", "http://127.0.0.1:8000/health"],
                "interval": "10s",
                "start_period": "30m",
            },
            "deploy": {
                "resources": {
                    "reservations": {"devices": [{"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}]}
                }
            },
            "restart": "unless-stopped",
        }
    if len(servers) > 1:
        services["front"] = {
            "image": "nginx:stable",
            "volumes": ["./nginx.conf:/etc/nginx/nginx.conf:ro"],
            "ports": [f"{FRONT['vllm']}:80"],
            "depends_on": {name: {"condition": "service_healthy"} for name in list(services)},
        }
    return {"services": services}


def balancer(addresses: Sequence[str]) -> str:
    """Settings of nginx that deal requests to the server with the fewest."""
    servers = "\n".join(f"    server {address};" for address in addresses)
    return (
        "events {}\nhttp {\n  upstream vllm {\n    least_conn;\n" + servers + "\n  }\n"
        "  server {\n    listen 80;\n    location / {\n      proxy_pass http://vllm;\n      proxy_buffering off;\n"
        "      proxy_read_timeout 3600s;\n    }\n  }\n}\n"
    )


def kubernetes(name: str, server: LaunchedWorker, replicas: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Deployment of equal servers, and the Service before them."""
    labels = {"app": name}
    container = {
        "name": "vllm",
        "image": VLLM_IMAGE,
        "args": _arguments(server),
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": _SECRET, "key": "HF_TOKEN"}}}],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": f"{server.layout.gpus:g}"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10},
        "startupProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 360},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # not a temporary file of ours
    }
    pod = {"containers": [container], "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    return deployment, service


def llmd_values(name: str, workers: Sequence[tuple[LaunchedWorker, int]]) -> dict[str, Any]:
    """Values of the chart llm-d-modelservice: one pool as decode workers, or prefill and decode workers."""
    pools = {server.role or "decode": (server, many) for server, many in workers}
    model = workers[0][0].model
    values: dict[str, Any] = {
        "multinode": False,
        "modelArtifacts": {
            "name": model,
            "uri": f"hf://{model}",
            "authSecretName": _SECRET,
            "size": "1Ti",
            "labels": {"llm-d.ai/inference-serving": "true", "llm-d.ai/model": name},
        },
        "accelerator": {"type": "nvidia"},
        "routing": {"servicePort": 8000, "proxy": {"enabled": len(pools) > 1, "targetPort": _WORKER_PORT}},
    }
    for role in ("decode", "prefill"):
        if role not in pools:
            values[role] = {"create": False}
            continue
        server, many = pools[role]
        behind = role == "decode" and len(pools) > 1
        values[role] = {
            "create": True,
            "replicas": many,
            "parallelism": {
                "tensor": int(server.layout.tensor),
                "data": int(server.layout.data),
                "dataLocal": int(server.layout.data),
                "workers": 1,
            },
            "containers": [_llmd_container(server, _WORKER_PORT if behind else 8000)],
        }
    return values


def _llmd_container(server: LaunchedWorker, port: int) -> dict[str, Any]:
    flags = [flag for flag in _flags(server) if not flag.startswith(_BY_CHART)]
    pod = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    channel = {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(_NIXL_PORT)}
    return {
        "name": "vllm",
        "image": LLMD_IMAGE,
        "modelCommand": "vllmServe",
        "args": [part for flag in flags for part in shlex.split(flag)],
        "env": [pod, channel] if server.role else [],
        "ports": [{"containerPort": at, "protocol": "TCP"} for at in (port, *([_NIXL_PORT] if server.role else []))],
        "mountModelVolume": True,
        **_resources_of_stages(server.layout),
    }


def _resources_of_stages(layout: Layout) -> dict[str, Any]:
    """Accelerators of a pod with pipeline stages, of which the chart knows nothing: it counts ranks of one stage."""
    if layout.pipeline == 1:
        return {}
    return {"resources": {name: {"nvidia.com/gpu": str(int(layout.gpus))} for name in ("limits", "requests")}}


def dynamo_yaml(name: str, workers: Sequence[tuple[LaunchedWorker, int]], system: System) -> str:
    """Resource of NVIDIA Dynamo's operator, for one pool or two."""
    services: dict[str, Any] = {
        "Frontend": {"componentType": "frontend", "replicas": 1, **_container("", ())},
    }
    for server, replicas in workers:
        boxes = -(-int(server.layout.gpus) // box_size(system))
        role = ["--disaggregation-mode", server.role] if server.role else []
        services[f"Vllm{server.role.capitalize()}Worker"] = {
            "envFromSecret": _SECRET,
            "componentType": "worker",
            **({"subComponentType": server.role} if server.role else {}),
            "replicas": replicas,
            "resources": {"limits": {"gpu": f"{float(server.layout.gpus) / boxes:g}"}},
            **({"multinode": {"nodeCount": boxes}} if boxes > 1 else {}),
            **_container("dynamo.vllm", ["--model", *_arguments(server), *role]),
        }
    resource = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": name}}
    return _yaml(resource | {"spec": {"services": services}})


def _container(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    container: dict[str, Any] = {"image": DYNAMO_IMAGE}
    if module:
        container |= {"command": ["python3", "-m", module], "args": list(arguments)}
    return {"extraPodSpec": {"mainContainer": container}}


def _arguments(server: LaunchedWorker) -> list[str]:
    """What stands behind ``vllm serve``."""
    return [server.model, *(part for flag in _flags(server) for part in shlex.split(flag))]


def _flags(server: LaunchedWorker) -> list[str]:
    """Flags of vLLM's command, each with its value."""
    lines = vllm_command(server, Place()).split(" \\\n  ")
    return lines[1:]


def _yaml(*documents: Mapping[str, Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, width=120)
