"""Hardware time -> money."""

from rackmath.prices.cost import usd_per_million_tokens

__all__ = ["usd_per_million_tokens"]
