"""Five configs that the counts had not seen, exact; sizes in names as a guard; weights that engines loaded."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.cache import kv_bytes_per_token, kv_window_bytes_per_token, state_elements
from rackmath.models.config import read_config
from rackmath.models.counts import active_params, embedding_params, encoder_params, total_params, weight_bytes
from rackmath.models.stated_size import size_warnings, stated_sizes
from tests.conftest import SHARED


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


FOLDER = SHARED / "model-configs-added"
STARTS = SHARED / "measured/vllm_memory_startup.csv"
ROWS = read(FOLDER / "truth.csv") if FOLDER.exists() else []
GIB = 2.0**30

# A pure Mamba, as small as can be: 3 layers of 8, an inner width that its expansion contradicts.
MAMBA = {
    "model_type": "falcon_mamba", "hidden_size": 8, "expand": 16, "intermediate_size": 16, "state_size": 4,
    "time_step_rank": 2, "conv_kernel": 4, "num_hidden_layers": 3, "vocab_size": 10, "tie_word_embeddings": False,
    "use_bias": False, "use_conv_bias": True,
}  # fmt: skip
LING = {
    "model_type": "bailing_hybrid", "hidden_size": 16, "num_attention_heads": 2, "head_dim": 4, "kv_lora_rank": 8,
    "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "num_hidden_layers": 4, "layer_group_size": 2,
    "kda_safe_gate": True, "short_conv_kernel_size": 4, "vocab_size": 10, "intermediate_size": 32,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.skipif(not ROWS, reason="../shared/model-configs-added is not here")
@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_counts_are_what_transformers_allocates(row: dict[str, str]) -> None:
    a = catalogue.model(str(FOLDER / row["file"]))
    assert total_params(a) == int(row["total_params"])
    assert active_params(a) == int(row["active_params"])
    assert embedding_params(a) == int(row["embedding_params"])
    assert len(a.layers) == int(row["layers"])
    assert kv_bytes_per_token(a) == int(row["kv_bytes_per_token_bf16"])
    assert kv_window_bytes_per_token(a) == int(row["kv_window_bytes_per_token_bf16"])
    assert state_elements(a) == int(row["state_elems_total"])
    if int(row["vision_audio_params"]):
        assert a.encoder_exact
        assert encoder_params(a) == int(row["vision_audio_params"])
    assert not a.not_understood
    assert not size_warnings(a)


def test_pure_mamba_takes_its_inner_width_and_no_expansion() -> None:
    """By hand: in 8x32, conv 16x5, x 16x10, dt 2x16+16, A 16x4, D 16, out 16x8, norm 8; embedding, head, norm."""
    a = read_config(MAMBA, "small")
    layer = 8 * 32 + 16 * 5 + 16 * 10 + 2 * 16 + 16 + 16 * 4 + 16 + 16 * 8 + 8
    assert total_params(a) == 3 * layer + 2 * 80 + 8
    wide = {key: value for key, value in MAMBA.items() if key != "intermediate_size"}
    assert total_params(read_config(wide, "small")) > 4 * total_params(a)
    hybrid = read_config(MAMBA | {"num_attention_heads": 2, "num_key_value_heads": 2}, "small")
    assert total_params(hybrid) != total_params(a)


def test_gates_of_ling_are_full_matrices_and_its_groups_end_in_full_attention() -> None:
    a = read_config(LING, "small")
    kinds = [type(layer.mixers[0]).__name__ for layer in a.layers]
    assert kinds == ["KimiDelta", "Latent", "KimiDelta", "Latent"]
    width = 8
    delta = 3 * (16 * width + width * 4) + 16 * width + 16 * width + 16 * 2 + (2 + width) + 4 + width * 16
    latent = 16 * 2 * 6 + 16 * 10 + 8 + 8 * 2 * 8 + 2 * 4 * 16 + 16 * 2
    dense, norms = 3 * 16 * 32, 2 * 16
    assert total_params(a) == 2 * delta + 2 * latent + 4 * (dense + norms) + 2 * 160 + 16


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("owner/Big-816B-A42B", [(816e9, False), (42e9, True)]),
        ("Qwen-1_8B", [(1.8e9, False)]),
        ("mpt-125m", [(125e6, False)]),
        ("Mixtral-8x7B-v0.1", []),
        ("gemma-4-E4B", []),
        ("deepseek-v3.2", []),
        ("llama-3.1-70b-fp8", [(70e9, False)]),
        ("gpt2-xl", []),
    ],
)
def test_sizes_in_names(name: str, sizes: list[tuple[float, bool]]) -> None:
    assert [(one.params, one.active) for one in stated_sizes(name)] == sizes


@pytest.mark.parametrize("name", catalogue.model_names())
def test_no_model_of_the_catalogue_disagrees_with_its_name(name: str) -> None:
    assert size_warnings(catalogue.model(name)) == ()


def test_a_count_that_disagrees_with_the_name_is_said_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "falcon-mamba-7b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MAMBA))
    facts = json.loads(CliRunner().invoke(cli, ["model", str(folder), "--json"]).stdout)
    assert len(facts["warnings"]) == 1
    assert "the name says 7b" in facts["warnings"][0]
    assert "WARNING" in CliRunner().invoke(cli, ["model", str(folder)]).output
    assert json.loads(CliRunner().invoke(cli, ["model", "llama-3.1-8b", "--json"]).stdout)["warnings"] == []


def named(rows: list[dict[str, str]]) -> dict[tuple[str, int, str], float]:
    """Weights per accelerator of every start, by model, tensor width and formats. [B]"""
    return {
        (row["model"], int(row["gpus"]), row["precision"]): float(row["value"]) * GIB
        for row in rows
        if row["metric"] == "weight_memory"
    }


def known(model: str) -> Architecture | None:
    try:
        return catalogue.model(model)
    except Exception:
        return None


@pytest.mark.skipif(not STARTS.exists(), reason="../shared/measured is not here")
def test_weights_are_what_vllm_loaded() -> None:
    """16-bit starts on one accelerator of models that the catalogue holds: within a percent, vision towers aside."""
    rows = read(STARTS)
    seen: list[str] = []
    for (model, gpus, precision), measured in named(rows).items():
        a = known(model)
        if a is None or gpus != 1 or a.encoder is not None or not precision.startswith("bfloat16;None"):
            continue
        counted = sum(weight_bytes(a).values())
        assert counted == pytest.approx(measured, rel=0.01), model
        seen.append(model)
    assert len(seen) >= 3, seen
