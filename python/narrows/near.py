"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

V = TypeVar("V")


def one_of(name: str, known: Iterable[str], most: int = 40) -> str:
    """End of the sentence ``expected ...`` for an unknown ``name``: the nearest known one, or those with the same
    beginning, or up to ``most`` of all."""
    names = list(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"{near[0]!r}?"
    names = [k for k in names if name and k.startswith(name)] or names
    return f"one of {', '.join(names[:most])}{', ...' if len(names) > most else ''}" if names else "none"


def among(name: str, known: Iterable[str]) -> str:
    """List of all known names, with the nearest one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"one of {', '.join(names)}{f'; did you mean {near[0]!r}?' if near else ''}"


class Named(dict[str, V]):
    """Things by name; one that is not there is a KeyError that says what may have been meant."""

    what: str

    @classmethod
    def of(cls, things: Mapping[str, V], what: str) -> Named[V]:
        """``what`` is what each of the things is, as ``figure``."""
        made = cls(things)
        made.what = what
        return made

    def __missing__(self, name: str) -> V:
        raise KeyError(Said(f"{name}: no such {self.what}: expected {one_of(str(name), self)}"))


class Said(str):
    """A sentence; KeyError shows the ``repr`` of what it is given, and would put it in quotes."""

    def __repr__(self) -> str:
        return str(self)
