"""What the chapters' graphs share."""

from __future__ import annotations

POINTS = 160
"""Of a curve."""
MODELS = (
    "deepseek-v3",
    "kimi-k2",
    "gpt-oss-120b",
    "qwen3-235b-a22b",
    "llama-3.1-405b",
    "llama-3.1-70b",
    "llama-3.1-8b",
)
"""Models that stand for their kinds: presets, and rows of tables."""
SYSTEMS = ("h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "gb300-nvl72", "vr200-nvl72", "mi300x", "mi355x")
"""Systems whose numbers a viewer may take."""
