"""What computes: chips, memory tiers, networks and systems."""

from rackmath.hardware.chip import Chip, MemoryTier
from rackmath.hardware.network import Link
from rackmath.hardware.system import System

__all__ = ["Chip", "Link", "MemoryTier", "System"]
