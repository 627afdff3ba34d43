"""Effects of hosts: on drawn prices whose truth is known, and against the closed form of one host."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.prices.hosts import Host, Hosts, Price, fit_hosts, typical_price


def drawn(seed: int, models: int = 150, hosts: int = 30) -> tuple[dict[str, float], list[list[Price]]]:
    """Hosts of spread 0.6 and offers of spread 0.3 around them; six hosts for every model."""
    random = np.random.default_rng(seed)
    effects = {f"h{place}": 0.6 * random.standard_normal() for place in range(hosts)}
    prices = []
    for _ in range(models):
        level = 2 * random.standard_normal()
        names = random.choice(hosts, 6, replace=False)
        prices.append(
            [
                Price(value=level + effects[f"h{n}"] + 0.3 * random.standard_normal(), hosts=(f"h{n}",))
                for n in names.tolist()
            ]
        )
    return effects, prices


def test_drawn_effects_and_spreads_come_back() -> None:
    effects, prices = drawn(1)
    found = fit_hosts(prices)
    assert found.offer_scale == pytest.approx(0.3, abs=0.051)
    assert found.scale == pytest.approx(0.6, abs=0.16)
    # Only differences between hosts show: the mean of all effects is nobody's.
    mean = np.mean(list(effects.values()))
    off = [(host.effect + mean - effects[name]) / host.error for name, host in found.known.items()]
    assert np.std(off) < 1.4
    assert np.corrcoef([effects[n] for n in found.known], [h.effect for h in found.known.values()])[0, 1] > 0.97


def test_a_host_of_one_offer_is_trusted_by_its_part_of_the_variance() -> None:
    """Two hosts, one model: half of the difference, times the host's part of the variance."""
    random = np.random.default_rng(3)
    _, prices = drawn(2)
    level = float(random.standard_normal())
    found = fit_hosts([*prices, [Price(value=level + 1.0, hosts=("x",)), Price(value=level, hosts=("y",))]])
    part = found.scale**2 / (found.scale**2 + found.offer_scale**2)
    assert found.known["x"].effect == pytest.approx(0.5 * part)
    assert found.known["y"].effect == pytest.approx(-0.5 * part)


def test_the_typical_price_weighs_by_precision_and_takes_off_the_effect() -> None:
    hosts = Hosts(scale=0.8, offer_scale=0.6, known={"cheap": Host(effect=-0.5, error=0.0)})
    value, variance = typical_price([Price(value=1.0, hosts=("cheap",)), Price(value=2.0, hosts=("new",))], hosts)
    assert variance == pytest.approx(1 / (1 / 0.36 + 1 / 1.0))
    assert value == pytest.approx((1.5 / 0.36 + 2.0 / 1.0) * variance)
    # A copied list is one price, with the mean of the effects of those who ask it.
    value, variance = typical_price([Price(value=1.0, hosts=("cheap", "new"))], hosts)
    assert (value, variance) == (pytest.approx(1.25), pytest.approx(0.64 / 2 + 0.36))


def test_one_price_per_model_says_nothing_of_hosts() -> None:
    with pytest.raises(InputError, match="two different prices"):
        fit_hosts([[Price(value=0.0, hosts=("a",))], [Price(value=1.0, hosts=("b",))]])
    with pytest.raises(InputError, match="two different prices"):
        fit_hosts([[]])
