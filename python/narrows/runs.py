"""Scenarios run: one at a time here, many with :func:`narrows.sweep`."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from narrows import _native, own
from narrows.quantities import with_unit
from narrows.results import Result
from narrows.scenario import Scenario
from narrows.short import lengthen, unit_in
from narrows.tables import to_table
from narrows.words import of_python


@dataclass(frozen=True)
class Point:
    """One run of a scenario, resolved and checked."""

    coords: Mapping[str, str]
    """Where it lies: each swept key and its value; empty if nothing is swept."""
    seed: int
    """Decides all that is random."""
    key: str
    """A hash over all that decides its results: scenario, seed, version, engine."""
    scenario: str
    """TOML that runs by itself, with nothing swept."""
    file: str | None = None
    """Where it came from; files the scenario names lie beside it."""

    @overload
    def run(self, stop: None = None) -> Result: ...
    @overload
    def run(self, stop: _native.Stop) -> Result | None: ...
    def run(self, stop: _native.Stop | None = None) -> Result | None:
        """Simulates it. See :func:`run`."""
        return _result(_native.run(self.scenario, self.file, [], self.seed, stop, own.brought()))


def expand(scenario: Scenario | str | os.PathLike[str], set: Mapping[str, Any] | None = None) -> list[Point]:
    """All runs of a scenario: every point of its sweep under every seed, in the order of all results.

    Nothing is simulated. Takes what :func:`run` takes.
    """
    text, file = _source(scenario)
    with of_python(isinstance(scenario, Scenario)):
        told = _native.expand(text, file, _sets(set, text, file))
    return points(told, file)


@overload
def run(
    scenario: Scenario | str | os.PathLike[str],
    seed: int | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    stop: None = None,
) -> Result: ...
@overload
def run(
    scenario: Scenario | str | os.PathLike[str],
    seed: int | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    stop: _native.Stop,
) -> Result | None: ...
def run(
    scenario: Scenario | str | os.PathLike[str],
    seed: int | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    stop: _native.Stop | None = None,
) -> Result | None:
    """Simulates one run.

    Args:
        scenario: a scenario, or the path of a scenario file (``docs/reference/scenarios.md``).
        seed: decides all that is random; without it the first of the scenario's.
        set: settings to replace, as ``{"duration": "30s", "traffic.0.users": 50}``; what is set is no longer swept. A
            key of traffic, TCP or probes may be short, as ``users``, where one only can be meant.
        stop: ends the run early from another thread.

    Returns:
        The run's figures and tables; None if ``stop`` was set.

    Raises:
        ValueError: names file, key and remedy; so does a scenario that is swept and has more than one point.
        OSError: the file cannot be read.
        KeyboardInterrupt: within a fraction of a second after Ctrl-C.

    Other threads go on meanwhile. The same scenario and seed give the same results on every machine.
    """
    text, file = _source(scenario)
    with of_python(isinstance(scenario, Scenario)):
        return _result(_native.run(text, file, _sets(set, text, file), _seed(seed), stop, own.brought()))


def points(told: Iterable[Mapping[str, Any]], file: str | None) -> list[Point]:
    """The runs that the reader of scenarios tells of; a class in them goes by its name."""
    return [Point(**{**point, "coords": own.shown(point["coords"])}, file=file) for point in told]


def _result(told: dict[str, Any] | None) -> Result | None:
    if told is None:
        return None
    if names := own.names(told["manifest"]["scenario"]):
        told["manifest"]["own"] = names
    return Result(**told)


def _source(scenario: Scenario | str | os.PathLike[str]) -> tuple[str, str | None]:
    if isinstance(scenario, Scenario):
        return own.text_of(scenario.to_dict()), scenario.file
    if not isinstance(scenario, (str, os.PathLike)):
        kind = type(scenario).__name__
        raise _native.refusal("scenario", f"of type {kind}: expected a narrows.Scenario, or the path of a file")
    path = Path(scenario)
    return path.read_text(encoding="utf-8"), str(path)


def _seed(seed: int | None) -> int | None:
    """Whole numbers of numpy are whole numbers; a truth is none."""
    if seed is None:
        return None
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise _native.refusal("seed", f"= {seed!r}: expected a whole number from 0 to 2^64 - 1")
    return number


def _sets(settings: Mapping[str, Any] | None, text: str, file: str | None) -> list[str]:
    """As ``--set`` has them, keys in full; text stays text, whatever it looks like."""
    if not isinstance(settings, (Mapping, type(None))):
        raise _native.refusal("set", f"= {settings!r}: expected a dict of keys, each with its value")
    for key in settings or {}:
        if not isinstance(key, str):
            raise _native.refusal("set", f"has a key {key!r}: expected text, as 'traffic.0.flows'")
    full = lengthen(settings or {}, text, file)
    plain = {key: with_unit(own.within(to_table(value), key), unit_in(key, text, file)) for key, value in full.items()}
    return [f"{key}={_native.toml_value(value, key)}" for key, value in plain.items()]
