"""Step-3: queries through a narrow width (multi-matrix factorization attention), counted as its report states."""

from __future__ import annotations

import json
from pathlib import Path

from rackmath.models.config import read_config
from rackmath.models.counts import active_params, embedding_params, total_params
from rackmath.models.weights import layer_weights

CONFIG = json.loads((Path(__file__).parents[1] / "data" / "step3_text_config.json").read_text())


def test_published_totals() -> None:
    """316 B parameters, 38 B for each token, the embedding left out (table 1 of arXiv:2507.19427)."""
    step3 = read_config(CONFIG, "step3")
    assert round(total_params(step3) / 1e9) == 316
    assert round((active_params(step3) - embedding_params(step3)) / 1e9) == 38


def test_queries_pass_two_matrices_and_a_norm() -> None:
    step3 = read_config(CONFIG, "step3")
    layer = step3.layers[10]
    sizes = {w.name: w.elements for w in layer_weights(layer, step3.hidden) if w.name.startswith("self_attn.")}
    assert sizes["self_attn.q_proj"] == 7168 * 2048
    assert sizes["self_attn.inter_norm"] == 2048
    assert sizes["self_attn.wq"] == 2048 * 64 * 256
    assert sizes["self_attn.k_proj"] == sizes["self_attn.v_proj"] == 7168 * 256
    assert sizes["self_attn.o_proj"] == 64 * 256 * 7168
