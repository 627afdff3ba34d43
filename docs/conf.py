"""Sphinx configuration."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

project = "rackmath"
author = "The rackmath authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
# Dollars of prices stand before a space; those of formulas do not.
myst_dmath_allow_space = False
myst_heading_anchors = 3
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "rackmath"
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]


def setup(app: Any) -> None:
    """Formulas as MathML: the site needs no script from elsewhere."""

    # The source of a formula is a text inside its node, which would be printed behind it.
    def inline(translator: Any, node: Any) -> None:
        translator.body.append(convert(node.astext()))
        raise nodes.SkipNode

    def displayed(translator: Any, node: Any) -> None:
        translator.body.append(convert(node.astext(), display="block"))
        raise nodes.SkipNode

    def nothing(translator: Any, node: Any) -> None:
        pass

    app.add_html_math_renderer("mathml", (inline, nothing), (displayed, nothing))
