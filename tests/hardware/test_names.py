"""Names of systems and models as drivers, hubs and load generators write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.io import catalogue, model_names, system_names

DRIVERS = {
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA H20": "h20",
    "NVIDIA A100-SXM4-80GB": "a100-sxm",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie",
    "A100 80G": "a100-sxm",
    "H100-SXM5-80GB": "h100-sxm",
    "NVIDIA B200": "b200-sxm",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA GB200": "gb200-nvl72",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA L40S": "l40s",
    "NVIDIA L40": "l40",
    "NVIDIA L4": "l4",
    "NVIDIA A10": "a10",
    "NVIDIA A30": "a30",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "Tesla T4": "t4",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI355X": "mi355x",
    "AMD Ryzen AI Max+ 395": "strix-halo",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx",
    "Apple M3 Max": "m3-max",
    "Google TPU v6e": "tpu-v6e",
    "Ascend 910B": "ascend-910b",
    "NVIDIA GeForce RTX 4060 Ti": "rtx-4060-ti",
    "RTX 4060 Ti 16 GB": "rtx-4060-ti-16gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "rtx-4090-laptop",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti",
    "NVIDIA RTX A5000": "rtx-a5000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-max-q",
    "NVIDIA TITAN RTX": "titan-rtx",
    "Quadro RTX 8000": "quadro-rtx-8000",
    "Tesla V100-SXM2-16GB": "v100-sxm-16gb",
    "Tesla V100-PCIE-32GB": "v100-pcie",
    "Tesla P40": "p40",
    "NVIDIA A800-SXM4-80GB": "a800-sxm",
    "NVIDIA GH200 144GB HBM3e": "gh200-144gb",
    "AMD Instinct MI210": "mi210",
    "AMD Radeon PRO W7900": "radeon-pro-w7900",
    "Apple M2 Max": "m2-max",
    "trn1.32xlarge": "trainium1",
    "HL-225H": "gaudi-2",
}  # fmt: skip


@pytest.mark.parametrize(("written", "name"), DRIVERS.items())
def test_a_name_as_a_driver_prints_it(written: str, name: str) -> None:
    assert catalogue.system(written).name == name


@pytest.mark.parametrize("written", ["NVIDIA A100-PCIE-40GB", "NVIDIA H100 141GB", "L40S 24GB"])
def test_a_capacity_that_no_chip_of_the_name_has_is_refused(written: str) -> None:
    with pytest.raises(InputError, match=r"did you mean|unknown"):
        catalogue.system(written)


@given(
    st.sampled_from(catalogue.system_names()),
    st.sampled_from(["NVIDIA ", "AMD Instinct ", "Google ", ""]),
    st.booleans(),
)
def test_vendor_and_signs_change_no_name(name: str, vendor: str, is_spaced: bool) -> None:
    assert system_names.stem_of(vendor + (name.replace("-", " ") if is_spaced else name.upper())) == name


@pytest.mark.parametrize("written", ["8xH100", "8 x H100", "8 H100", "H100x8", "h100:8", "h100 * 8"])
def test_a_count_in_a_name_is_told_where_it_belongs(written: str) -> None:
    with pytest.raises(InputError, match=r"write [hH]100, and 8 as the number of accelerators \(--gpus\)"):
        catalogue.system(written)


MODELS = {
    "meta-llama/Llama-3.3-70B-Instruct": ("llama-3.1-70b", "meta-llama/Llama-3.3-70B-Instruct"),
    "Llama-3.3-70B": ("llama-3.1-70b", "meta-llama/Llama-3.3-70B-Instruct"),
    "Meta-Llama-3-8B-Instruct": ("llama-3.1-8b", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "DeepSeek-V3.1": ("deepseek-v3", "deepseek-ai/DeepSeek-V3.1"),
    "deepseek-r1-distill-qwen-32b": ("qwen2.5-32b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
    "deepseek-coder-v2": ("deepseek-v2", "deepseek-ai/DeepSeek-Coder-V2-Instruct"),
    "QwQ-32B-Preview": ("qwen2.5-32b", "Qwen/QwQ-32B"),
    "Qwen3-30B-A3B-Instruct-2507": ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"),
    "Kimi-K2-Instruct-0905": ("kimi-k2", "moonshotai/Kimi-K2-Instruct"),
    "Kimi-K2-Thinking": ("kimi-k2-thinking", "moonshotai/Kimi-K2-Thinking"),
    "Mistral-7B-Instruct-v0.3": ("mistral-7b-v0.3", "mistralai/Mistral-7B-Instruct-v0.3"),
    "vicuna-13b": ("llama-2-13b", "lmsys/vicuna-13b-v1.5"),
    "glm-4.6": ("glm-4.7", "zai-org/GLM-4.6"),
    "phi-4-reasoning-plus": ("phi-4", "microsoft/Phi-4-reasoning-plus"),
}  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), MODELS.items())
def test_a_release_is_its_architecture_and_its_own_weights(written: str, expected: tuple[str, str]) -> None:
    name, repository = expected
    assert catalogue.model(written).name == name
    assert model_names.repository(written) == repository


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Meta-Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b with --weights fp8"),
        ("nvidia/DeepSeek-R1-0528-FP4", "deepseek-r1 with --weights nvfp4"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.1-70b with --weights fp8"),
        ("amd/Llama-3.1-405B-Instruct-MXFP4-Preview", "llama-3.1-405b with --weights mxfp4"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b with --weights int8"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b with --weights awq"),
        ("Qwen/Qwen3-1.7B-GGUF", "qwen3-1.7b with --weights and the type of the file, as q4_k_m"),
    ],
)  # fmt: skip
def test_a_format_in_a_name_is_told_where_it_belongs(written: str, expected: str) -> None:
    with pytest.raises(InputError, match=f"write {re.escape(expected)}$"):
        catalogue.model(written)


def test_names_of_one_model_are_those_of_no_other() -> None:
    for name in catalogue.model_names():
        assert model_names.stem_of(name) == name
        assert model_names.stem_of(model_names.repository(name)) == name
