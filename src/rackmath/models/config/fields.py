"""Typed, bounded access to the keys of one ``config.json``.

Every read goes through :class:`Fields`, so the reader knows afterwards which keys
it used, which values it had to default and which keys nobody looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast

from rackmath.errors import InputError

NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "text_model_config")
"""Where the config of a model with other inputs holds that of its text model."""
HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "embedding_dim", "dim")
VOCABULARY = ("padded_vocab_size", "vocab_size")
CONTEXT = ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions", "model_max_length")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_blocks")
"""Spellings of fields that more than one file reads."""
LARGEST = {
    "layers": 4096,
    "heads": 65_536,
    "width": 4_194_304,
    "vocabulary": 16_777_216,
    "experts": 65_536,
    "tokens": 1 << 40,
    "count": 1 << 20,
}
"""Largest believable value of each kind of integer; beyond it a config is refused."""


@dataclass(slots=True)
class Fields:
    """A mapping of configuration keys with a memory of what was read.

    Parameters
    ----------
    data : mapping
        The (flattened) configuration.
    """

    data: Mapping[str, Any]
    used: set[str] = field(default_factory=set[str])
    defaulted: list[str] = field(default_factory=list[str])

    def has(self, *names: str) -> bool:
        """Whether any of the keys is present with a value other than null."""
        return any(self.data.get(name) is not None for name in names)

    def find(self, *names: str) -> tuple[str, Any] | None:
        """First key of ``names`` that has a value, with the value; marks all as read."""
        first: tuple[str, Any] | None = None
        for name in names:
            if name in self.data:
                self.used.add(name)
                if first is None and self.data[name] is not None:
                    first = name, self.data[name]
        return first

    def integer(self, *names: str, kind: str = "width", low: int = 1, default: int | None = None) -> int:
        """Read an integer within ``low`` and the believable limit of its kind.

        Errors: :class:`InputError` if it is missing without a default, has another
        type, or lies outside the limits.
        """
        entry = self.find(*names)
        if entry is None:
            if default is None:
                raise InputError(names[0], None, "the config has no such field; give its value")
            self.default(names[0], default)
            return default
        return checked_integer(*entry, kind=kind, low=low)

    def optional(self, *names: str, kind: str = "width", low: int = 0) -> int | None:
        """Read an integer or None, where absence has a meaning of its own."""
        entry = self.find(*names)
        return None if entry is None else checked_integer(*entry, kind=kind, low=low)

    def flag(self, *names: str, default: bool) -> bool:
        """Read true or false; absence is recorded as a default."""
        value = self.choice(*names)
        if value is None:
            self.default(names[0], default)
            return default
        return value

    def choice(self, *names: str) -> bool | None:
        """Read true, false or, where the key is absent, None."""
        entry = self.find(*names)
        if entry is None:
            return None
        name, value = entry
        if not isinstance(value, bool):
            raise InputError(name, value, "write true or false")
        return value

    def number(self, *names: str, default: float) -> float:
        """Read a finite positive number."""
        entry = self.find(*names)
        if entry is None:
            self.default(names[0], default)
            return default
        name, value = entry
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e4:
            raise InputError(name, value, "write a number above 0 and up to 10,000")
        return float(value)

    def text(self, *names: str) -> str | None:
        """Read a string or None."""
        entry = self.find(*names)
        if entry is None:
            return None
        name, value = entry
        if not isinstance(value, str):
            raise InputError(name, value, "write a string")
        return value

    def items(self, *names: str) -> list[Any] | None:
        """Read a list (or a string of comma-separated integers) or None."""
        entry = self.find(*names)
        if entry is None:
            return None
        name, value = entry
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
            value = [int(part) if part.isdigit() else part for part in value]
        if not isinstance(value, Sequence):
            raise InputError(name, value, "write a list with one entry per layer")
        entries = list(cast("Sequence[Any]", value))
        if len(entries) > LARGEST["layers"]:
            raise InputError(name, f"a list of {len(entries)} entries", f"at most {LARGEST['layers']} layers are read")
        return entries

    def mapping(self, *names: str) -> Mapping[str, Any] | None:
        """Read a nested object or None."""
        entry = self.find(*names)
        if entry is None:
            return None
        name, value = entry
        if not isinstance(value, Mapping):
            raise InputError(name, value, "write an object")
        return cast("Mapping[str, Any]", value)

    def per_layer(self, *names: str, layer: int, kind: str = "width", low: int = 0) -> int | None:
        """Read an integer that may be one per layer; lists are indexed by ``layer``."""
        entry = self.find(*names)
        if entry is None:
            return None
        name, value = entry
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            if not entries:
                return None
            if len(entries) > 1 and layer >= len(entries):
                raise InputError(name, f"a list of {len(entries)}", f"give one entry for layer {layer} too")
            value = entries[layer if len(entries) > 1 else 0]
        return checked_integer(name, value, kind=kind, low=low)

    def at_layer(self, layer: int) -> Fields:
        """Fields as layer ``layer`` sees them: ``per_layer_config`` overrides the rest."""
        overrides = self.mapping("per_layer_config")
        if overrides is None:
            return self
        for key in (str(layer), f"{layer:02d}", f"{layer:03d}"):
            override = overrides.get(key)
            if isinstance(override, Mapping):
                return Fields({**self.data, **cast("Mapping[str, Any]", override)}, self.used, self.defaulted)
        return self

    def default(self, name: str, value: object) -> None:
        """Record that ``name`` was absent and ``value`` was taken."""
        entry = f"{name}={value}"
        if entry not in self.defaulted:
            self.defaulted.append(entry)

    def ignore(self, names: Iterable[str]) -> None:
        """Mark keys as read: they are known to change no count."""
        self.used.update(name for name in names if name in self.data)


def checked_integer(name: str, value: object, *, kind: str, low: int) -> int:
    """Return ``value`` as an integer or raise :class:`InputError` naming the field."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(name, value, "write an integer")
    if isinstance(value, float):
        if not isfinite(value) or not value.is_integer():
            raise InputError(name, value, "write an integer")
        value = int(value)
    if value < low:
        raise InputError(name, value, f"write an integer of at least {low}")
    if value > LARGEST[kind]:
        raise InputError(name, value, f"no known model exceeds {LARGEST[kind]}; check the value")
    return value
