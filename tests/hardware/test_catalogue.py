"""The catalogue: every number sourced, physically sane, equal to independent tables."""

from __future__ import annotations

import csv
import itertools
import tomllib
from pathlib import Path

import pytest

import rackmath
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import Chip, Link, System
from rackmath.io import catalogue, price_files
from tests.conftest import SHARED

DATA = Path(rackmath.__file__).parent / "data"
SYSTEMS = catalogue.system_names()
REQUIRED = [
    "a100-sxm",
    "h100-sxm",
    "h200-sxm",
    "h20",
    "h800-sxm",
    "b200-sxm",
    "b300-sxm",
    "gb200-nvl72",
    "gb300-nvl72",
    "vr200-nvl72",
    "mi300x",
    "mi325x",
    "mi355x",
    "tpu-v4",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
    "tpu-v7",
    "trainium2",
    "rtx-4090",
    "rtx-3090",
    "l40s",
    "m3-ultra",
    "dgx-spark",
]
# Rows of ../shared/hardware/derived.csv -> catalogue system.
DERIVED = {
    "A100 SXM 80GB": "a100-sxm",
    "H100 SXM": "h100-sxm",
    "H200 SXM": "h200-sxm",
    "H20": "h20",
    "H800 SXM": "h800-sxm",
    "L40S": "l40s",
    "B200 SXM (HGX)": "b200-sxm",
    "B300 SXM (HGX)": "b300-sxm",
    "GB200 NVL72": "gb200-nvl72",
    "GB300 NVL72": "gb300-nvl72",
    "Rubin R200 (VR200 NVL72)": "vr200-nvl72",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
    "TPU v4": "tpu-v4",
    "TPU v5e": "tpu-v5e",
    "TPU v5p": "tpu-v5p",
    "TPU v6e (Trillium)": "tpu-v6e",
    "TPU7x (Ironwood)": "tpu-v7",
    "Trainium1": "trainium1",
    "Trainium2": "trainium2",
    "Trainium3": "trainium3",
    "Gaudi 2": "gaudi-2",
    "V100 SXM2 32GB": "v100-sxm",
    "A30": "a30",
    "L4": "l4",
}


def test_the_chips_that_users_ask_for_are_there() -> None:
    assert set(REQUIRED) <= set(SYSTEMS)


def test_at_least_25_models_are_there_and_each_names_its_source() -> None:
    names = catalogue.model_names()
    assert len(names) >= 25
    assert all("at " in catalogue.model_source(name) for name in names)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_number_has_a_known_source(name: str) -> None:
    known = catalogue.sources()
    system = catalogue.system(name)
    assert set(system.sources.values()) <= set(known)
    numbers = {"chip.memory.capacity", "chip.memory.bandwidth", *(f"chip.rate.{p}" for p, _ in system.chip.rates)}
    assert numbers <= set(system.sources)


def test_no_source_is_listed_that_nothing_cites() -> None:
    cited = {s for name in SYSTEMS for s in catalogue.system(name).sources.values()}
    cited |= {s for tier in catalogue.tiers().values() for s in tier.sources.values()}
    cited |= {s for path in (DATA / "chips").glob("*.toml") for s in catalogue.chip(path.stem).sources.values()}
    cited |= {s for one in catalogue.benchmarks().values() for s in one.sources.values()}
    cited |= {s for bill in catalogue.bills().values() for s in bill.sources.values()}
    facts = price_files.facts()
    cited |= {fact.source for fact in (*facts.speed, *facts.change)}
    for path in DATA.glob("kernels*.toml"):
        kernels = tomllib.loads(path.read_text())
        cited |= {kernels["source"], *(t["source"] for t in kernels.values() if isinstance(t, dict) and "source" in t)}
    assert set(catalogue.sources()) == cited


@pytest.mark.parametrize("name", SYSTEMS)
def test_numbers_are_physically_possible(name: str) -> None:
    s = catalogue.system(name)
    chip = s.chip
    assert 0.005 < chip.drain_time < 1
    assert 10 < chip.ratio("bf16") < 1000
    rates = dict(chip.rates)
    assert rates["bf16"] <= rates.get("fp8", rates["bf16"]) <= rates.get("fp4", 1e18)
    if s.scale_up and s.scale_out:
        assert s.scale_up.bandwidth > s.scale_out.bandwidth
    if s.scale_up:
        assert s.scale_up.bandwidth < chip.memory_bandwidth


@pytest.mark.parametrize("path", sorted((DATA / "systems").glob("*.toml")), ids=lambda p: p.stem)
def test_prices_carry_a_date(path: Path) -> None:
    raw = tomllib.loads(path.read_text())
    if "price" in raw:
        assert "date" in raw["price"]


@pytest.mark.skipif(not SHARED.exists(), reason="../shared is not here")
def test_ratios_and_drain_times_equal_the_shared_table() -> None:
    rows = {r["chip"]: r for r in csv.DictReader((SHARED / "hardware/derived.csv").read_text().splitlines())}
    for row_name, name in DERIVED.items():
        row, s = rows[row_name], catalogue.system(name)
        assert s.chip.drain_time * 1e3 == pytest.approx(float(row["drain_ms"]), abs=0.06), name
        for precision in ("bf16", "fp8", "fp4"):
            if row[f"ratio_{precision}"]:
                assert s.chip.ratio(precision) == pytest.approx(float(row[f"ratio_{precision}"]), abs=0.06), name
        if row["domain_tb"] and name != "trainium2":
            assert s.domain_capacity / 1e12 == pytest.approx(float(row["domain_tb"]), abs=0.01), name
            assert s.domain_bandwidth / 1e12 == pytest.approx(float(row["domain_tbs"]), rel=3e-3), name


def test_tiers_are_slower_and_cheaper_downwards() -> None:
    tiers = list(catalogue.tiers().values())
    assert len(tiers) >= 5
    assert all(a.price >= b.price for a, b in itertools.pairwise(tiers))
    assert catalogue.tiers()["disk"].drain_time > catalogue.tiers()["nvme-qlc"].drain_time


@pytest.mark.parametrize(
    ("written", "name"), [("H200", "h200-sxm"), ("NVL72", "gb200-nvl72"), ("GB200_NVL72", "gb200-nvl72")]
)
def test_names_are_found_however_they_are_written(written: str, name: str) -> None:
    assert catalogue.system(written).name == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("DeepSeek-V3", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("Qwen3 8B", "qwen3-8b"),
    ],
)
def test_models_are_found_by_the_name_of_their_repository(written: str, name: str) -> None:
    assert catalogue.model(written) is catalogue.model(name)


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(InputError, match="h100-sxm"):
        catalogue.system("h100-sxn")
    with pytest.raises(InputError, match="deepseek-v3"):
        catalogue.model("deepsek-v3")


def test_a_system_file_of_ones_own_is_read(tmp_path: Path) -> None:
    text = (DATA / "systems/h200-sxm.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("domain = 8", "domain = 4"))
    assert catalogue.system(str(path)).domain == 4
    path.write_text(text.replace("domain = 8", 'domain = "many"'))
    with pytest.raises(InputError, match="domain"):
        catalogue.system(str(path))
    path.write_text("not = [toml")
    with pytest.raises(InputError, match="TOML"):
        catalogue.system(str(path))


def test_a_chip_falls_back_to_a_wider_precision() -> None:
    a100 = catalogue.system("a100-sxm").chip
    assert a100.runs_at("fp8") == "bf16"
    assert a100.rate("fp4") == 312e12
    assert catalogue.system("h100-sxm").chip.runs_at("fp4") == "fp8"


def test_accelerators_without_a_network_are_refused_together() -> None:
    with pytest.raises(DoesNotFit, match="m3-ultra"):
        catalogue.system("m3-ultra").require_network(2)


@pytest.mark.parametrize("field", ["memory_capacity", "memory_bandwidth"])
def test_records_refuse_impossible_sizes(field: str) -> None:
    good = {
        "name": "x",
        "vendor": "x",
        "year": 1,
        "status": "x",
        "memory_capacity": 1.0,
        "memory_bandwidth": 1.0,
        "rates": (("bf16", 1.0),),
    }
    with pytest.raises(InputError, match=field):
        Chip(**{**good, field: -1.0})
    with pytest.raises(InputError):
        Link(bandwidth=float("nan"))
    with pytest.raises(InputError, match="scale_up"):
        System(name="x", chip=Chip(**good), domain=2, fabric="none", default_gpus=2)
