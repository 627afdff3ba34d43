"""Dependencies: what each is for and weighs, tests with the lowest and the newest versions, a bill of materials.

python tools/supply.py weights                               write docs/dependencies.md
python tools/supply.py tests --versions lowest               the quick tests with the lowest versions that are allowed
python tools/supply.py tests --versions newest --python python3.13
python tools/supply.py bill --out rackmath.cdx.json          all that `pip install rackmath` brings (CycloneDX)

Each works in a virtual environment of its own, which is removed. The lowest versions are found by uv; where packages
do not come from PyPI, name the index in UV_INDEX_URL as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/dependencies.md"
REASONS = {
    "click": "commands, options and their help",
    "fsrs": "intervals of the quiz, as Anki computes them",
    "genai-prices": "price pages of providers, with their history",
    "matplotlib": "pictures as files (`--plot FILE.svg`, `.png`) without a browser, which Plotly needs for them",
    "numba": "machine code of the simulator: 10^6 requests in a second",
    "numpy": "arrays",
    "platformdirs": "where Linux, macOS and Windows keep data and caches",
    "plotly": "pictures that move (`--plot FILE.html`, `--html`, the board, notebooks)",
    "polars": "tables of measurements, traces and sweeps: CSV, JSON lines and Parquet",
    "prometheus-client": "metrics of a running server as it prints them",
    "pydantic": "requests: one declaration of fields for commands, Python and the board",
    "pyyaml": "deployment files for Kubernetes, llm-d and Dynamo",
    "regex": "patterns of configs with a limit on their time, which the standard library has not",
    "rich": "tables and progress in a terminal",
    "sympy": "the lecture's equations: each solved for each of its symbols, with units",
}
"""Of each direct dependency."""
EXTRAS = {
    "web": "the board",
    "notebook": "widgets in Jupyter and marimo",
    "lab": "experiments on the machine at hand (PyTorch)",
    "bayes": "prices of all providers in one posterior (NumPyro)",
    "scale": "sweeps over several machines (Ray)",
}
_TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis", "httpx", "jsonschema", "nbclient", "ipykernel")
_WITHOUT = (
    "--ignore=tests/lab",
    "--ignore=tests/web",
    "--ignore=tests/cli/test_lab_tables.py",
    "--ignore=tests/training/test_torch_orders.py",
    "--deselect=tests/cli/test_commands.py::test_every_command_has_help_with_a_worked_example_that_runs[lab]",
)
"""Tests of PyTorch and of browsers, which bring gigabytes and have no part in what is asked."""
_QUICK = "not long and not slow and not benchmark"
_SIZES = """
import json, re, importlib.metadata as metadata
def plain(name):
    return re.match(r"[A-Za-z0-9._-]+", name)[0].lower().replace("_", "-")
print(json.dumps({
    plain(dist.metadata["Name"]): {
        "bytes": sum(file.size or 0 for file in dist.files or () if file.suffix != ".pyc"),
        "version": dist.version,
        "needs": [plain(text) for text in dist.requires or () if "extra ==" not in text],
    }
    for dist in metadata.distributions()
}))
"""
"""Run by the Python of an environment: what is installed there, without compiled copies."""
_TEXT: dict[str, Any] = {"check": True, "text": True, "stdout": subprocess.PIPE}


def environment(folder: str, python: str) -> Path:
    """A new virtual environment's Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    return Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def install(python: Path, *what: str, constraints: Path | None = None) -> None:
    """Install packages, or this one with extras, under constraints or without."""
    limits = () if constraints is None else ("-c", str(constraints))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", *what, *limits], check=True, cwd=ROOT)


def lowest(folder: str, python: Path) -> Path:
    """A file of constraints with the lowest versions of direct dependencies that go together, by uv."""
    install(python, "uv")
    path = Path(folder) / "lowest.txt"
    words = ["pip", "compile", "pyproject.toml", "--extra", "notebook", "--resolution", "lowest-direct"]
    version = subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"], **_TEXT
    ).stdout.strip()
    listed = subprocess.run([python.with_name("uv"), *words, "--python-version", version], cwd=ROOT, **_TEXT).stdout
    path.write_text("\n".join(line for line in listed.splitlines() if "==" in line), encoding="utf-8")
    return path


def tests(versions: str, python: str) -> int:
    """Exit status of the quick tests on an installed wheel."""
    with tempfile.TemporaryDirectory() as folder:
        runner = environment(f"{folder}/venv", python)
        constraints = lowest(folder, runner) if versions == "lowest" else None
        install(runner, ".[notebook]", *_TEST_TOOLS, constraints=constraints)
        # What a version of tomorrow deprecates is printed; it does not fail today.
        words = ["-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "-m", _QUICK, "-o", "filterwarnings=default"]
        return subprocess.run([runner, *words, *_WITHOUT, "tests"], cwd=ROOT, check=False).returncode


def weights() -> None:
    """Write the page of dependencies with the sizes of an installation of today."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(f"{folder}/venv", sys.executable)
        install(python, ".")
        packages: dict[str, Any] = json.loads(subprocess.run([python, "-c", _SIZES], **_TEXT).stdout)
    reached = {name: _reached(packages, name) for name in REASONS}
    alone: dict[str, float] = {}
    for name, names in reached.items():
        others = set[str]().union(*(reached[other] for other in reached if other != name))
        alone[name] = sum(packages[package]["bytes"] for package in (names - others) | {name})
    rows = [
        f"| {name} | {packages[name]['version']} | {_megabytes(size)} | {REASONS[name]} |"
        for name, size in sorted(alone.items(), key=lambda pair: -pair[1])
    ]
    total = sum(packages[name]["bytes"] for name in _reached(packages, "rackmath"))
    PAGE.write_text(_PAGE.format(
        total=_megabytes(total), own=_megabytes(packages["rackmath"]["bytes"]), rows="\n".join(rows),
        extras="\n".join(f"- `{name}`: {reason}" for name, reason in EXTRAS.items()),
    ), encoding="utf-8")  # fmt: skip


def _reached(packages: dict[str, Any], name: str) -> set[str]:
    """A package and all that it needs, of what is installed."""
    names, ahead = set[str](), [name]
    while ahead:
        package = ahead.pop()
        if package in packages and package not in names:
            names.add(package)
            ahead += packages[package]["needs"]
    return names


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.1f}"


_PAGE = """# Dependencies

Generated by `python tools/supply.py weights`. `pip install rackmath` takes {total} MB without compiled copies of
modules; rackmath's own are {own} of them, catalogue and fitted constants included. Sizes are in MB, with what a package
alone brings:

| package | version | MB | what it is for |
|---|---|---|---|
{rows}

The target of 250 MB in all is not met: LLVM behind numba and the engine of polars alone are more. One module imports
numba, which could become an extra; polars is under every table.

Extras bring what not everybody needs:

{extras}

## Versions

`constraints.txt` names the versions that CI runs. Others are tried by a command, each in an environment of its own:

    python tools/supply.py tests --versions lowest
    python tools/supply.py tests --versions newest --python python3.13

The first runs the quick tests with the lowest versions that `pyproject.toml` allows, the second with the newest, on
another Python. Both install a wheel, not the repository.

A bill of materials in CycloneDX's format, for those who have to keep one:

    python tools/supply.py bill --out rackmath.cdx.json
"""


def bill(out: Path) -> None:
    """Write a bill of materials of an installation of today."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(f"{folder}/venv", sys.executable)
        install(python, ".")
        tool = environment(f"{folder}/tool", sys.executable)
        install(tool, "cyclonedx-bom")
        beside = out.with_name(f"{out.name}.part")
        words = ["environment", str(python), "--pyproject", "pyproject.toml", "-o", str(beside.resolve())]
        subprocess.run([tool.with_name("cyclonedx-py"), *words], cwd=ROOT, check=True)
        beside.replace(out)


def main() -> None:
    """Do what the first word says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("weights")
    tried = commands.add_parser("tests")
    tried.add_argument("--versions", choices=("lowest", "newest"), required=True)
    tried.add_argument("--python", default=sys.executable, help="of which version")
    commands.add_parser("bill").add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "tests":
        sys.exit(tests(arguments.versions, arguments.python))
    if arguments.command == "weights":
        weights()
    else:
        bill(arguments.out)


if __name__ == "__main__":
    main()
