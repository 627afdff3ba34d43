"""The package's version, apart from ``rackmath`` itself so that lower modules may import it."""

__version__ = "0.1.0"
