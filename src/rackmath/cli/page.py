"""The frame of a page of HTML that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; font-size: 0.9rem; margin: 0.8rem 0; }
th, td { padding: 0.25rem 0.8rem 0.25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #eee; }
th { border-bottom: 1px solid #888; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; font-size: 0.82rem; line-height: 1.45; }
svg { max-width: 100%; height: auto; } figcaption, .small { color: #555; font-size: 0.85rem; } figure { margin: 0; }
"""


def page(title: str, body: Sequence[str]) -> str:
    """Whole page from its title, in plain text, and the HTML of its body."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )
