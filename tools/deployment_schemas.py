"""Read which fields deployment files may have, and of which types, from what their programs publish.

    pip install --target FOLDER kubernetes
    PYTHONPATH=FOLDER python tools/deployment_schemas.py COMPOSE_SPEC.json VALUES.schema.json

Writes tests/data/deployment_schemas.json: JSON schemas cut down to the fields that rackmath writes, without any other
field, so that a field that does not exist or has another type fails the tests. COMPOSE_SPEC.json is compose-spec's,
VALUES.schema.json that of the chart llm-d-modelservice; Kubernetes' fields are those of its Python client. Fields of
Dynamo's resource are those of ``DynamoComponentDeploymentSharedSpec`` (ai-dynamo/dynamo, deploy/operator/api/v1alpha1,
commit 00686d6), whose ``extraPodSpec`` is Kubernetes' own with a ``mainContainer``.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from rackmath.engine import Layout
from rackmath.io import catalogue
from rackmath.serving.deployment_files import deployment_files
from rackmath.serving.launch import LaunchedWorker

ROOT = Path(__file__).parent.parent
OUT = ROOT / "tests/data/deployment_schemas.json"
_KEPT = ("type", "enum", "minimum", "required", "pattern")
SERVER = LaunchedWorker(
    model="deepseek-ai/DeepSeek-V3",
    layout=Layout(tensor=4),
    role="",
    batch=64.0,
    chunk=8192.0,
    longest=8192,
    draft_tokens=0.0,
    quantise="fp8",
    cache="fp8",
    prefix_caching=True,
)
"""A server of one pool; the tests start from it as well."""
_TEXT = {"type": "string"}


def main() -> None:
    """Cut the published schemas down and write them."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    spec, values = (json.loads(Path(argument).read_text(encoding="utf-8")) for argument in sys.argv[1:])
    client = importlib.import_module("kubernetes.client")
    sources = {
        "compose.yaml": spec,
        "llm-d-values.yaml": values,
        "Deployment": client.V1Deployment.model_json_schema(by_alias=True),
        "Service": client.V1Service.model_json_schema(by_alias=True),
        "dynamo.yaml": _dynamo(client.V1Container.model_json_schema(by_alias=True)),
    }
    written = samples()
    cut = {name: _Cut(source).part(source, written[name]) for name, source in sources.items()}
    OUT.write_text(json.dumps(cut, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def samples() -> dict[str, list[Any]]:
    """Documents with all fields that are ever written, by schema."""
    h100, documents = catalogue.system("h100-sxm"), defaultdict[str, list[Any]](list)
    pools = [(replace(SERVER, role="prefill"), 1), (replace(SERVER, role="decode"), 1)]
    wide = [(replace(SERVER, layout=Layout(tensor=16)), 1)]
    for workers in ([(SERVER, 1)], [(SERVER, 2)], pools, wide):
        for file, text in deployment_files("sample", workers, h100).text.items():
            if file.endswith(".yaml"):
                for document in yaml.safe_load_all(text):
                    documents[document["kind"] if file == "kubernetes.yaml" else file].append(document)
    return documents


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _dynamo(container: dict[str, Any]) -> dict[str, Any]:
    service = _object(
        envFromSecret=_TEXT,
        componentType=_TEXT,
        subComponentType=_TEXT,
        replicas={"type": "integer", "minimum": 0},
        multinode=_object(nodeCount={"type": "integer", "minimum": 2}),
        resources=_object(limits=_object(gpu=_TEXT)),
        extraPodSpec=_object(
            mainContainer={key: part for key, part in container.items() if key not in ("$defs", "required")}
        ),
    )
    spec = _object(services={"type": "object", "additionalProperties": service})
    whole = _object(apiVersion=_TEXT, kind=_TEXT, metadata=_object(name=_TEXT), spec=spec)
    return whole | {"$defs": container["$defs"]}


@dataclass(frozen=True)
class _Cut:
    """A published schema, of which parts are taken."""

    root: dict[str, Any]

    def part(self, schema: Any, values: list[Any]) -> dict[str, Any]:
        """The parts of a schema that values use."""
        if schema is True or "$ref" in schema:
            return self._referred(schema, values)
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                branches = [(branch, [v for v in values if self._fits(v, branch)]) for branch in schema[choice]]
                return {"anyOf": [self.part(branch, fitting) for branch, fitting in branches if fitting]}
        cut = {key: schema[key] for key in _KEPT if schema.get(key)}
        objects = [value for value in values if isinstance(value, dict)]
        if objects:
            cut |= self._fields(schema, objects)
        items = [item for value in values if isinstance(value, list) for item in value]
        if items and isinstance(schema.get("items"), dict):
            cut["items"] = self.part(schema["items"], items)
        return cut

    def _referred(self, schema: Any, values: list[Any]) -> dict[str, Any]:
        if schema is True or not schema["$ref"].startswith("#/"):
            # The chart leaves Kubernetes' own parts to their definitions elsewhere.
            return {}
        target: Any = self.root
        for step in schema["$ref"][2:].split("/"):
            target = target[step]
        return self.part(target, values)

    def _fields(self, schema: dict[str, Any], objects: list[dict[str, Any]]) -> dict[str, Any]:
        """Properties by name; those of any name, as services and labels, as one."""
        known = schema.get("properties", {})
        named: dict[str, list[Any]] = defaultdict(list)
        others: list[Any] = []
        for key, value in (pair for entry in objects for pair in entry.items()):
            if key in known:
                named[key].append(value)
                continue
            others.append(value)
            if schema.get("additionalProperties", True) is False and self._pattern(schema, key) is None:
                sys.exit(f"{key} is no field: {', '.join(known)}")
        cut: dict[str, Any] = {"properties": {key: self.part(known[key], values) for key, values in named.items()}}
        rest = next((p for key in objects[0] if (p := self._pattern(schema, key)) is not None), None)
        rest = schema.get("additionalProperties", True) if rest is None else rest
        cut["additionalProperties"] = self.part(rest, others) if others else False
        return cut

    @staticmethod
    def _pattern(schema: dict[str, Any], key: str) -> Any:
        patterns = schema.get("patternProperties", {})
        return next((part for pattern, part in patterns.items() if re.search(pattern, key)), None)

    def _fits(self, value: Any, branch: dict[str, Any]) -> bool:
        definitions = {key: self.root[key] for key in ("definitions", "$defs") if key in self.root}
        return jsonschema.Draft202012Validator(branch | definitions).is_valid(value)


if __name__ == "__main__":
    main()
