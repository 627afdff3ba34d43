"""Which tokens are drafted by what, and how often they are taken: one reading of the options of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from rackmath.api.subjects import load_model
from rackmath.engine.constants import EngineVersion
from rackmath.errors import InputError
from rackmath.io import constants_file
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.eagle import EAGLE3, typical_head

MOST = 64
"""Tokens that may be drafted for one step; measured services draft up to 32. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Speculative decoding of one deployment."""

    draft_tokens: int
    chances: tuple[float, ...]
    """Chance that the draft at each position is accepted, given that those before it were. (draft_tokens,)"""
    note: str
    """What drafts, and where the chances come from."""

    @property
    def accepted(self) -> float:
        r"""Tokens that a step yields in the mean: its own, and each draft accepted with all before it. [tokens]

        .. math:: 1 + a_1 + a_1 a_2 + \dots

        Source: Leviathan, Kalman and Matias 2023, equation 1, with a chance per position.
        """
        runs: Iterator[float] = accumulate(self.chances, mul)
        return 1.0 + sum(runs)

    @property
    def chance(self) -> float:
        """The one chance of all positions.

        Errors: :class:`InputError` where they differ.
        """
        if len(set(self.chances)) > 1:
            raise InputError("--acceptance", ",".join(map(str, self.chances)), "write one chance for all positions")
        return self.chances[0] if self.chances else 0.0


def draft_model_of(model: str | Architecture | None, target: Architecture) -> Architecture | None:
    """The model that drafts: by name, by path, or ``eagle3`` for a typical head of the target; None without any.

    Errors: :class:`InputError` for unknown names, and for a head of another target.
    """
    if not model:
        return None
    draft = typical_head(target) if model == EAGLE3 else load_model(model)
    if draft.target_hidden not in (None, target.hidden):
        raise InputError(
            "--draft-model", draft.name, f"reads states {draft.target_hidden} wide, not {target.hidden} wide"
        )
    return draft


def drafting(
    architecture: Architecture,
    engine: EngineVersion,
    draft_tokens: float,
    acceptance: str | None,
    draft: Architecture | None,
) -> Drafting:
    """Read what was given of speculative decoding.

    Parameters
    ----------
    draft_tokens : float
        Tokens that a step speculates, the most where several numbers are tried. [tokens]
    acceptance : str, optional
        One chance for all positions, or one per position with commas between them; by default the fitted one.
    draft : Architecture, optional
        The model that drafts.

    Errors: :class:`InputError` for numbers out of range, for a draft model whose drafts nobody takes, and for drafts
    of which nothing says who makes them.
    """
    if not 0 <= draft_tokens <= MOST or draft_tokens != int(draft_tokens):
        raise InputError("--draft-tokens", draft_tokens, f"write a whole number from 0 to {MOST}")
    many = int(draft_tokens)
    if draft is not None and not many:
        raise InputError("--draft-model", draft.name, "drafts nothing: give --draft-tokens as well")
    if not many:
        if acceptance is not None:
            raise InputError("--acceptance", acceptance, "nothing is drafted: give --draft-tokens as well")
        why = (
            "--draft-tokens 0"
            if architecture.mtp
            else f"{architecture.name} brings no layers for it (see --draft-tokens)"
        )
        return Drafting(draft_tokens=0, chances=(), note=f"no speculative decoding: {why}")
    if draft is None and not architecture.mtp and acceptance is None:
        raise InputError(
            "--draft-tokens",
            many,
            f"{architecture.name} brings no layers that draft: name a --draft-model, or give the --acceptance of"
            " drafts that are looked up in the text",
        )
    chances = _chances(acceptance, many) or (float(constants_file.scheduling_of(engine).acceptance),) * many
    source = (
        f"accepted as given, {', '.join(f'{a:g}' for a in dict.fromkeys(chances))} given those before"
        if acceptance is not None
        else f"each accepted with chance {chances[0]:.2f} given those before, fitted on layers that models bring"
    )
    if draft is not None:
        size = f" ({total_params(draft) / 1e6:,.0f} M parameters)" if draft.target_hidden is not None else ""
        maker = f"tokens are drafted by {draft.name}{size}, one pass each, in memory beside {architecture.name}"
    elif architecture.mtp:
        maker = f"tokens are drafted by {architecture.name}'s own layers"
    else:
        maker = "tokens are drafted by looking up the text (n-grams), at no cost of their own"
    return Drafting(draft_tokens=many, chances=chances, note=f"{maker}; {source}")


def _chances(text: str | None, many: int) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        chances = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError("--acceptance", text, "write chances from 0 to 1 with commas between them") from error
    if not all(0 <= a <= 1 for a in chances):
        raise InputError("--acceptance", text, "write chances from 0 to 1")
    if len(chances) not in (1, many):
        raise InputError("--acceptance", text, f"write one chance, or {many}, one per drafted token")
    return chances * many if len(chances) == 1 else chances
