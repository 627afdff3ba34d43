"""What the quiz remembers of its cards: one file of the user's, with the schedule of spaced repetition.

``quiz-1.json`` in the folder of :func:`~rackmath.io.paths.own_folder` holds the state of each card as the package
``fsrs`` (Free Spaced Repetition Scheduler) keeps it, by the card's id. Delete it to begin anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rackmath.errors import InputError
from rackmath.io import paths, tables

if TYPE_CHECKING:
    import fsrs

_VERSION = 1
_LARGEST = 1 << 24
RATINGS: Mapping[int, str] = {1: "not at all", 2: "with effort", 3: "well", 4: "at once"}
"""How well an answer was known, as the scheduler takes it."""


def progress_path() -> Path:
    """File of what the quiz remembers."""
    return paths.own_folder() / f"quiz-{_VERSION}.json"


def read_progress() -> dict[str, fsrs.Card]:
    """State of the cards that were seen, by id; nothing where there is no file.

    Errors: :class:`~rackmath.errors.InputError` for a file that cannot be read or is none of the quiz's.
    """
    import fsrs

    path = progress_path()
    if not paths.is_file(path):
        return {}
    raw = tables.read_json(path, paths.FOLDER, _LARGEST)
    try:
        return {str(name): fsrs.Card.from_dict(state) for name, state in raw["cards"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            paths.FOLDER, str(path), "holds no progress of the quiz: move it away to begin anew"
        ) from error


def reviewed(progress: Mapping[str, fsrs.Card], name: str, rating: int, now: datetime) -> dict[str, fsrs.Card]:
    """Progress after one more answer.

    Parameters
    ----------
    name : str
        Id of the card.
    rating : int
        One of :data:`RATINGS`.
    now : datetime
        Time of the answer, with its zone.

    Errors: :class:`~rackmath.errors.InputError` for another rating.
    """
    import fsrs

    if rating not in RATINGS:
        raise InputError("rating", rating, f"write {', '.join(f'{k} ({v})' for k, v in RATINGS.items())}")
    # No random spread of the next dates: the same answers give the same schedule.
    scheduler = fsrs.Scheduler(enable_fuzzing=False)
    card, _ = scheduler.review_card(progress.get(name, fsrs.Card(card_id=0, due=now)), fsrs.Rating(rating), now)
    return {**progress, name: card}


def due_dates(progress: Mapping[str, fsrs.Card]) -> dict[str, datetime]:
    """When each card comes again."""
    return {name: card.due for name, card in progress.items()}


def write_progress(progress: Mapping[str, fsrs.Card]) -> Path:
    """Replace what the quiz remembers; the file appears whole or not at all.

    Errors: :class:`~rackmath.errors.InputError` where the folder cannot be written.
    """
    path = progress_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            paths.FOLDER, str(path.parent), f"cannot be made: {error.strerror}; name another folder"
        ) from error
    states: dict[str, Any] = {name: card.to_dict() for name, card in sorted(progress.items())}
    tables.write_text(path, json.dumps({"version": _VERSION, "cards": states}, indent=1) + "\n", paths.FOLDER)
    return path
