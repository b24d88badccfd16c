"""The points of a sweep, checked before the first is run, and the Dataset their figures become."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from narrows import _native, own
from narrows.quantities import QUANTITIES, measure, unit, with_unit
from narrows.runs import Point, _sets, _source, points
from narrows.scenario import Scenario
from narrows.short import lengthen, long, unit_in
from narrows.sweeps import tables
from narrows.sweeps.drive import Row
from narrows.sweeps.work import Run
from narrows.tables import to_table
from narrows.words import of_python


@dataclass(frozen=True)
class Axis:
    """A dimension: the keys that change along it (one, or several side by side) and their labels."""

    name: str
    labels: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def index(self) -> tuple[Any, dict[str, str]]:
        """Labels of a dimension along which several keys change: their common number, else the words of all, so that
        it can be selected and drawn."""
        several = list(self.labels.values())
        if all(labels == several[0] for labels in several):
            return _labels(self.name, several[0])
        return np.asarray([", ".join(map(str, row)) for row in zip(*several)]), {}


@dataclass(frozen=True)
class Grid:
    """Every run of a sweep, row by row in the order of ``axes``."""

    axes: list[Axis]
    runs: list[Run]
    text: str

    @classmethod
    def of(
        cls,
        scenario: Scenario | str | os.PathLike[str],
        over: Mapping[Any, Iterable[Any]] | None,
        seeds: Iterable[int] | str | None,
        set: Mapping[str, Any] | None,
    ) -> Grid:
        """The grid of what is asked.

        Raises:
            ValueError: names key and point of what the reader of scenario files refuses.
        """
        text, file = _source(scenario)
        asked: Asked = {} if over is None else _values(over, file)
        fixed = lengthen(set or {}, text, file)
        full = _in_full(asked, text, file)
        units = {key: unit_in(meant, text, file) for key, meant in full.items()}
        asked = {keys: _with_units(pairs, [units[key] for key in keys]) for keys, pairs in asked.items()}
        if seeds is not None:
            if not isinstance(seeds, (str, Iterable)):
                problem = f"= {seeds!r}: expected a list of whole numbers, or text as '1..10'"
                raise _native.refusal("seeds", problem, file)
            fixed["seeds"] = seeds if isinstance(seeds, str) else list(seeds)
        for key in full:
            if full[key] in fixed:
                raise _native.refusal(key, "is both in over and set: expected in one of them", file)
        blocks = []
        for values in itertools.product(*(pairs.values() for pairs in asked.values())):
            settings = _flat(dict(zip(asked, values)))
            try:
                placed = {full[key]: value for key, value in settings.items()}
                with of_python(isinstance(scenario, Scenario)):
                    told = _native.expand(text, file, _sets(fixed | placed, text, file))
            except _native.ScenarioError as why:
                where = ", ".join(filter(None, [_words(settings), why.point]))
                problem = f"{why.problem} (at {where})" if where else why.problem
                raise _native.refusal(why.key, problem, why.file) from None
            blocks.append(points(told, file))
        _same_everywhere(blocks, asked, file)
        axes = [Axis("+".join(keys), _columns(keys, labels)) for keys, labels in asked.items()] + _own(blocks[0])
        _names_differ(axes, file)
        # A worker's folder is another one.
        path = None if file is None else os.path.abspath(file)
        # Seeds of a point share its text, here and on the way to a worker.
        texts: dict[str, str] = {}
        runs = [
            Run(p.key, _where(p, asked, i), texts.setdefault(p.scenario, p.scenario), path, p.seed)
            for i, b in enumerate(blocks)
            for p in b
        ]
        return cls(axes, runs, text)

    def dataset(self, xarray: Any, rows: Mapping[str, Row]) -> Any:
        """A variable for each figure, NaN where a run has none.

        ``rows`` has each run by its key. A figure that is called as something that is swept, as
        ``loss``, is ``figure_loss``.
        """
        shape = [len(axis) for axis in self.axes]
        dims = [axis.name for axis in self.axes]
        kinds = {row.names for row in rows.values()}
        figures = sorted(set().union(*kinds))
        at = {names: [figures.index(name) for name in names] for names in kinds}
        values = np.full((len(figures), len(self.runs)), np.nan)
        for i, run in enumerate(self.runs):
            row = rows[run.key]
            values[at[row.names], i] = row.values
        coords = self.coords(self.axes)
        names = _free(figures, {*dims, *coords})
        columns = {name: (dims, row.reshape(shape), _unit(name)) for name, row in zip(names, values)}
        about = {"narrows": _native.VERSION, "engine": _native.ENGINE, "scenario": self.text}
        return xarray.Dataset(columns, coords=coords, attrs=about)

    def coords(self, axes: Iterable[Axis]) -> dict[str, Any]:
        """The coordinates of some of its dimensions, as xarray takes them."""
        axes = list(axes)
        index = {axis.name: (axis.name, *axis.index()) for axis in axes if axis.name not in axis.labels}
        labels = {key: (axis.name, *_labels(key, labels)) for axis in axes for key, labels in axis.labels.items()}
        return index | labels

    def asking(self, names: tuple[str, ...]) -> Grid:
        """Returns the grid with tables requested from every run."""
        return replace(self, runs=[replace(run, tables=names) for run in self.runs])

    def tables(self, names: Iterable[str], rows: Mapping[str, Row]) -> dict[str, _native.Table]:
        """The tables of all runs under each other, each row with the coordinates of its run, by name."""
        place = np.unravel_index(np.arange(len(self.runs)), [len(axis) for axis in self.axes])
        labels = {
            key: _plain_labels(_labels(key, values)[0])[at]
            for axis, at in zip(self.axes, place)
            for key, values in axis.labels.items()
        }
        joined = {}
        for name in names:
            runs = [rows[run.key].tables[name] for run in self.runs]
            columns = list(dict.fromkeys(c for run in runs if run is not None for c in run.columns))
            joined[name] = tables.joined(name, runs, labels, dict(zip(columns, _free(columns, labels))))
        return joined


Keys = tuple[str, ...]
Pairs = dict[tuple[Any, ...], tuple[Any, ...]]
"""Values by label."""
Asked = dict[Keys, Pairs]
"""Values by label, for each group of keys that change together; mostly a single key."""


def _values(over: Mapping[Any, Iterable[Any]], file: str | None) -> Asked:
    if not isinstance(over, Mapping):
        raise _native.refusal("over", f"= {over!r}: expected a dict of keys, each with a list of values", file)
    found: Asked = {}
    for key, values in over.items():
        keys = key if isinstance(key, tuple) and key else (key,)
        for part in keys:
            if not isinstance(part, str):
                raise _native.refusal("over", f"has a key {part!r}: expected text, as 'traffic.0.flows'", file)
            if part == "seeds":
                raise _native.refusal("seeds", "is no key to sweep over: expected the argument seeds=", file)
        name = "+".join(keys)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise _native.refusal(name, f"= {values!r}: expected a list of values", file)
        found[keys] = {}
        for label, value in _pairs(keys, values, file):
            if label in found[keys]:
                shown = label[0] if len(keys) == 1 else label
                raise _native.refusal(name, f"has {shown!r} twice: expected different values", file)
            found[keys][label] = value
        if not found[keys]:
            raise _native.refusal(name, "has no values: expected one at least", file)
    return found


def _in_full(asked: Asked, text: str, file: str | None) -> dict[str, str]:
    """Full name of each key of ``over``; refuses two names for one key."""
    full: dict[str, str] = {}
    for key in (key for keys in asked for key in keys):
        meant = long(key, text, file)
        if meant in full.values():
            other = next(k for k, v in full.items() if v == meant)
            raise _native.refusal(key, f"names the same key as {other}: expected it once", file)
        full[key] = meant
    return full


def _with_units(pairs: Pairs, units: Sequence[str | None]) -> Pairs:
    """Bare numbers of seconds or bit/s as text with a unit, which their labels are too."""
    made: Pairs = {}
    for labels, values in pairs.items():
        told = tuple(with_unit(to_table(value), unit) for value, unit in zip(values, units))
        made[tuple(label if label != value else new for label, value, new in zip(labels, values, told))] = told
    return made


def _pairs(
    keys: Keys, values: Iterable[Any], file: str | None
) -> Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Labels and values, one of each for every key."""
    if len(keys) == 1:
        named = isinstance(values, Mapping)
        for item in values.items() if isinstance(values, Mapping) else values:
            label, value = item if named else (_label(item, keys[0]), item)
            yield (label,), (_plain(value),)
        return
    for row in values:
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes)) or len(row) != len(keys):
            name = "+".join(keys)
            raise _native.refusal(name, f"has {row!r}: expected a value for each of {', '.join(keys)}", file)
        yield tuple(_label(v, key) for v, key in zip(row, keys)), tuple(_plain(v) for v in row)


def _columns(keys: Keys, labels: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {key: [label[i] for label in labels] for i, key in enumerate(keys)}


def _flat(settings: Mapping[Keys, tuple[Any, ...]]) -> dict[str, Any]:
    return {key: value for keys, values in settings.items() for key, value in zip(keys, values)}


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's, a whole one as such, so that ``numpy.linspace`` gives numbers of flows."""
    if isinstance(value, np.floating) and float(value).is_integer():
        return int(value)
    return value.item() if isinstance(value, np.generic) else value


def _label(value: Any, key: str) -> Any:
    """A number, text or truth is its own label; what is more than that is called by its TOML."""
    value = _plain(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    return own.name(value) if own.is_part(value) else _native.toml_value(own.within(to_table(value), key), key)


def _same_everywhere(
    blocks: Sequence[Sequence[Point]], asked: Asked, file: str | None
) -> None:
    """Refuses a scenario whose own sweep, or seeds, another value of ``over`` changes: its labels would be wrong
    there."""

    def own(block: Sequence[Point]) -> list[Any]:
        return [(dict(p.coords), p.seed) for p in block]

    first = own(blocks[0])
    for i, block in enumerate(blocks):
        if own(block) == first:
            continue
        # Blocks with some of these values replaced by their first came before this one, and were as the first.
        here, there = _asked(asked, i), _asked(asked, 0)
        by = {key: value for key, value in here.items() if value != there[key]}
        had, has = (list(dict.fromkeys(_words(p.coords) for p in points)) for points in (blocks[0], block))
        sizes = f"{len(had)} points", f"{len(has)} points"
        was, now = next(((a, b) for a, b in zip(had, has) if a != b), sizes)
        raise _native.refusal(
            next(iter(by)),
            f"changes the scenario's own sweep: {was} at {_words({key: there[key] for key in by})}, "
            f"{now} at {_words(by)}: "
            "expected the same points everywhere; name what is swept there in over too, or make a sweep for each",
            file,
        )


def _names_differ(axes: list[Axis], file: str | None) -> None:
    """Refuses two dimensions, or a dimension and a coordinate, of one name."""
    names = Counter(axis.name for axis in axes)
    names.update(key for axis in axes for key in axis.labels if key != axis.name)
    for name, times in names.items():
        if times > 1:
            problem = "names two dimensions of the Dataset: expected it once; give what is swept in [vars] another name"
            raise _native.refusal(name, problem, file)


def _free(figures: Sequence[str], taken: Collection[str]) -> list[str]:
    """The figures' names, such that none is taken."""
    names = []
    for figure in figures:
        name = figure
        while name in taken or (name != figure and name in figures):
            name = f"figure_{name}"
        names.append(name)
    return names


def _labels(key: str, labels: list[Any]) -> tuple[Any, dict[str, str]]:
    """As an array, with attributes. Measures are numbers in the unit they name; words beside numbers stay what they
    are, which an array of numpy's own types cannot hold."""
    for base, scales in QUANTITIES.items():
        measured = [measure(label, scales) for label in labels]
        if all(number is not None for number in measured):
            return np.asarray(measured), {"units": base, "long_name": key}
    kinds = {str if isinstance(v, str) else bool if isinstance(v, bool) else float for v in labels}
    if len(kinds) < 2:
        return np.asarray(labels), {}
    mixed = np.empty(len(labels), dtype=object)
    mixed[:] = labels
    return mixed, {}


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    """As a column of a table can have them: no numbers below 0 among whole ones, and words where kinds are mixed."""
    if labels.dtype.kind == "O":
        return labels.astype(str)
    return labels.astype(float) if labels.dtype.kind == "i" and (labels < 0).any() else labels


def _own(points: list[Point]) -> list[Axis]:
    """The scenario's own sweep and its seeds: a dimension a key, or one for all where they are stepped side by side."""
    axes = []
    seeds = list(dict.fromkeys(p.seed for p in points))
    keys = list(points[0].coords)
    labels = {key: list(dict.fromkeys(p.coords[key] for p in points)) for key in keys}
    places = [p.coords for p in points[:: len(seeds)]]
    if [tuple(place.values()) for place in places] == list(itertools.product(*labels.values())):
        axes += [Axis(key, {key: _numbers(labels[key])}) for key in keys]
    else:
        axes.append(Axis("point", {key: _numbers([place[key] for place in places]) for key in keys}))
    return [*axes, Axis("seed", {"seed": seeds})]


def _numbers(words: list[str]) -> list[Any]:
    """As numbers, if all of them are."""
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            pass
    return list(words)


def _asked(asked: Asked, block: int) -> dict[str, Any]:
    """The labels of a block."""
    labels = {}
    for keys in reversed(list(asked)):
        block, at = divmod(block, len(asked[keys]))
        labels[keys] = list(asked[keys])[at]
    return _flat(dict(reversed(labels.items())))


def _where(point: Point, asked: Asked, block: int) -> str:
    """The point in words."""
    return _words(_asked(asked, block) | dict(point.coords) | {"seed": point.seed})


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _unit(figure: str) -> dict[str, str]:
    return {"units": unit(figure)} if unit(figure) else {}
