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
