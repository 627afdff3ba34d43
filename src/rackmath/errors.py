"""What can go wrong, and how it is said.

The tree::

    RackmathError
    |-- InputError       a field has a value that cannot be used
    |   `-- NotUnderstood   a field is understood by nobody here: refuse rather than guess
    `-- DoesNotFit       a well-formed question whose answer is "not on this machine"

Every error names the field, the value and the way out. The command line turns
any of them into one line on standard error and exit status 2.
"""

from __future__ import annotations

_LONGEST_VALUE = 80


class RackmathError(Exception):
    """Base of all errors that a caller may want to show to a person."""


class InputError(RackmathError, ValueError):
    """A field has a value that cannot be used.

    Parameters
    ----------
    field : str
        Where the value stands, as the user wrote it.
    value : object
        The value, shown shortened.
    way_out : str
        What to write instead.
    """

    def __init__(self, field: str, value: object, way_out: str) -> None:
        super().__init__(field, value, way_out)
        self.field = field
        self.value = value
        self.way_out = way_out

    def __str__(self) -> str:
        """Return ``field = value: way out`` on one line."""
        return f"{self.field} = {_shown(self.value)}: {_one_line(self.way_out)}"


class NotUnderstood(InputError):
    """A field is well formed, but computing on would be guessing."""


class DoesNotFit(RackmathError):
    """The model, its cache or its layout does not fit the machine."""

    def __init__(self, subject: str, way_out: str) -> None:
        super().__init__(subject, way_out)
        self.what = subject
        self.way_out = way_out

    def __str__(self) -> str:
        """Return ``what: way out`` on one line."""
        return f"{_one_line(self.what)}: {_one_line(self.way_out)}"


def _shown(value: object) -> str:
    text = _one_line(repr(value))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _one_line(text: str) -> str:
    return " ".join(text.split())
