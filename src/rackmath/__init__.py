"""The arithmetic of how large language models are trained, served and priced."""

__version__ = "0.1.0"
