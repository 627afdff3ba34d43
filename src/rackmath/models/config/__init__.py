"""A Hugging Face ``config.json`` -> an :class:`~rackmath.models.architecture.Architecture`."""

from rackmath.models.config.reader import read_config

__all__ = ["read_config"]
