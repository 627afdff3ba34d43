"""Put hostile input to everything that reads any, and print what breaks.

    python tools/fuzz.py                             # 100,000 cases over all surfaces
    python tools/fuzz.py --surface lines --seed 7    # one surface, other cases
    python tools/fuzz.py --surface lines --only 4711 # one case again

Every case is made from the seed and its number. It breaks where it ends in a traceback, takes ten seconds of a
processor, exits with another status than 0 and 2, refuses in more than one line, writes nan or inf, warns on standard
error, or takes more than a gibibyte of memory. The exit status is 1 if any did.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import click

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

SURFACES = {"lines": 0.32, "options": 0.03, "configs": 0.35, "files": 0.2, "addresses": 0.1}
"""What reads input, and its part of the cases."""
LONGEST = 10
"""Time of an idle desktop processor that one case may take; of a slower or busier one, as much more. [s]"""
_MILLION = 0.03
"""Time in which such a processor adds a million numbers in Python. [s]"""
_CLOCK = 60
"""Time by the clock that it may take. [s]"""
MOST_MEMORY = 2**30
"""That one case may add. [B]"""
PLAUSIBLE = ("0", "0.5", "1", "2", "16", "1000")
"""Numbers that a user may well type."""
CHUNK = 100
PARTS = 2

HOSTILE = (
    "", " ", "nan", "NaN", "inf", "-inf", "-1", "0", "-0", "1e-320", "1e-300", "1e300", "1e400", "9" * 400,
    str(2**63), str(-(2**63) - 1), "0x10", "1_000", "1,5", "٣", "½", "1e3", "2x", "-2x", "nanx", "0x", "8k", "1e18",
    "50ms", "-5ms", "20tok/s", "0tok/s", "64GB", "-1GB", "1/0", "a" * 300, "a" * 5000, "\n", "\u202e",
    "\U0001f600", "\udc80", "../../etc/passwd", "/dev/null", "/dev/full", "/proc/self/mem", "/", ".", "..", "-", "--",
    "tp0", "tp-1", "tp1e9", "tp8,tp8", "tp8,ep8,pp1,dp1", "tp7", "dp1000000000", "{", "[]", "null", "true",
    "llama-3.1-8b[layers=1000000000]", "llama-3.1-8b[hidden=-1]", "h100-sxm[bandwidth=0x]", "h100-sxm[power_cap=1W]",
    "h100-sxm,h200-sxm", "bandwidth=2x", "model.layers=1e9", "fp8", "q4_k_m", "vllm", "2026-13-45", "2026-11-21",
    "1:2:1000000000000", "1:1024:5", "1..2", "=", "a=b", "=1",
)  # fmt: skip
SLOW = (
    "plan",
    "compare",
    "explore",
    "fit",
    "modes",
    "simulate",
    "fleet",
    "sweep",
    "page",
    "report",
    "trend",
    "decode",
    "evidence",
)
"""Words of commands that take more than a moment: one case in twenty is theirs."""
LEFT_OUT = ("board", "lab", "calibrate")
"""They serve, measure this machine, or run for minutes."""
NONSENSE = re.compile(r"(?<![\w./-])(?<!to )[-+]?(?:nan|inf|infinity)(?![\w/-])", re.IGNORECASE)
"""Numbers that are none; a claim of the lecture reaches "to infinity" in words."""
PROGRESS = re.compile(r"(?:simulate: [\d,]+ requests|plan: [\d,]+ configurations) in |wrote ")


class Hang(BaseException):
    """A case took too long."""


def main() -> None:
    """Run cases in processes, print those that break."""
    parser = argparse.ArgumentParser(description="hostile input for everything that reads any")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--surface", choices=tuple(SURFACES))
    parser.add_argument("--only", type=int, help="number of one case, with --surface")
    asked = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    surfaces = {asked.surface: 1.0} if asked.surface else SURFACES
    if asked.only is not None:
        if not asked.surface:
            parser.error("--only needs --surface")
        print(*(chunk(asked.surface, asked.seed, range(asked.only, asked.only + 1)) or ["nothing breaks"]), sep="\n")
        return
    jobs = [
        (surface, asked.seed, range(first, min(first + CHUNK, int(asked.cases * part))))
        for surface, part in surfaces.items()
        for first in range(0, int(asked.cases * part), CHUNK)
    ]
    done: Counter[str] = Counter()
    breaks = 0
    began = time.monotonic()
    with ProcessPoolExecutor(PARTS, max_tasks_per_child=20) as pool:
        running = {pool.submit(chunk, *job): job for job in jobs}
        for ended in as_completed(running):
            surface, _, numbers = running[ended]
            try:
                broken = ended.result()
            except Exception as error:
                broken = [f"{surface} {numbers}: the process died: {error!r}"]
            breaks += len(broken)
            done[surface] += len(numbers)
            for line in broken:
                print(line, flush=True)
            if sys.stderr.isatty():
                print(f"\r{sum(done.values()):,} cases, {breaks} break", end="", file=sys.stderr, flush=True)
    took = time.monotonic() - began
    print(f"{sum(done.values()):,} cases in {took:.0f} s ({dict(done)}), seed {asked.seed}: {breaks} break")
    sys.exit(1 if breaks else 0)


def chunk(surface: str, seed: int, numbers: range) -> list[str]:
    """Run some cases of a surface in a folder of their own, and describe those that break."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RACKMATH_DATA"] = folder
        os.environ["HOME"] = folder
        os.chdir(folder)
        return [f"{surface} {number}: {broken}" for number, broken in cases(surface, seed, numbers) if broken]


def cases(surface: str, seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """Number of each case and what broke, empty where nothing did."""
    surfaces = {"lines": line, "options": option, "configs": config, "files": file, "addresses": address}
    run: Callable[[Random], str] = surfaces[surface]
    warnings.simplefilter("always")
    longest = LONGEST * _slowness()
    for number in numbers:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        worked, begun = time.thread_time(), time.monotonic()
        signal.signal(signal.SIGALRM, partial(_stop, longest, worked, begun))
        signal.setitimer(signal.ITIMER_REAL, longest, longest / 10)
        try:
            broken = run(Random(f"{surface} {seed} {number}"))
        except Hang:
            # The alarm repeats, and writing what was going on takes a while on a busy machine.
            signal.setitimer(signal.ITIMER_REAL, 0)
            broken = f"takes more than {longest:.0f} seconds: " + _where()
        except Exception:
            broken = "traceback: " + traceback.format_exc(limit=-3).replace("\n", " | ")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.thread_time() - worked
        if took > longest and not broken:
            # What the alarm raises is lost where Python is in the middle of something that nothing may leave.
            broken = f"takes {took:.0f} seconds"
        added = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        yield number, broken or (f"takes {added / 2**20:.0f} MiB" if added > MOST_MEMORY else "")


def _slowness() -> float:
    """How much longer this machine, as busy as it is, takes for a million additions than an idle desktop processor."""
    begun, total = time.thread_time(), 0
    for number in range(1_000_000):
        total += number
    return max((time.thread_time() - begun) / _MILLION, 1.0)


def _stop(longest: float, worked: float, begun: float, *_: Any) -> None:
    """End a case that has worked too long; one that waits for a processor goes on, for a minute.

    Parameters
    ----------
    longest : float
        Time that it may work. [s]
    worked, begun : float
        Time that its thread had worked, and time by the clock, when the case began. [s]
    """
    if time.thread_time() - worked >= longest or time.monotonic() - begun >= max(_CLOCK, longest):
        raise Hang


def _where() -> str:
    return traceback.format_exc(limit=-2).replace("\n", " | ")


def typed(words: list[str]) -> str:
    """What breaks when a line is typed; empty where nothing does."""
    from rackmath.cli.app import main as command_line

    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    shown = shlex.join(words)[:600]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command_line(words)
    except SystemExit as ended:
        status = ended.code
    except Hang:
        raise
    except BaseException:
        return f"{shown}: traceback: " + traceback.format_exc(limit=-3).replace("\n", " | ")
    said = [text for text in err.getvalue().splitlines() if text.strip() and not PROGRESS.match(text)]
    if status not in (0, 2, None):
        return f"{shown}: exit status {status}"
    if status == 2 and len(said) != 1:
        return f"{shown}: refused in {len(said)} lines: {said[:3]}"
    if status in (0, None) and said:
        return f"{shown}: warns: {said[:2]}"
    nonsense = NONSENSE.search(out.getvalue())
    if status in (0, None) and nonsense and not NONSENSE.search(shown):
        return f"{shown}: writes {out.getvalue()[max(nonsense.start() - 60, 0) : nonsense.end() + 20]!r}"
    return ""


@lru_cache(maxsize=1)
def examples() -> tuple[list[tuple[list[str], click.Command]], list[tuple[list[str], click.Command]]]:
    """The worked example of every command, with the command: quick ones and slow ones."""
    from rackmath.cli.app import cli

    context = click.Context(cli)
    quick: list[tuple[list[str], click.Command]] = []
    slow: list[tuple[list[str], click.Command]] = []

    def walk(command: click.Command) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                if name not in LEFT_OUT:
                    child = command.get_command(context, name)
                    assert child is not None
                    walk(child)
        text = (command.epilog or "").partition("Example: rackmath ")[2].partition("   (")[0]
        words = shlex.split(text)
        if words and words[0] not in LEFT_OUT:
            (slow if any(word in SLOW for word in words[:2]) else quick).append((words, command))

    walk(cli)
    return quick, slow


def line(random: Random) -> str:
    """A worked example with some of its words changed."""
    quick, slow = examples()
    words, command = random.choice(slow if random.random() < 0.05 else quick)
    words = list(words)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(words))
        kind = random.random()
        if kind < 0.45:
            words[at] = value(random)
        elif kind < 0.55:
            del words[at]
        else:
            options = [p for p in command.params if isinstance(p, click.Option)]
            if options:
                option = random.choice(options)
                words.append(
                    random.choice(option.opts) if option.is_flag else f"{random.choice(option.opts)}={value(random)}"
                )
        if not words:
            break
    # Pages of the board and folders of a grid are not what is tried here.
    if words and words[0] in LEFT_OUT:
        return ""
    return typed(words)


@lru_cache(maxsize=1)
def golden() -> list[tuple[list[str], click.Command]]:
    """The lines whose answers are kept, with the commands that they are of."""
    from rackmath.cli.app import cli

    context = click.Context(cli)
    result: list[tuple[list[str], click.Command]] = []
    for text in (ROOT / "tests/golden/commands.txt").read_text(encoding="utf-8").splitlines():
        words, command = shlex.split(text, comments=True), cli
        for word in words:
            child = command.get_command(context, word) if isinstance(command, click.Group) else None
            if child is None:
                break
            command = child
        if words and words[0] not in LEFT_OUT:
            result.append((words, command))
    return result


EXPLORED = ("estimate", "plan", "train", "memory")
"""Commands whose answers ``explore`` follows."""


def option(random: Random) -> str:
    """A line that is answered, with plausible values of up to three options: those that they name, or numbers."""
    quick, slow = examples()
    part = random.random()
    words, command = random.choice(golden() if part < 0.5 else slow if part < 0.55 else quick)
    parameters = [p for p in command.params if isinstance(p, click.Option) and p.name != "help"]
    for parameter in random.sample(parameters, min(len(parameters), random.choice((1, 1, 2, 3)))):
        values, name = plausible(parameter), parameter.opts[0]
        if not values:
            continue
        change = [name, *random.choice(values)]
        if name in words:
            at = words.index(name)
            words = words[:at] + words[at + len(change) :]
        words = [*words, *change]
    if words[0] in EXPLORED and random.random() < 0.05:
        words = ["explore", *(word for word in words if word != "--json")]
    return typed(words)


def plausible(parameter: click.Option) -> list[tuple[str, ...]]:
    """What may stand behind an option: nothing for a flag, and nothing at all for text and files."""
    if parameter.is_flag:
        return [()]
    if isinstance(parameter.type, click.Choice):
        return [(choice,) for choice in parameter.type.choices]
    if isinstance(parameter.type, click.IntRange):
        return [(text,) for text in PLAUSIBLE]
    kind = getattr(parameter.type, "kind", None)
    return [] if kind is None or kind.name in ("text", "path") else [(text,) for text in PLAUSIBLE]


def value(random: Random) -> str:
    """A hostile word, or a number of any size."""
    if random.random() < 0.6:
        return random.choice(HOSTILE)
    number = 10 ** random.uniform(-6, 12) * random.choice((1, 1, 1, -1))
    return random.choice((f"{number:.0f}", f"{number:.6g}"))


@lru_cache(maxsize=1)
def configs() -> list[dict[str, Any]]:
    """Configs of the catalogue."""
    data = ROOT / "src/rackmath/data/models"
    return [
        json.loads(path.read_text())["config"]
        for path in sorted(data.glob("*.json"))
        if "config" in json.loads(path.read_text())
    ]


def config(random: Random) -> str:
    """A config with some of its places changed: counted, and a pass of it estimated."""
    from tests.mutations import mutate

    from rackmath.api.model import model_facts
    from rackmath.engine import Layout, estimate
    from rackmath.errors import RackmathError
    from rackmath.io import catalogue
    from rackmath.models.config import read_config

    changed = mutate(random.choice(configs()), random)
    try:
        model = read_config(changed)
        facts = model_facts(model)
        step = estimate(model, catalogue.system("h200-sxm"), Layout(tensor=2), batch=8, context=1000)
    except RackmathError as error:
        return f"refused in two lines: {error}" if "\n" in str(error) else ""
    numbers = [facts[key] for key in ("total_params", "active_params", "kv_bytes_per_token", "weight_bytes")]
    wrong = [n for n in (*numbers, float(step.time)) if not isfinite(n) or n < 0]
    return f"nonsense {wrong} of {json.dumps(changed)[:300]}" if wrong else ""


@lru_cache(maxsize=1)
def templates() -> list[tuple[str, str, list[str]]]:
    """Name and text of a file, and the line that reads it as ``FILE``."""
    from rackmath.cli.app import main as command_line
    from rackmath.io.traces import read_trace
    from rackmath.io.traffic_files import traffic_text
    from rackmath.serving.traffic import fit_traffic

    rows = (ROOT / "tests/data/rows.csv").read_text().splitlines()
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        command_line(["systems", "h100-sxm", "--toml"])
    model = json.dumps(configs()[0])
    trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n2023-11-16 18:17:04.03,3180,8\n"
    lines = '{"timestamp": 0, "input_length": 67, "output_length": 5, "hash_ids": [0, 1]}\n' * 3
    one = ["llama-3.1-8b", "--gpus", "1", "--on"]
    where = ["--set", "model=llama-3.1-8b", "--set", "hardware=h100-sxm", "--set", "n_gpus=1"]
    data = ROOT / "tests/data"
    usage, metrics, run = ((data / name).read_text() for name in ("usage.jsonl", "metrics.txt", "run.json"))
    sent = json.dumps({"start_times": [0.5, 1.5, 2.5], "input_lens": [64, 512, 9], "output_lens": [10, 0, 30]})
    lengths = {"input_sequence_length": {"value": 55}, "output_sequence_length": {"value": 9}}
    aiperf = f"{json.dumps({'metadata': {'request_start_ns': 17_000_000_000}, 'metrics': lengths})}\n" * 3
    traffic = traffic_text(fit_traffic(read_trace(data / "trace.csv")[0]), "trace.csv")
    return [
        ("rows.csv", "\n".join([rows[0], *rows[5:9]]), ["predict", "FILE", "--out", "out.csv"]),
        ("system.toml", out.getvalue(), ["estimate", *one, "FILE", "--batch", "1", "--context", "99"]),
        ("config.json", model, ["model", "FILE", "--json"]),
        ("trace.csv", trace, ["simulate", *one, "h100-sxm", "--trace", "FILE"]),
        ("trace.jsonl", lines, ["simulate", *one, "h100-sxm", "--trace", "FILE"]),
        ("sent.json", sent, ["simulate", *one, "h100-sxm", "--trace", "FILE"]),
        ("sent.jsonl", aiperf, ["simulate", *one, "h100-sxm", "--trace", "FILE"]),
        ("fit.csv", (data / "trace.csv").read_text(), ["traffic", "fit", "FILE", "--out", "fitted.toml"]),
        ("traffic.toml", traffic, ["simulate", *one, "h100-sxm", "--trace", "FILE", "--requests", "50"]),
        ("usage.jsonl", usage, ["prices", "agent", "--log", "FILE", "--date", "2026-11-21"]),
        ("metrics.txt", metrics, ["evidence", "add", "--prometheus", "FILE", *where]),
        ("run.json", run, ["evidence", "add", "FILE", *where]),
    ]


def file(random: Random) -> str:
    """A file with some of its bytes, numbers or lines changed, read by its command."""
    name, text, words = random.choice(templates())
    data = text.encode()
    for _ in range(random.randint(1, 4)):
        data = damaged(data, random)
    Path(name).write_bytes(data)
    broken = typed([name if word == "FILE" else word for word in words])
    return f"{broken} with {data[:400]!r}" if broken else ""


def damaged(data: bytes, random: Random) -> bytes:
    """Bytes with one change."""
    at = random.randrange(len(data) + 1)
    kind = random.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]
    if kind == 2:
        return data[:at] + data[at + random.randint(1, 40) :]
    if kind == 3:
        lines = data.splitlines(keepends=True)
        random.shuffle(lines)
        return b"".join(lines)
    numbers = list(re.finditer(rb"-?\d+\.?\d*(?:e[-+]?\d+)?", data))
    cells = numbers if kind == 4 else list(re.finditer(rb"[A-Za-z_]+", data))
    if not cells:
        return data
    cell = random.choice(cells)
    return data[: cell.start()] + value(random).encode("utf-8", "surrogatepass") + data[cell.end() :]


@lru_cache(maxsize=1)
def board() -> tuple[Any, list[tuple[str, list[str]]]]:
    """A client of the pages, and their quick questions with their fields."""
    from fastapi.testclient import TestClient

    from rackmath.web.app import create_app
    from rackmath.web.pages import views

    quick = [(name, list(view.inputs.model_fields)) for name, view in views().items() if not view.heavy]
    return TestClient(create_app(1, longest=5.0), base_url="http://127.0.0.1"), quick


def address(random: Random) -> str:
    """A question of a page with hostile values."""
    client, quick = board()
    name, fields = random.choice(quick)
    names = (*fields, "nothing")
    query = {
        random.choice(names): value(random) + random.choice(("", "", "", "\x00")) for _ in range(random.randint(1, 3))
    }
    path = random.choice((f"/api/{name}", f"/api/{name}", f"/still/{name}.svg"))
    try:
        answered = client.get(path, params=query)
    except UnicodeEncodeError:
        return ""
    if answered.status_code >= 500:
        return f"{path} {query}: status {answered.status_code}"
    if path.startswith("/api") and answered.status_code == 200 and re.search(r"\b(NaN|Infinity)\b", answered.text):
        return f"{path} {query}: NaN in the answer"
    return ""


if __name__ == "__main__":
    main()
