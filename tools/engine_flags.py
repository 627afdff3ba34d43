r"""Read the flags that engines take out of their published wheels, by the syntax tree; nothing is imported or run.

pip download --no-deps --only-binary=:all: vllm==0.33.0 sglang==0.5.23 vllm-router==0.1.17 sglang-router==0.3.2 \
    ai-dynamo==1.6.1 -d WHEELS
python tools/engine_flags.py WHEELS     # 5 s

Writes tests/data/engine_flags.json: per command its version and every flag with what it takes: flag (nothing), int,
float, text, or the list of values; a flag that its engine has deprecated is said to be.
The tests parse every launch command against it.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "tests/data/engine_flags.json"
KINDS = {"int": "int", "float": "float", "bool": "flag", "str": "text"}
Takes = str | list[str]


class Wheel:
    """Modules of a wheel as syntax trees, and the literal types and lists that they define."""

    def __init__(self, folder: Path, name: str) -> None:
        path = max(folder.glob(f"{name}-[0-9]*.whl"), key=lambda p: p.stat().st_size)
        self.version = path.name.split("-")[1]
        self.zip = zipfile.ZipFile(path)

    def trees(self, *prefixes: str) -> list[ast.Module]:
        """Modules whose paths begin so."""
        names = [n for n in self.zip.namelist() if n.startswith(prefixes) and n.endswith(".py")]
        return [ast.parse(self.zip.read(name)) for name in sorted(names)]


def aliases(trees: list[ast.Module]) -> dict[str, ast.expr]:
    """Names that modules assign at their top: types and lists of choices."""
    known: dict[str, ast.expr] = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                known[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                known[node.target.id] = node.value
    return known


def values(node: ast.expr, known: dict[str, ast.expr]) -> Iterator[str]:
    """Texts that a literal type or a list of choices allows, through names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in known:
        yield from values(known[node.id], known)
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for part in node.elts:
            yield from values(part, known)
    elif isinstance(node, ast.Subscript):
        yield from values(node.slice, known)
    elif isinstance(node, ast.BinOp):
        yield from values(node.left, known)
        yield from values(node.right, known)


def takes(node: ast.expr | None, known: dict[str, ast.expr]) -> Takes:
    """What a flag of an annotated field takes."""
    if node is None:
        return "text"
    text = ast.unparse(node)
    if isinstance(node, ast.Name) and node.id in known and node.id not in KINDS:
        return takes(known[node.id], known)
    if "Literal" in text and "str" not in text.replace("Literal", ""):
        return list(dict.fromkeys(values(node, known))) or "text"
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if any(n in known and "Literal" in ast.unparse(known[n]) for n in names):
        return list(dict.fromkeys(values(node, known))) or "text"
    return next((KINDS[n] for n in ("float", "int", "bool", "str") if n in names), "text")


def fields_of(trees: list[ast.Module]) -> dict[str, dict[str, ast.expr]]:
    """Annotations of the fields of every class."""
    return {
        node.name: {
            part.target.id: part.annotation
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def calls(trees: list[ast.Module]) -> Iterator[tuple[list[str], ast.Call]]:
    """Calls of ``add_argument`` and the flags that they name; a prefix in an f-string is left out."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                names = [_text(a) for a in node.args]
                names += [_text(k.value) for k in node.keywords if k.arg == "flag_name"]
                if flags := [n for n in names if n.startswith("-")]:
                    yield flags, node


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
    return str(node.value) if isinstance(node, ast.Constant) else ""


def plain(node: ast.Call, known: dict[str, ast.expr]) -> Takes:
    """What a flag takes that is declared where it is added."""
    said = {k.arg: k.value for k in node.keywords if k.arg}
    if "action" in said and "Deprecated" in ast.unparse(said["action"]):
        return "deprecated"
    if "action" in said and "store" in ast.unparse(said["action"]) and "append" not in ast.unparse(said["action"]):
        return "flag"
    if "choices" in said:
        return list(dict.fromkeys(values(said["choices"], known))) or "text"
    kind = said.get("type") or said.get("arg_type")
    return KINDS.get(ast.unparse(kind), "text") if kind is not None else "text"


def vllm(folder: Path) -> dict[str, Any]:
    """``vllm serve``: groups of arguments that come from fields of its configuration classes."""
    wheel = Wheel(folder, "vllm")
    engine = wheel.trees("vllm/engine/arg_utils.py")
    front = wheel.trees("vllm/entrypoints/common/cli_args.py", "vllm/entrypoints/openai/cli_args.py")
    config = wheel.trees("vllm/config/", "vllm/model_executor/layers/quantization/__init__.py")
    known, classes = aliases([*config, *engine]), fields_of([*config, *engine, *front])
    groups: dict[str, str] = {}
    for tree in engine:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and "get_kwargs" in ast.unparse(node):
                groups[ast.unparse(node.targets[0])] = ast.unparse(node.value.args[0])
    flags: dict[str, Takes] = {}
    for names, node in calls([*engine, *front]):
        what = plain(node, known)
        for word in node.keywords:
            for part in ast.walk(word.value) if word.arg is None else ():
                if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
                    owner = classes.get(groups.get(ast.unparse(part.value), ""), {})
                    what = takes(owner.get(str(part.slice.value)), known)
        flags |= dict.fromkeys(names, what)
    for owner in ("BaseFrontendArgs", "FrontendArgs"):
        for field, annotation in classes.get(owner, {}).items():
            flags["--" + field.replace("_", "-")] = takes(annotation, known)
    # A switch of a configuration can be turned off as well.
    off = {"--no-" + name[2:]: "flag" for name, what in flags.items() if what == "flag" and name.startswith("--")}
    speculative = list(dict.fromkeys(values(known["SpeculativeMethod"], known)))
    fields = {
        "--speculative-config": sorted(classes["SpeculativeConfig"]),
        "--kv-transfer-config": sorted(classes["KVTransferConfig"]),
        "--eplb-config": sorted(classes["EPLBConfig"]),
    }
    return {
        "version": wheel.version,
        "flags": flags | off,
        "fields": fields,
        "speculative_methods": speculative,
        "environment": sorted(
            part.target.id
            for tree in wheel.trees("vllm/envs.py")
            for part in ast.walk(tree)
            if isinstance(part, ast.AnnAssign)
            and isinstance(part.target, ast.Name)
            and part.target.id.startswith("VLLM")
        ),
    }


def sglang(folder: Path) -> dict[str, Any]:
    """``sglang.launch_server``: annotated fields, with other names and choices in ``Arg``."""
    wheel = Wheel(folder, "sglang")
    trees = wheel.trees("sglang/srt/arg_groups/", "sglang/srt/server_args.py")
    known = aliases(trees)
    flags: dict[str, Takes] = {names[0]: plain(node, known) for names, node in calls(trees)}
    for fields in fields_of(wheel.trees("sglang/srt/arg_groups/fields/", "sglang/srt/server_args.py")).values():
        for field, annotation in fields.items():
            if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")):
                continue
            inner, *more = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            said: dict[str, ast.expr] = {}
            for part in more:
                if isinstance(part, ast.Call) and ast.unparse(part.func) == "Arg":
                    said = {k.arg: k.value for k in part.keywords if k.arg}
            if "no_cli" in said:
                continue
            name = "--" + field.replace("_", "-")
            if "cli_name" in said:
                name = next(values(said["cli_name"], known))
            what = list(dict.fromkeys(values(said["choices"], known))) if "choices" in said else takes(inner, known)
            other = list(values(said["aliases"], known)) if "aliases" in said else []
            flags |= dict.fromkeys([name, *other], what or "text")
    text = "\n".join(ast.unparse(tree) for tree in wheel.trees("sglang/srt/arg_groups/fields/spec.py"))
    builtin = text.split("Builtins: ")[1].split(". ")[0].split(", ")
    return {"version": wheel.version, "flags": flags, "speculative_algorithms": builtin}


def router(folder: Path, name: str, package: str) -> dict[str, Any]:
    """A router, whose flags are declared where they are added."""
    wheel = Wheel(folder, name)
    trees = wheel.trees(f"{package}/router_args.py", f"{package}/launch_router.py")
    flags = {flag: plain(node, aliases(trees)) for names, node in calls(trees) for flag in names}
    return {"version": wheel.version, "flags": flags}


def dynamo(folder: Path) -> dict[str, Any]:
    """``dynamo.vllm``: its own flags; all others are vLLM's."""
    wheel = Wheel(folder, "ai_dynamo")
    trees = wheel.trees("dynamo/vllm/backend_args.py", "dynamo/vllm/args.py", "dynamo/common/")
    flags: dict[str, Takes] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for word in node.keywords:
                    if word.arg == "flag_name" and isinstance(word.value, ast.Constant):
                        flags[str(word.value.value)] = plain(node, aliases(trees))
    modes = [
        str(part.value.value)
        for tree in trees
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef) and owner.name == "DisaggregationMode"
        for part in owner.body
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant)
    ]
    if modes:
        flags["--disaggregation-mode"] = modes
    return {"version": wheel.version, "flags": flags}


def main() -> None:
    """Read all wheels of a folder and write the data of the tests."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    # TensorRT-LLM's wheel is too large: its flags were read from tensorrt_llm/commands/serve.py at commit 00209af.
    read = {name: json.loads(OUT.read_text(encoding="utf-8"))[name] for name in ("trtllm-serve",)}
    found = {
        **read,
        "vllm": vllm(folder),
        "sglang": sglang(folder),
        "vllm-router": router(folder, "vllm_router", "vllm_router"),
        "sglang_router.launch_router": router(folder, "sglang_router", "sglang_router"),
        "dynamo.vllm": dynamo(folder),
    }
    for name, one in found.items():
        print(f"{name} {one['version']}: {len(one['flags'])} flags")
    OUT.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
