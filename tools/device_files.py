"""Time llama.cpp on an accelerator with files of many types: published rows are others', and few of them on servers.

    python tools/device_files.py prepare FILES.json                # here: tensors of each file, as rackmath mixes them
    python tools/device_files.py run FILES.json BENCH OUT.csv      # on the accelerator; BENCH is llama-bench

Files are written with random blocks of sane scales, one after the other, into memory; llama-bench times prompts and
tokens at two depths, and prompts of one to 2,048 tokens. OUT gets a line for each test, with the median, the least
and the most of its repeats in seconds. ``tools/own_files.py`` compares with rackmath's answers.
"""

from __future__ import annotations

import argparse
import csv
import json
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MODELS = {
    "llama-3.1-8b": (
        "q4_k_m", "q8_0", "f16", "iq2_xxs", "q6_k", "iq3_xxs", "q2_k", "iq4_xs", "q5_k_m", "q3_k_m", "q4_0", "iq1_s",
    ),
    "qwen3-30b-a3b": ("q4_k_m", "mxfp4_moe", "iq2_xxs", "q8_0", "iq3_xxs"),
}  # fmt: skip
COMMON = ("-r", "3", "-ngl", "99", "-fa", "on", "-lm", "none", "-o", "jsonl")
BENCHES = (
    ("-p", "512", "-n", "64", "-d", "0,8192"),
    ("-p", "1,2,4,8,16,32,64,128,256,2048", "-n", "0", "-b", "2048", "-ub", "2048"),
)
"""Options of llama-bench: prompts and tokens as users have them, and as many rows as a matrix may meet."""
COLUMNS = ("chip", "model", "type", "bytes", "prompt", "tokens", "depth", "ubatch", "median", "least", "most")
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18),
    "q8_0": (8, 32, 34), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "iq2_xxs": (16, 256, 66),
    "iq3_xxs": (18, 256, 98), "iq1_s": (19, 256, 50), "iq3_s": (21, 256, 110),
    "iq2_s": (22, 256, 82), "iq4_xs": (23, 256, 136), "mxfp4": (39, 32, 17),
}  # fmt: skip
"""Number of a type in files, elements of a block, bytes of it. Source: ``ggml.h``, ``ggml-common.h`` of llama.cpp."""
SCALES = {
    "q4_0": (0, 4.3e-3), "q8_0": (0, 2.7e-4), "q2_k": (80, 1.5e-3), "q3_k": (108, 4.7e-4),
    "q4_k": (0, 8e-5), "q5_k": (0, 4e-5), "q6_k": (208, 1.5e-5), "iq2_xxs": (0, 4e-4),
    "iq3_xxs": (0, 2e-4), "iq1_s": (0, 1.5e-3), "iq3_s": (0, 1e-4), "iq2_s": (0, 4e-4),
    "iq4_xs": (0, 1.6e-5),
}  # fmt: skip
"""Byte of a block at which its scale stands as a 16-bit float, and a scale that makes weights of about 0.02."""
MINIMA = {"q2_k": (82, 1.5), "q4_k": (2, 7.5), "q5_k": (2, 15.5)}
"""Byte at which the scale of the least values stands, where a type has them, over the other scale: the mean is zero."""
_STRING, _UINT32, _FLOAT32 = 8, 4, 6
_ALIGNMENT = 32


def main() -> None:
    """Prepare here, or run on the accelerator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("prepare", "run"))
    parser.add_argument("files", type=Path)
    parser.add_argument("bench", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    args = parser.parse_args()
    if args.step == "prepare":
        args.files.write_text(json.dumps(list(prepared())), encoding="utf-8")
        return
    with args.out.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        table.writeheader()
        for file in json.loads(args.files.read_text(encoding="utf-8")):
            table.writerows(timed(file, args.bench, args.folder))
            out.flush()


def prepared() -> Iterator[dict[str, Any]]:
    """Header and tensors of each file."""
    # The accelerator's machine has no rackmath: only this step needs it.
    from rackmath.io import catalogue
    from rackmath.models.counts import weight_format_of
    from rackmath.models.gguf import in_file
    from rackmath.models.weights import layer_weights, model_weights

    for model, types in MODELS.items():
        for type_ in types:
            a = in_file(catalogue.model(model), type_)
            tensors = [
                (OUTSIDE[w.name], shape(w), weight_format_of(a, None, w).name) for w in model_weights(a) if w.columns
            ]
            for i, layer in enumerate(a.layers):
                tensors += [
                    (f"blk.{i}.{INSIDE[w.name]}", shape(w), weight_format_of(a, layer, w).name)
                    for w in layer_weights(layer, a.hidden)
                    if w.columns
                ]
            yield {"model": model, "type": type_, "header": header(model, a), "tensors": tensors + norms(model, a)}


OUTSIDE = {"embed_tokens": "token_embd.weight", "lm_head": "output.weight"}
INSIDE = {
    "self_attn.q_proj": "attn_q.weight",
    "self_attn.k_proj": "attn_k.weight",
    "self_attn.v_proj": "attn_v.weight",
    "self_attn.o_proj": "attn_output.weight",
    "mlp.gate_proj": "ffn_gate.weight",
    "mlp.up_proj": "ffn_up.weight",
    "mlp.down_proj": "ffn_down.weight",
    "mlp.gate": "ffn_gate_inp.weight",
    "mlp.experts.gate_proj": "ffn_gate_exps.weight",
    "mlp.experts.up_proj": "ffn_up_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
}


def shape(weight: Any) -> list[int]:
    """Columns first, as files have it, and experts last."""
    return [int(weight.columns), int(weight.rows), *([weight.copies] if weight.role == "experts" else [])]


def norms(model: str, a: Any) -> list[tuple[str, list[int], str]]:
    """Norms, which the inventory counts together."""
    names = ["output_norm.weight"]
    names += [f"blk.{i}.{part}_norm.weight" for i in range(len(a.layers)) for part in ("attn", "ffn")]
    result = [(name, [a.hidden], "f32") for name in names]
    if model.startswith("qwen3"):
        width = a.layers[0].mixers[0].key_dim
        result += [
            (f"blk.{i}.attn_{part}_norm.weight", [width], "f32") for i in range(len(a.layers)) for part in ("q", "k")
        ]
    return result


def header(model: str, a: Any) -> dict[str, Any]:
    """Keys that llama.cpp asks of a model without a tokenizer."""
    family = "qwen3moe" if model.startswith("qwen3") else "llama"
    mixer, block = a.layers[0].mixers[0], a.layers[0].feed_forwards[0]
    keys = {
        "vocab_size": a.vocabulary,
        "context_length": 40_960,
        "embedding_length": a.hidden,
        "block_count": len(a.layers),
        "feed_forward_length": block.width,
        "attention.head_count": mixer.query_heads,
        "attention.head_count_kv": mixer.kv_heads,
        "attention.key_length": mixer.key_dim,
        "attention.value_length": mixer.value_dim,
        "rope.dimension_count": mixer.key_dim,
        "rope.freq_base": 1e6,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    if family == "qwen3moe":
        keys |= {
            "expert_count": block.experts,
            "expert_used_count": block.active,
            "expert_feed_forward_length": block.width,
        }
    return {"general.architecture": family, "tokenizer.ggml.model": "none"} | {
        f"{family}.{name}": value for name, value in keys.items()
    }


def timed(file: Mapping[str, Any], bench: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Tests of one file, which is removed behind them."""
    path = folder / f"{file['model']}-{file['type']}.gguf"
    try:
        with path.open("wb") as out:
            write(out, file["header"], file["tensors"])
        for options in BENCHES:
            run = subprocess.run(
                [bench, "-m", path, *options, *COMMON], stdout=subprocess.PIPE, encoding="utf-8", check=True
            )
            yield from (row(file, json.loads(line)) for line in run.stdout.splitlines() if line.startswith("{"))
    finally:
        path.unlink(missing_ok=True)


def row(file: Mapping[str, Any], test: Mapping[str, Any]) -> dict[str, Any]:
    """One test as a line of the table."""
    least, median, most = (nanoseconds / 1e9 for nanoseconds in sorted(test["samples_ns"]))
    return {
        "chip": test["gpu_info"],
        "model": file["model"],
        "type": file["type"],
        "bytes": test["model_size"],
        "prompt": test["n_prompt"],
        "tokens": test["n_gen"],
        "depth": test["n_depth"],
        "ubatch": test["n_ubatch"],
        "median": median,
        "least": least,
        "most": most,
    }


def write(out: BinaryIO, header: Mapping[str, Any], tensors: list[tuple[str, list[int], str]]) -> None:
    """A GGUF file. Source: docs/gguf.md of ggml."""
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(header)))
    for key, value in header.items():
        out.write(text(key))
        if isinstance(value, str):
            out.write(struct.pack("<I", _STRING) + text(value))
        else:
            number = isinstance(value, int)
            out.write(struct.pack("<II" if number else "<If", _UINT32 if number else _FLOAT32, value))
    offset = 0
    for name, dimensions, type_ in tensors:
        number, elements, size = TYPES[type_]
        out.write(text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, number, offset))
        length = int(np.prod(dimensions)) // elements * size
        offset += length + -length % _ALIGNMENT
    out.write(bytes(-out.tell() % _ALIGNMENT))
    tiles = {type_: tile(type_) for type_ in {t for _, _, t in tensors}}
    for _, dimensions, type_ in tensors:
        _, elements, size = TYPES[type_]
        length = int(np.prod(dimensions)) // elements * size
        for start in range(0, length, len(tiles[type_])):
            out.write(tiles[type_][: min(len(tiles[type_]), length - start)])
        out.write(bytes(-length % _ALIGNMENT))


def tile(type_: str, blocks: int = 1 << 18) -> bytes:
    """Blocks of random weights of about 0.02, which a tensor repeats."""
    random = np.random.default_rng(7)
    if type_ in ("f32", "f16"):
        return random.normal(1.0 if type_ == "f32" else 0.0, 0.02, blocks).astype(f"<f{TYPES[type_][2]}").tobytes()
    data = random.integers(0, 256, (blocks, TYPES[type_][2]), dtype=np.uint8)
    if type_ == "mxfp4":
        data[:, 0] = 127 - 7  # The block's exponent: 2 ** -7 of values from 0 to 6.
        return data.tobytes()
    place, scale = SCALES[type_]
    data[:, place : place + 2] = np.frombuffer(np.float16(scale).tobytes(), dtype=np.uint8)
    if type_ in MINIMA:
        place, factor = MINIMA[type_]
        data[:, place : place + 2] = np.frombuffer(np.float16(factor * scale).tobytes(), dtype=np.uint8)
    return data.tobytes()


def text(value: str) -> bytes:
    """Length and bytes of a string."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


if __name__ == "__main__":
    main()
