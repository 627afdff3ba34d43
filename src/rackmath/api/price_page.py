"""The ratios on a price page, and what each would imply under each hypothesis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any

from rackmath import units
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.errors import InputError
from rackmath.figures.price_page import page_figure
from rackmath.io import price_book, price_files
from rackmath.prices.evidence import HypothesisTest, ProviderHabits, RatioEvidence, read
from rackmath.prices.page import Change, Listing, ratios
from rackmath.prices.population import Population, population

_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A price page, a model of it, or all pages."""

    provider: Annotated[
        str | None,
        Option(
            help="Provider that genai-prices knows; all of them where none is named.",
            metavar="[PROVIDER]",
            argument=True,
        ),
    ] = None
    model: Annotated[str | None, Option(help="One model of the provider, and no other.")] = None
    date: Annotated[str | None, Option(help="Day of the prices, as in 2026-02-10 (default: today).")] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_page(r: PageRequest) -> Result:
    """Ratios of a price page: cliffs, output and cached over input, writes, batch, fast; and what each implies.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    at = units.day(r.date, "--date") if r.date else None
    if r.model is not None and r.provider is None:
        raise InputError("--model", r.model, "name its PROVIDER too")
    facts = pages(r.provider, r.model, at)
    return Result(request=r, facts=facts, draw=None if r.provider is None else lambda: page_figure(facts[0]))


def pages(provider: str | None, model: str | None, at: date | None) -> list[dict[str, Any]]:
    """Ratios, readings and changes of one provider, of one of its models, or of all providers."""
    everyone = price_book.listings(at=at)
    by_provider: dict[str, list[Listing]] = {}
    if provider is not None:
        by_provider[provider] = price_book.listings(provider, at)
    else:
        for provider_name in everyone:
            by_provider.setdefault(provider_name.prices.provider, []).append(provider_name)
    models, habits = population(price_files.market()), ProviderHabits(everyone)
    rows = [_page(name, listings, model, models, habits) for name, listings in by_provider.items()]
    for page in rows:
        page["changes"] = _changes(page["provider"], at)
    return rows


def _page(
    provider: str, listings: Sequence[Listing], only: str | None, models: Population, habits: ProviderHabits
) -> dict[str, Any]:
    """One provider's ratios; those that several models share stand once."""
    model_names = frozenset(listing.prices.model.rsplit("/", 1)[-1].lower() for listing in listings)
    selection = [listing for listing in listings if only in (None, listing.prices.model)]
    if not selection:
        raise InputError(
            "--model", only, f"{provider} sells {', '.join(sorted(model_names)) or 'no model by the token'}"
        )
    speeds = {listing.tier: listing.value for listing in price_files.facts().speed if listing.provider == provider}
    groups: defaultdict[tuple[str, float, float], list[tuple[float, RatioEvidence]]] = defaultdict(list)
    for listing in selection:
        for reading in read(listing, model_names, habits, models, speeds):
            key = reading.ratio.kind, float(f"{reading.ratio.value:.{_DIGITS}g}"), reading.ratio.start
            groups[key].append((listing.prices.tiers[0].input, reading))
    return {
        "provider": provider,
        "models": [_listed(listing) for listing in selection],
        "readings": [_group(kind, value, start, members) for (kind, value, start), members in groups.items()],
    }


def _listed(listing: Listing) -> dict[str, Any]:
    base = listing.prices.tiers[0]
    return {
        "model": listing.prices.model,
        "input": base.input,
        "cached_input": base.cached_input,
        "output": base.output,
        "ratios": [{"kind": r.kind, "value": r.value, "above": r.start or None} for r in ratios(listing)],
    }


def _group(kind: str, value: float, start: float, members: Sequence[tuple[float, RatioEvidence]]) -> dict[str, Any]:
    """A ratio with the hypotheses, for the model in the middle by price."""
    sorted_members = sorted(members, key=lambda member: member[0])
    middle = sorted_members[(len(sorted_members) - 1) // 2][1]
    return {
        "kind": kind,
        "value": value,
        "above": start or None,
        "models": [reading.model for _, reading in members],
        "evaluated_for": middle.model,
        "hypotheses": [_told(reading) for reading in middle.evidence],
    }


def _told(evidence: HypothesisTest) -> dict[str, Any]:
    return {
        "hypothesis": evidence.hypothesis,
        "predicted": evidence.predicted,
        "probability": evidence.probability,
        "log10_bayes_factor": evidence.log10_factor,
        "implies": evidence.implies or None,
        "implied": evidence.implied,
        "impossible": evidence.impossible,
    }


def _changes(provider: str, at: date | None) -> list[Change]:
    """What changed until a day, by genai-prices and by our own facts."""
    last = str(at or datetime.now(UTC).date())
    changes = [
        *price_book.history(provider),
        *(change for change in price_files.facts().change if change.provider == provider),
    ]
    return sorted((change for change in changes if change.day <= last), key=lambda change: (change.day, change.model))
