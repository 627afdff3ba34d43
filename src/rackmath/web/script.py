"""Scripts of a page and of a widget, each as one file: a browser would ask for every module before it draws."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files

MODULES = (
    "dom",
    "theme",
    "beside",
    "legend",
    "sketch",
    "picture",
    "notebook",
    "chosen",
    "address",
    "equation",
    "uploads",
    "slider",
    "spoken",
    "view",
    "board",
)
"""Each after those that it imports; no two have a name of their own in common."""
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@lru_cache(maxsize=1)
def page_script() -> str:
    """All modules of a page."""
    return _joined(MODULES)


@lru_cache(maxsize=1)
def widget_script() -> str:
    """The script of a view in a notebook, which has no address to import from."""
    return _joined(("slider", "widget"))


def _joined(modules: Sequence[str]) -> str:
    """Modules one after the other, without imports and exports but the default one."""
    folder = files("rackmath.web").joinpath("static")
    texts = (folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in modules)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


@lru_cache(maxsize=1)
def edition() -> str:
    """What addresses of scripts and styles carry, so that a browser keeps them until one changes."""
    digest = sha256(version("plotly").encode())
    for entry in sorted(files("rackmath.web").joinpath("static").iterdir(), key=lambda entry: entry.name):
        digest.update(entry.read_bytes())
    return digest.hexdigest()[:12]
