"""A system: many chips, their scale-up domain, the network between domains, and a price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware.chip import Chip
from rackmath.hardware.network import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Chips that work together.

    Parameters
    ----------
    chip : Chip
        The accelerator.
    domain : int
        Accelerators that reach each other at scale-up speed. [accelerators]
    fabric : str
        switch, mesh, torus or none.
    scale_up, scale_out : Link or None
        Inside a domain and between domains.
    price : float or None
        Rental price of one accelerator. [USD/s]
    host_link, host_dram, host_dram_bandwidth, host_flash : float or None
        Per accelerator; the link to the host in one direction, None where memory is shared with the host or nobody
        says. [B/s], [B], [B/s], [B]
    """

    name: str
    chip: Chip
    domain: int
    fabric: str
    default_gpus: int
    scale_up: Link | None = None
    scale_out: Link | None = None
    price: float | None = None
    price_date: str | None = None
    price_basis: str = "on-demand"
    """on-demand, reserved, at cost, or blended."""
    price_range: tuple[float, float] | None = None
    """Published prices of the same basis, lowest and highest. [USD/s]"""
    host_link: float | None = None
    host_dram: float | None = None
    host_dram_bandwidth: float | None = None
    host_flash: float | None = None
    software: tuple[tuple[str, str], ...] = ()
    """Constants of whichever engine runs here that are to be others: name and value, or a factor such as 2x."""
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse a domain without a network."""
        if self.domain < 1:
            raise InputError("domain", self.domain, "write an integer of at least 1")
        if self.domain > 1 and self.scale_up is None:
            raise InputError("scale_up", None, f"a domain of {self.domain} accelerators needs a network")

    def __repr__(self) -> str:
        """Name and accelerators; numbers and their sources are fields."""
        return f"<System {self.name}: {self.chip.name}, domains of {self.domain}>"

    @property
    def network_ratio(self) -> float | None:
        """Scale-up over scale-out bandwidth, the lecture's r; None without both. [1]"""
        if self.scale_up is None or self.scale_out is None:
            return None
        return self.scale_up.bandwidth / self.scale_out.bandwidth

    @property
    def domain_capacity(self) -> float:
        """Memory of one scale-up domain. [B]"""
        return self.domain * self.chip.memory_capacity

    @property
    def domain_bandwidth(self) -> float:
        """Memory bandwidth of one scale-up domain. [B/s]"""
        return self.domain * self.chip.memory_bandwidth

    def require_network(self, gpus: int) -> None:
        """Raise :class:`DoesNotFit` where ``gpus`` accelerators have no network between them."""
        if gpus > self.domain and self.scale_out is None:
            raise DoesNotFit(
                f"{gpus} accelerators of {self.name} span more than one scale-up domain of {self.domain},"
                " and no network between domains is known",
                f"use --gpus {self.domain} or fewer",
            )
