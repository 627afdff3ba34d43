"""Ten thousand mutated configs: no traceback, no hang, no nonsense number."""

from __future__ import annotations

import json
from math import isfinite
from random import Random
from typing import Any

import pytest

from rackmath.api.model import model_facts
from rackmath.engine import Layout, estimate
from rackmath.errors import RackmathError
from rackmath.io import catalogue
from rackmath.models.config import read_config
from tests.conftest import SHARED
from tests.mutations import mutate

pytestmark = pytest.mark.long

BATCHES = 20
PER_BATCH = 500


def seeds() -> list[dict[str, Any]]:
    """Real configs: those of the shared folder where it is, else the catalogue's own."""
    folder = SHARED / "model-configs"
    if folder.exists():
        files = [f for f in sorted(folder.glob("*.json")) if "hf_quant" not in f.name]
        return [json.loads(f.read_text()) for f in files]
    from importlib.resources import files as resources

    data = resources("rackmath") / "data" / "models"
    return [json.loads((data / f"{name}.json").read_text())["config"] for name in catalogue.model_names()]


SEEDS = seeds()
MOST = 4 if (SHARED / "model-configs").exists() else 2
"""Places that change: configs of the catalogue hold little beside what counts need."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_configs_are_read_or_refused(batch: int) -> None:
    random = Random(batch)
    system = catalogue.system("h200-sxm")
    read = 0
    for _ in range(PER_BATCH):
        config = mutate(random.choice(SEEDS), random, MOST)
        try:
            model = read_config(config)
            facts = model_facts(model)
            step = estimate(model, system, Layout(tensor=2), batch=8, context=1000)
        except RackmathError as error:
            assert "\n" not in str(error)
            continue
        read += 1
        for key in (
            "total_params",
            "active_params",
            "kv_bytes_per_token",
            "weight_bytes",
            "flops_per_token",
            "state_bytes",
        ):
            assert isfinite(facts[key]), (key, config)
            assert 0 <= facts[key] < 1e18, (key, config)
        assert 0 < facts["active_params"] <= facts["total_params"]
        assert 0 < float(step.time) < float("inf")
    assert 0.2 * PER_BATCH < read < 0.8 * PER_BATCH
