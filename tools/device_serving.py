"""Serve models with vLLM on an accelerator and load them: published rows are others', these are our own.

    python tools/device_serving.py MODELS OUT [--deadline 500] [--only NAME ...]      # on the accelerator

Every folder of MODELS holds a config.json; weights are random (``--load-format dummy``), and so are prompts, over a
tokenizer of one word per token that is written beside each config (``--prepare`` does that alone). Each model is
served once, with vLLM's defaults, and loaded by ``vllm bench serve`` itself: closed loops of several widths, a long
prompt, and two Poisson loads at parts of the throughput that the widest closed loop had. OUT gets ``results.jsonl``
(one line per load: what was asked, what came, mean power and clock meanwhile), ``NAME.log`` (vLLM's own lines) and
``NAME.metrics.txt`` (its exporter's). ``tools/own_serving.py`` compares with rackmath's answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PORT = 8000
MAX_MODEL_LEN = 20_000
SERVER = ("--load-format", "dummy", "--max-model-len", str(MAX_MODEL_LEN), "--port", str(PORT))
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
}
"""No network, and none of the kernels that the carried installation leaves out."""

CLOSED = (
    {"users": 1, "input": 1000, "output": 128, "requests": 4},
    {"users": 8, "input": 1000, "output": 128, "requests": 24},
    {"users": 32, "input": 1000, "output": 128, "requests": 96},
    {"users": 128, "input": 1000, "output": 128, "requests": 384},
    {"users": 256, "input": 200, "output": 256, "requests": 512},
    {"users": 1, "input": 16_000, "output": 16, "requests": 3},
)
"""Closed loops: users, tokens of a prompt and of an answer, requests in all."""
RATES = (0.5, 0.85)
"""Poisson loads of 1,000 and 128 tokens, as parts of what 128 users got."""
OPEN_SECONDS = 15.0
METRICS = "ttft,tpot,itl,e2el"


def main() -> None:
    """Serve and load one model after the other until the deadline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names of folders, in the order of their turns")
    parser.add_argument("--deadline", type=float, default=500.0, help="seconds after which no load is started")
    parser.add_argument("--prepare", action="store_true", help="write tokenizers and stop")
    asked = parser.parse_args()
    folders = [asked.models / name for name in asked.only or sorted(path.name for path in asked.models.iterdir())]
    if asked.prepare:
        for folder in folders:
            write_tokenizer(folder)
        return
    ends = time.monotonic() + asked.deadline
    asked.out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        if time.monotonic() > ends:
            print(f"{folder.name}: no time left", flush=True)
            continue
        try:
            with server(folder, asked.out / f"{folder.name}.log", ends):
                load(folder, asked.out, ends)
        except RuntimeError as error:
            print(f"{folder.name}: {error}", flush=True)


def write_tokenizer(folder: Path) -> None:
    """A word per token, so that the length of a random prompt is what was asked."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    words = config.get("vocab_size") or config["text_config"]["vocab_size"]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {f"w{word}": word for word in range(words)}, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0", "model_max_length": MAX_MODEL_LEN}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")


@contextmanager
def server(folder: Path, log: Path, ends: float) -> Iterator[None]:
    """A running vLLM of this model. Raises RuntimeError where it does not come up before the deadline."""
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(folder), *SERVER]
    start = time.monotonic()
    with log.open("wb") as lines:
        process = subprocess.Popen(
            command, stdout=lines, stderr=subprocess.STDOUT, env=os.environ | QUIET, start_new_session=True
        )
        try:
            while not healthy():
                if process.poll() is not None or time.monotonic() > ends:
                    tail = log.read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"vLLM did not start in {time.monotonic() - start:.0f} s: {tail}")
                time.sleep(0.25)
            print(f"{folder.name}: serves after {time.monotonic() - start:.0f} s", flush=True)
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def healthy() -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


def load(folder: Path, out: Path, ends: float) -> None:
    """All loads of one model, each a line of results.jsonl."""
    bench(folder, {"users": 8, "input": 500, "output": 16, "requests": 16}, seed=99)
    capacity = None
    for seed, asked in enumerate(CLOSED):
        if time.monotonic() > ends:
            break
        result = bench(folder, asked, seed)
        write(folder, out, asked, result)
        if asked["users"] == 128:
            capacity = result["request_throughput"]
    for seed, part in enumerate(RATES if capacity else ()):
        if time.monotonic() > ends:
            break
        rate = round(part * capacity, 2)
        asked = {"rate": rate, "input": 1000, "output": 128, "requests": max(round(rate * OPEN_SECONDS), 20)}
        write(folder, out, asked, bench(folder, asked, 10 + seed))
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
        (out / f"{folder.name}.metrics.txt").write_bytes(answer.read())


def bench(folder: Path, asked: dict[str, float], seed: int) -> dict[str, object]:
    """What ``vllm bench serve`` says of one load, with mean power and clock meanwhile."""
    from vllm.benchmarks import serve  # pyright: ignore[reportMissingImports]
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # pyright: ignore[reportMissingImports]

    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    words = ["--model", str(folder), "--port", str(PORT), "--dataset-name", "random", "--temperature", "0"]
    words += ["--random-input-len", asked["input"], "--random-output-len", asked["output"], "--seed", seed]
    words += ["--num-prompts", asked["requests"], "--percentile-metrics", METRICS, "--metric-percentiles", "50,90,99"]
    words += ["--disable-tqdm", "--ready-check-timeout-sec", "0"]
    words += ["--max-concurrency", asked["users"]] if "users" in asked else ["--request-rate", asked["rate"]]
    with board() as readings:
        result = asyncio.run(serve.main_async(parser.parse_args([str(word) for word in words])))
    busy = readings[len(readings) // 4 :] or readings
    means = [sum(column) / len(busy) for column in zip(*busy, strict=True)] if busy else [None, None]
    return result | {"seed": seed, "power": means[0], "clock": means[1]}


@contextmanager
def board() -> Iterator[list[tuple[float, float]]]:
    """Watts and MHz of the accelerator, four times a second."""
    readings: list[tuple[float, float]] = []
    command = ["nvidia-smi", "--query-gpu=power.draw,clocks.sm", "--format=csv,noheader,nounits", "-lms", "250"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def read() -> None:
        assert process.stdout is not None
        readings.extend(tuple(float(field) for field in line.split(",")) for line in process.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield readings
    finally:
        process.terminate()
        process.wait()
        reader.join()


def write(folder: Path, out: Path, asked: dict[str, float], result: dict[str, object]) -> None:
    """One line of results.jsonl and one to read."""
    lists = ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors", "start_times")
    kept = {name: value for name, value in result.items() if name not in lists}
    with (out / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"model": folder.name, "asked": asked, "result": kept}) + "\n")
    figures = {name: result[name] for name in ("completed", "duration", "median_ttft_ms", "median_tpot_ms", "power")}
    print(folder.name, asked, figures, flush=True)


if __name__ == "__main__":
    main()
