"""Encoders of sound: parameters and tokens as transformers has them, time against closed forms, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.cli.app import cli
from rackmath.engine import Layout
from rackmath.engine.encoding import SETTING, encoding
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models import counts
from rackmath.models.architecture import Architecture, Images
from rackmath.models.audio import Windows
from rackmath.models.config import read_config

CONFIGS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/audio_configs.json").read_text())
WHISPER = 636_968_960
"""Parameters of the encoder of Whisper large-v3, positions included."""


def model(name: str) -> Architecture:
    return read_config(CONFIGS[name]["config"], name)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_that_transformers_allocates(name: str) -> None:
    architecture = model(name)
    assert architecture.audio is not None
    # Omni's positions are a formula.
    learned = 0 if "omni" in name else 1500 * 1280
    if "omni-30b" not in name:
        assert counts.total_params(architecture.audio.tower) == WHISPER - 1500 * 1280 + learned
    assert counts.audio_params(architecture) == CONFIGS[name]["audio_params"]
    assert counts.total_params(architecture) + counts.encoder_params(architecture) == CONFIGS[name]["params"]
    assert architecture.audio_exact
    assert architecture.encoder_exact


def test_a_tower_that_does_not_say_its_positions_learns_those_of_whisper() -> None:
    config = CONFIGS["voxtral-mini-3b"]["config"]
    silent = {name: value for name, value in config["audio_config"].items() if name != "max_source_positions"}
    said = {**silent, "max_source_positions": 1600}
    whole, without, more = (
        counts.audio_params(read_config({**config, "audio_config": tower}))
        for tower in (config["audio_config"], silent, said)
    )
    assert whole == without == more - 100 * 1280


@pytest.mark.parametrize(
    ("name", "seconds", "windows", "tokens"),
    [
        # Twelve and a half a second, silence included.
        ("voxtral-mini-3b", 1.0, 1, 375),
        ("voxtral-mini-3b", 30.0, 1, 375),
        ("voxtral-mini-3b", 30.1, 2, 750),
        ("voxtral-mini-3b", 600.0, 20, 7500),
        # Twenty-five a second of what is heard: 100 spectra a second, halved twice.
        ("qwen2-audio-7b", 30.0, 1, 750),
        ("qwen2-audio-7b", 10.0, 1, 250),
        ("qwen2-audio-7b", 0.04, 1, 1),
        ("qwen2.5-omni-7b", 10.0, 5, 250),
        ("qwen2.5-omni-7b", 90.5, 46, 2262),
    ],
)
def test_a_clip_becomes_as_many_tokens_as_its_processor_makes(
    name: str, seconds: float, windows: int, tokens: int
) -> None:
    audio = model(name).audio
    assert audio is not None
    clip = audio.windows.clip(seconds)
    assert (clip.tiles, clip.patches, clip.tokens) == (windows, 100 if "omni" in name else 1500, tokens)


@pytest.mark.parametrize(
    # As transformers' _get_feat_extract_output_lengths: thirteen a second, in windows of eight.
    ("seconds", "windows", "tokens"),
    [(0.01, 1, 1), (0.5, 1, 7), (1.0, 1, 13), (2.3, 1, 30), (10.0, 2, 130), (30.0, 4, 390), (90.5, 12, 1177)],
)
def test_pieces_of_a_second_become_thirteen_tokens(seconds: float, windows: int, tokens: int) -> None:
    audio = model("qwen3-omni-30b-a3b").audio
    assert audio is not None
    clip = audio.windows.clip(seconds)
    assert (clip.tiles, clip.tokens) == (windows, tokens)
    # A clip ends in the middle of a window; windows are taken for equally long.
    assert tokens <= clip.tiles * clip.patches < tokens + windows


def test_convolutions_over_pitch_are_used_at_all_places() -> None:
    """Three convolutions of 3 x 3 over 128 pitches and 100 spectra a second, and 32 layers of 1,280 after them."""
    audio = model("qwen3-omni-30b-a3b").audio
    assert audio is not None
    places = (50 * 64, 25 * 32, 13 * 16)
    channels, d = 480, 1280
    convolutions = sum(9 * inputs * channels * n for inputs, n in zip((1, channels, channels), places, strict=True))
    layers = 13 * (32 * (4 * d * d + 2 * d * 5120) + channels * 16 * d)
    assert 13 * counts.multiplied_params(audio.tower) == pytest.approx(convolutions + layers)


def test_what_speaks_is_said_not_to_be_counted() -> None:
    config = json.loads(json.dumps(CONFIGS["qwen3-omni-30b-a3b"]["config"]))
    assert read_config(config, "omni").not_understood == ()
    config["talker_config"] = {"model_type": "qwen3_omni_moe_talker"}
    assert read_config(config, "omni").not_understood == ("talker_config",)


@given(seconds=st.floats(1e-12, 1e4), more=st.floats(0, 100))
def test_a_longer_clip_never_has_fewer_tokens(seconds: float, more: float) -> None:
    for silence in (True, False):
        windows = Windows(positions=1500, joined=4, silence=silence)
        clip = windows.clip(seconds)
        assert clip.tiles >= 1
        assert windows.clip(seconds + more).tokens >= clip.tokens >= 1


def test_a_clip_is_refused_only_beyond_the_last_window_of_its_processor() -> None:
    windows = Windows(positions=1500, joined=2, silence=False, most=2)
    assert [windows.clip(seconds).tiles for seconds in (20.0, 60.0)] == [1, 2]
    with pytest.raises(InputError, match="cuts a clip at 60 s"):
        windows.clip(60.1)


def test_the_bound_is_products_and_attention_at_the_peak() -> None:
    """32 blocks of width 1,280 over 1,500 positions of each of two windows, and the projection of their tokens."""
    architecture, system = model("voxtral-mini-3b"), catalogue.system("h100-sxm")
    assert architecture.audio is not None
    clip = Images(count=1.0, image=architecture.audio.windows.clip(60.0), sound=True)
    asked = Architecture(
        name="asked", hidden=1, vocabulary=0, layers=architecture.layers, audio=architecture.audio, images=clip
    )
    e = encoding(asked, system, Layout(), 1.0, None)
    n, d, width, text = 1500, 1280, 5120, 3072
    block = 2 * n * (4 * d * d + 2 * d * width) + 4 * n * n * d
    convolutions = 2 * n * 3 * (128 * d + d * d)
    projection = 2 * 375 * (width * text + text * text)
    least = 2 * (32 * block + convolutions + projection) / dict(system.chip.rates)["bf16"]
    # Norms and activations at the bandwidth are the rest.
    assert least <= e.time <= 1.2 * least


def test_an_estimate_and_a_simulation_have_its_tokens_and_its_time(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["voxtral-mini-3b"]["config"]), encoding="utf-8")
    same: dict[str, Any] = {"model": str(path), "on": "h100-sxm", "gpus": 1, "no_evidence": True}
    asked = {**same, "phase": "prefill", "batch": 1, "context": 50}
    plain, heard = run_estimate(EstimateRequest(**asked)), run_estimate(EstimateRequest(**asked, audio=60.0))
    facts = heard.to_dict()
    assert facts["audio"] == {"windows": 2, "positions": 3000, "tokens_per_prompt": 750.0, "encoder": "weights"}
    assert facts["lost"]["sound"] > SETTING
    assert heard.time > plain.time + SETTING
    memory = facts["memory"]["weights"] - plain.to_dict()["memory"]["weights"]
    assert memory == pytest.approx(2 * CONFIGS["voxtral-mini-3b"]["audio_params"])
    traffic = {**same, "poisson": 2.0, "input": 50, "output": 20, "requests": 300}
    spoken = run_simulation(SimulateRequest(**traffic, audio=60.0))
    silent = run_simulation(SimulateRequest(**traffic))
    assert (spoken.setup.work.prompt - silent.setup.work.prompt == 750).all()
    assert spoken.ttft is not None
    assert silent.ttft is not None
    assert spoken.ttft.p50 > silent.ttft.p50 + SETTING
    apart = run_simulation(SimulateRequest(**(traffic | {"gpus": 2}), audio=60.0, encoder_gpus=1))
    assert apart.to_dict()["encoders"]["gpus"] == 1
    assert np.isfinite(apart.times.first).all()


@pytest.mark.parametrize(
    ("name", "seconds", "message"),
    [
        ("llama-3.1-8b", 5.0, "takes no sound"),
        ("qwen2-audio-7b", 31.0, "cuts a clip at 30 s"),
        ("voxtral-mini-3b", 1e6, "--audio"),
    ],
)
def test_what_cannot_be_heard_is_refused(name: str, seconds: float, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if name in CONFIGS:
        path.write_text(json.dumps(CONFIGS[name]["config"]), encoding="utf-8")
    named = str(path) if name in CONFIGS else name
    with pytest.raises(InputError, match=message):
        run_estimate(EstimateRequest(model=named, on="h100-sxm", batch=1, context=50, audio=seconds))


def test_towers_of_no_known_kind_are_said_to_be(tmp_path: Path) -> None:
    config = json.loads(json.dumps(CONFIGS["qwen2-audio-7b"]["config"]))
    config["audio_config"]["conv_chunksize"] = 500
    assert not read_config(config, "omni").audio_exact
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert "of no known kind" in CliRunner().invoke(cli, ["model", str(path)]).output
    with pytest.raises(InputError, match="no known kind"):
        run_estimate(EstimateRequest(model=str(path), on="h100-sxm", batch=1, context=50, audio=5.0))


def test_the_command_says_what_a_clip_becomes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["voxtral-mini-3b"]["config"]), encoding="utf-8")
    said = CliRunner().invoke(cli, ["model", str(path)]).output
    assert "audio tower, apart" in said
    assert "1,500 positions, 375 tokens" in said
    facts = json.loads(CliRunner().invoke(cli, ["model", str(path), "--json"]).stdout)
    assert facts["audio_params"] == CONFIGS["voxtral-mini-3b"]["audio_params"]
    assert facts["vision_params"] == 0
