"""Systems of one's own: a documented file, errors that name the key, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.errors import InputError, RackmathError
from rackmath.io import catalogue

MINE = """
domain = 8
price = "4 USD/h"
[chip]
name = "new chip"
[chip.memory]
capacity = { value = "288 GB", source = "my guess" }
bandwidth = "16 TB/s"
[chip.rate]
bf16 = "2.5 PFLOP/s"
[scale_up]
bandwidth = "900 GB/s"
latency = "5 us"
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", catalogue.system_names())
def test_every_system_comes_back_from_its_own_file(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["systems", name, "--toml"])
    assert result.exit_code == 0
    path = tmp_path / f"{name}.toml"
    path.write_text(result.output)
    known, again = catalogue.system(name), catalogue.system(str(path))
    assert again.chip == known.chip
    for field in ("name", "domain", "fabric", "default_gpus", "scale_up", "scale_out", "price", "price_date",
                  "price_basis", "price_range", "host_link", "host_dram", "host_dram_bandwidth", "host_flash"):  # fmt: skip
        assert getattr(again, field) == getattr(known, field), field
    assert again.sources == known.sources


@pytest.mark.parametrize(
    "command",
    [
        ["systems"],
        ["estimate", "llama-3.1-8b", "--batch", "8", "--context", "1000", "--on"],
        ["compare", "llama-3.1-8b", "--gpus", "8", "--input", "1000", "--output", "100", "--on"],
        ["plan", "llama-3.1-8b", "--gpus", "2", "--input", "1000", "--output", "100", "--on"],
    ],
)
def test_a_guess_is_taken_and_shown(command: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*command, written(tmp_path, MINE)])
    assert result.exit_code == 0, result.output
    if command == ["systems"]:
        assert "chip.memory.capacity: my guess" in result.output
    elif command[0] != "compare":
        assert "4.00 $ per GPU-hour, on-demand: no source is given" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"16 TB/s"', '"16 TB"', "chip.memory.bandwidth = '16 TB'"),
        ('bandwidth = "16 TB/s"', 'bandwith = "16 TB/s"', "chip.memory.bandwith"),
        ('"16 TB/s"', "16", "chip.memory.bandwidth = 16: write text with its unit"),
        ("domain = 8", 'domain = "8 x"', "domain = '8 x'"),
        ("domain = 8", "domain = 0", "domain = 0"),
        ("domain = 8", 'domain = 8\nfabric = "string"', "fabric = 'string'"),
        ('bf16 = "2.5 PFLOP/s"', 'bf17 = "2.5 PFLOP/s"', "chip.rate.bf17"),
        ('bf16 = "2.5 PFLOP/s"', 'fp8 = "2.5 PFLOP/s"', "rate.bf16"),
        ('"288 GB"', '"-288 GB"', "memory_capacity"),
        ('"288 GB"', '"nan GB"', "chip.memory.capacity"),
        ('price = "4 USD/h"', 'price = "4 EUR"', "price = '4 EUR'"),
        ("[scale_up]", "[scale_dup]", "scale_dup"),
        ('name = "new chip"', "", "chip.name"),
        ("[chip]", '[chip]\nsize = "big"', "chip.size"),
        ("[chip]\n", "[chap]\n", "chap"),
    ],
)
def test_an_error_names_the_key(old: str, new: str, key: str, tmp_path: Path) -> None:
    assert old in MINE
    result = CliRunner().invoke(cli, ["systems", written(tmp_path, MINE.replace(old, new))])
    assert isinstance(result.exception, RackmathError), result.exception
    assert key in str(result.exception), str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_chip_of_the_catalogue_or_the_way_to_write_one(tmp_path: Path) -> None:
    text = 'domain = 2\nchip = "{}"\n[scale_up]\nbandwidth = "1 TB/s"\nlatency = "1 us"\n'
    assert catalogue.system(written(tmp_path, text.format("h100-sxm"))).chip.name == "H100 SXM 80GB"
    for wrong in ("h100-sxn", "../systems/h100-sxm"):
        with pytest.raises(InputError, match=r"chip = .*write a table \[chip\]"):
            catalogue.system(written(tmp_path, text.format(wrong)))


def test_the_schema_lists_every_key() -> None:
    keys = {k["key"]: k for k in json.loads(CliRunner().invoke(cli, ["systems", "--schema", "--json"]).stdout)}
    assert {"chip.memory.bandwidth", "chip.rate", "scale_up.latency", "host.link", "price"} <= set(keys)
    assert keys["chip.memory.bandwidth"]["required"]
    assert not keys["price"]["required"]
    assert all(k["meaning"] for k in keys.values() if not k["key"].endswith("memory"))
