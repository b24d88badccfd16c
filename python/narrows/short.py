"""Short names of keys: ``flows`` is ``traffic.0.flows`` where nothing else can be meant."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Mapping
from typing import Any

from narrows import _native
from narrows.parts import Probes, Tcp
from narrows.scenario import Scenario
from narrows.tables import key_of, tables_of, units_of
from narrows.traffic import Traffic


def long(key: str, text: str, file: str | None) -> str:
    """The key in full: itself if the scenario has it or it has dots, else the one key of traffic, TCP or probes that
    ends so.

    Raises:
        ValueError: there are several; they are named.
    """
    if "." in key or key in _keys(Scenario):
        return key
    known, found = _meant(text, file)
    if key in known:
        return key
    meant = found.get(key, ())
    if len(meant) > 1:
        raise _native.refusal(key, f"could be {' or '.join(meant)}: expected one of these", file)
    if not meant and (near := difflib.get_close_matches(key, [*_keys(Scenario), *known, *found], n=1)):
        if near[0] not in _keys(Scenario):
            raise _native.refusal(key, f"no such key: expected {near[0]!r}?", file)
    return meant[0] if meant else key


def unit_in(key: str, text: str, file: str | None) -> str | None:
    """:func:`unit_at` of a key in full of a scenario, whose variables are plain numbers whatever they are called."""
    return None if "." not in key and key in _meant(text, file)[0] else unit_at(key)


def unit_at(key: str) -> str | None:
    """The unit that a bare number has at a key in full: ``s`` of ``traffic.0.start``, ``bit/s`` of ``rate``."""
    classes: list[type] = [Scenario]
    unit = None
    for part in key.split("."):
        if part.isdigit():
            continue
        unit = next((units_of(cls)[part] for cls in classes if part in units_of(cls)), None)
        within = [tables_of(cls)[part] for cls in classes if part in tables_of(cls)]
        classes = list(within)
        for cls in within:
            classes.extend(cls.__subclasses__())
    return unit


def lengthen(settings: Mapping[str, Any], text: str, file: str | None) -> dict[str, Any]:
    """The settings by their keys in full.

    Raises:
        ValueError: a key that is short for several, or two that are one.
    """
    made: dict[str, Any] = {}
    for key, value in settings.items():
        full = long(key, text, file) if isinstance(key, str) else key
        if full in made:
            raise _native.refusal(key, f"is there as {full} too: expected it once", file)
        made[full] = value
    return made


@functools.lru_cache(16)
def _meant(text: str, file: str | None) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """Names of the scenario's variables, and the full keys that each short key may stand for."""
    tables = _native.from_toml(text, file)
    found: dict[str, tuple[str, ...]] = {}
    traffic = tables.get("traffic")
    entries = [(f"traffic.{i}", entry) for i, entry in enumerate(traffic if isinstance(traffic, list) else [])]
    kinds: dict[str, type] = {c.kind: c for c in Traffic.__subclasses__()}
    places = [(path, kinds.get(str(entry.get("kind")))) for path, entry in entries if isinstance(entry, dict)]
    for path, cls in [*places, ("tcp", Tcp), ("probes", Probes)]:
        for key in _keys(cls) if cls is not None else ():
            found[key] = (*found.get(key, ()), f"{path}.{key}")
    variables = tables.get("vars")
    return frozenset(variables if isinstance(variables, dict) else ()), found


@functools.cache
def _keys(cls: type) -> frozenset[str]:
    return frozenset(filter(None, map(key_of, dataclasses.fields(cls))))
