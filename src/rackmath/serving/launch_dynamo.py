"""Two pools as a Kubernetes resource, as NVIDIA Dynamo's operator takes it.

Flags are those of ``dynamo.vllm`` 1.6.1, read from its wheel by ``tools/engine_flags.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rackmath.serving.launch import Server, vllm_command


def pools_yaml(name: str, servers: Sequence[tuple[Server, int]]) -> str:
    """Kubernetes resource for two pools, as NVIDIA Dynamo's operator takes it."""
    lines = [
        "apiVersion: nvidia.com/v1alpha1",
        "kind: DynamoGraphDeployment",
        "metadata:",
        f"  name: {name}",
        "spec:",
        "  services:",
        "    Frontend:",
        "      componentType: frontend",
        "      replicas: 1",
        *_container("", ()),
    ]
    for server, replicas in servers:
        arguments = shlex.split(vllm_command(server).replace("\\\n", ""))[2:]
        lines += [
            f"    Vllm{server.role.capitalize()}Worker:",
            "      envFromSecret: hf-token-secret",
            "      componentType: worker",
            f"      subComponentType: {server.role}",
            f"      replicas: {replicas}",
            "      resources:",
            "        limits:",
            f'          gpu: "{server.layout.gpus:g}"',
            *_container("dynamo.vllm", ["--model", *arguments, "--disaggregation-mode", server.role]),
        ]
    return "\n".join(lines) + "\n"


def _container(module: str, arguments: Sequence[str]) -> list[str]:
    lines = [
        "      extraPodSpec:",
        "        mainContainer:",
        "          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:${VERSION}",
    ]
    if not module:
        return lines
    lines += ["          command: [python3, -m, " + module + "]", "          args:"]
    return lines + ["            - " + _quoted(argument) for argument in arguments]


def _quoted(text: str) -> str:
    """Text as a string of YAML in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
