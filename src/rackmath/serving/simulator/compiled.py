"""How the simulator's functions are compiled."""

from __future__ import annotations

from numba import njit

compiled = njit(cache=True, _nrt=False)
"""Without Numba's counting of references, which takes three quarters of the time here: no function of the loop makes an
array, and the callers keep all of them alive."""
