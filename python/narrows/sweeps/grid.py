"""The points of a sweep, checked before the first is run, and the Dataset their figures become."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from narrows import _native
from narrows.runs import Point, _sets, _source
from narrows.scenario import Scenario
from narrows.sweeps.work import Run
from narrows.tables import to_table

UNITS = {"_s": "s", "_ms": "ms", "_bps": "bit/s", "_kbps": "kbit/s", "_pkts": "packets", "_bytes": "bytes"}
"""What a figure's name may end in (docs/reference/probes.md)."""


@dataclass(frozen=True)
class Axis:
    """A dimension: the keys that change along it (one, or several side by side) and their labels."""

    name: str
    labels: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))


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
        over: Mapping[str, Iterable[Any]] | None,
        seeds: Iterable[int] | str | None,
        set: Mapping[str, Any] | None,
    ) -> Grid:
        """The grid of what is asked.

        Raises:
            ValueError: names key and point of what the reader of scenario files refuses.
        """
        text, file = _source(scenario)
        asked = {} if over is None else _values(over, file)
        fixed = dict(set or {})
        if seeds is not None:
            if not isinstance(seeds, (str, Iterable)):
                problem = f"= {seeds!r}: expected a list of whole numbers, or text as '1..10'"
                raise _native.refusal("seeds", problem, file)
            fixed["seeds"] = seeds if isinstance(seeds, str) else list(seeds)
        for key in asked:
            if key in fixed:
                raise _native.refusal(key, "is both in over and set: expected in one of them", file)
        blocks = []
        for values in itertools.product(*(pairs.values() for pairs in asked.values())):
            settings = dict(zip(asked, values))
            try:
                told = _native.expand(text, file, _sets(fixed | settings))
            except _native.ScenarioError as why:
                where = ", ".join(filter(None, [_words(settings), why.point]))
                problem = f"{why.problem} (at {where})" if where else why.problem
                raise _native.refusal(why.key, problem, why.file) from None
            blocks.append([Point(**point, file=file) for point in told])
        _same_everywhere(blocks, asked, file)
        axes = [Axis(key, {key: list(labels)}) for key, labels in asked.items()] + _own(blocks[0])
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

    def dataset(self, xarray: Any, summaries: Mapping[str, tuple[tuple[str, ...], Sequence[float]]]) -> Any:
        """A variable for each figure, NaN where a run has none.

        ``summaries`` has names and values of each run by its key. A figure that is called as
        something that is swept, as ``loss``, is ``figure_loss``.
        """
        shape = [len(axis) for axis in self.axes]
        dims = [axis.name for axis in self.axes]
        kinds = {names for names, _ in summaries.values()}
        figures = sorted(set().union(*kinds))
        at = {names: [figures.index(name) for name in names] for names in kinds}
        values = np.full((len(figures), len(self.runs)), np.nan)
        for i, run in enumerate(self.runs):
            has, row = summaries[run.key]
            values[at[has], i] = row
        coords = {key: (axis.name, _labels(labels)) for axis in self.axes for key, labels in axis.labels.items()}
        names = _free(figures, {*dims, *coords})
        columns = {name: (dims, row.reshape(shape), _unit(name)) for name, row in zip(names, values)}
        about = {"narrows": _native.VERSION, "engine": _native.ENGINE, "scenario": self.text}
        return xarray.Dataset(columns, coords=coords, attrs=about)


def _values(over: Mapping[str, Iterable[Any]], file: str | None) -> dict[str, dict[Any, Any]]:
    """For each key its values by label."""
    if not isinstance(over, Mapping):
        raise _native.refusal("over", f"= {over!r}: expected a dict of keys, each with a list of values", file)
    found: dict[str, dict[Any, Any]] = {}
    for key, values in over.items():
        if not isinstance(key, str):
            raise _native.refusal("over", f"has a key {key!r}: expected text, as 'traffic.0.flows'", file)
        if key == "seeds":
            raise _native.refusal("seeds", "is no key to sweep over: expected the argument seeds=", file)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise _native.refusal(key, f"= {values!r}: expected a list of values", file)
        pairs = values.items() if isinstance(values, Mapping) else [(_label(value, key), value) for value in values]
        found[key] = {}
        for label, value in pairs:
            if label in found[key]:
                raise _native.refusal(key, f"has {label!r} twice: expected different values", file)
            found[key][label] = value
        if not found[key]:
            raise _native.refusal(key, "has no values: expected one at least", file)
    return found


def _label(value: Any, key: str) -> Any:
    """A number, text or truth is its own label; what is more than that is called by its TOML."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else _native.toml_value(to_table(value), key)


def _same_everywhere(
    blocks: Sequence[Sequence[Point]], asked: Mapping[str, Mapping[Any, Any]], file: str | None
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


def _labels(labels: list[Any]) -> Any:
    """As an array; words beside numbers stay what they are, which an array of numpy's own types cannot hold."""
    kinds = {str if isinstance(v, str) else bool if isinstance(v, bool) else float for v in labels}
    if len(kinds) < 2:
        return np.asarray(labels)
    mixed = np.empty(len(labels), dtype=object)
    mixed[:] = labels
    return mixed


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


def _asked(asked: Mapping[str, Mapping[Any, Any]], block: int) -> dict[str, Any]:
    """The labels of a block."""
    labels = {}
    for key in reversed(list(asked)):
        block, at = divmod(block, len(asked[key]))
        labels[key] = list(asked[key])[at]
    return dict(reversed(labels.items()))


def _where(point: Point, asked: Mapping[str, Mapping[Any, Any]], block: int) -> str:
    """The point in words."""
    return _words(_asked(asked, block) | dict(point.coords) | {"seed": point.seed})


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _unit(figure: str) -> dict[str, str]:
    return next(({"units": unit} for end, unit in UNITS.items() if figure.endswith(end)), {})
