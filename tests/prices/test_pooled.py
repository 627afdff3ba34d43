"""Pooled calibration: on offers that were made by its own model, and the table it reads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from rackmath.errors import InputError
from rackmath.prices.calibration import KnownModel
from rackmath.prices.decode import Offer
from rackmath.prices.market import RIDGE, log_prices
from rackmath.prices.pooled import _model as model_of_offers  # pyright: ignore[reportPrivateUsage]
from rackmath.prices.pooled import fit_pooled, table


def known(name: str, offers: list[tuple[str, float, float]], active: float = 10.0, total: float = 100.0) -> KnownModel:
    made = tuple(Offer(model=name, provider=host, input=i, output=o) for host, i, o in offers)
    return KnownModel(model=name, group=name, active=active, total=total, cache=7e4, read=7e4, offers=made)


def test_copies_of_the_list_price_are_told_from_prices_of_one_s_own() -> None:
    first = known("a", [("dev", 0.95, 4.0), ("x", 0.95, 4.0), ("y", 0.955, 4.0), ("z", 0.5, 2.0)])
    found = table([first, known("b", [("x", 1.0, 3.0)])])
    assert found.listed.tolist() == [False, True, True, False, False]
    assert found.model.tolist() == [0, 0, 0, 0, 1]
    assert found.hosts == ("dev", "x", "y", "z")
    # 0.95 stands for 0.945 to 0.955, and 4.0 for 3.95 to 4.05.
    assert found.cell[0] == pytest.approx((0.005 / 0.95 + 0.05 / 4.0) / 2)


def test_one_host_cannot_be_pooled() -> None:
    with pytest.raises(InputError, match="hosts"):
        table([known("a", [("x", 1.0, 2.0)]), known("b", [("x", 1.0, 2.0)])])


@pytest.mark.filterwarnings("ignore")
def test_the_density_of_offers_is_that_of_their_prices_and_of_copies() -> None:
    """By hand: what is common to both prices lies in a rounding cell, what turns them against each other is normal."""
    pytest.importorskip("numpyro", reason="the extra bayes is not installed")
    from numpyro.infer.util import log_density

    data = table([
        known("a", [("dev", 0.95, 4.0), ("x", 0.95, 4.0), ("z", 0.5, 2.0)], active=10.0, total=100.0),
        known("b", [("x", 1.0, 3.0)], active=30.0, total=30.0),
    ])  # fmt: skip
    own, leaning, sharing, hosts = [0.3, -0.7], [0.4, 1.1], [-0.2, 0.6], [0.5, -0.3, 0.9]
    point = {
        "level": -3.0, "economy": 0.2, "chunk": 9.0, "batch": 6.0, "model_misfit": 0.6, "ratio_misfit": 0.3,
        "batch_spread": 0.5, "host_effect": 0.4, "offer_spread": 0.35, "ratio_spread": 0.25, "copying": 0.3,
        "level_raw": np.array(own), "ratio_raw": np.array(leaning), "batch_raw": np.array(sharing),
        "host_raw": np.array(hosts),
    }  # fmt: skip
    _, trace = log_density(model_of_offers, (data,), {}, point)
    total = 0.0
    for model, host, (into, out), cell, copied in (
        (0, 0, (0.95, 4.0), (0.005 / 0.95 + 0.05 / 4.0) / 2, False),
        (0, 1, (0.95, 4.0), (0.005 / 0.95 + 0.05 / 4.0) / 2, True),
        (0, 2, (0.5, 2.0), (0.005 / 0.5 + 0.05 / 2.0) / 2, False),
        (1, 1, (1.0, 3.0), (0.05 / 1.0 + 0.05 / 3.0) / 2, False),
    ):
        if copied:
            total += np.log(0.3)
            continue
        active, reads = np.log([10.0, 30.0][model]), RIDGE * [10.0, 1.0][model]
        base = -3.0 + 0.8 * active + 0.6 * own[model] + 0.4 * hosts[host]
        says_in = base + np.log1p(reads / np.exp(9.0))
        says_out = base + 0.3 * leaning[model] + np.log1p(reads / np.exp(6.0 + 0.5 * sharing[model]))
        off_in, off_out = np.log(into) - says_in, np.log(out) - says_out
        middle = (off_in + off_out) / 2
        inside = norm.cdf((middle + cell) / 0.35) - norm.cdf((middle - cell) / 0.35)
        total += np.log(0.7) + np.log(inside) + norm.logpdf(off_out - off_in, scale=0.25)
    assert float(trace["offers"]["fn"].log_factor) == pytest.approx(total, rel=1e-3)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_what_made_the_offers_is_found_again() -> None:
    """Thirty models at twelve hosts; each truth in its 90 % range, give or take chance, and hosts in their order."""
    pytest.importorskip("numpyro", reason="the extra bayes is not installed")
    random = np.random.default_rng(3)
    truth = {"level": 0.02, "economy": 0.25, "batch": 400.0, "host_effect": 0.4, "copying": 0.4, "offer_spread": 0.15}
    effects = 0.4 * random.standard_normal(12)
    models = []
    for place in range(30):
        active, sparsity = random.uniform(0.5, 4.5), random.choice([0.0, random.uniform(1.5, 3.5)])
        level = np.log(0.02) + 0.3 * random.standard_t(4)
        batch = np.log(400.0) + 0.3 * random.standard_normal()
        into, out = log_prices(
            np.array(active), np.array(sparsity), np.array(batch), np.array(level), np.array(0.25), np.log(6000.0)
        )
        lean = 0.2 * random.standard_normal()
        offers = []
        for host in range(12):
            if offers and random.random() < 0.4:
                offers.append((f"h{host:02}", *offers[0][1:]))
                continue
            shared = effects[host] + 0.15 * random.standard_normal()
            turned = 0.1 * random.standard_normal()
            pair = np.exp([into + shared - turned / 2, out + lean + shared + turned / 2])
            offers.append((f"h{host:02}", *(float(f"{price:.2g}") for price in pair)))
        models.append(known(f"m{place}", offers, float(np.exp(active)), float(np.exp(active + sparsity))))
    found = fit_pooled(models, draws=200, warmup=300)
    assert found.divergences <= 8
    inside = [found.quantities[name].low90 <= value <= found.quantities[name].high90 for name, value in truth.items()]
    assert sum(inside) >= 5, {name: found.quantities[name] for name in truth}
    assert found.quantities["copying"].median == pytest.approx(0.4, abs=0.08)
    assert np.corrcoef(np.log(list(found.hosts.values())), effects)[0, 1] > 0.95
