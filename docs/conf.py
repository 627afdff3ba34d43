"""Sphinx configuration."""

project = "rackmath"
author = "The rackmath authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]
