"""The papers' figures, run again and drawn: one function each, by paper.

>>> figure, table = narrows.figures.taq.fig08(size="quick")
>>> figure.savefig("fig08.svg")
>>> polars.DataFrame(table)

``dir(narrows.figures)`` has the papers, ``dir(narrows.figures.taq)`` the figures of one. A figure's runs are kept in
the folder that ``narrows reproduce`` uses, and found again by either. ``experiments/PAPER.figures.toml`` says what is
drawn over what; drawing needs matplotlib.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from narrows import _native
from narrows.near import among, one_of
from narrows.progress import Asked, told
from narrows.results import make_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

OUT = "out/reproduce"
"""Where runs and data are kept unless another folder is given; the same as that of ``narrows reproduce``."""


class Runs(TypedDict, total=False):
    """How the runs of a figure are made; each figure's function has the meanings."""

    out: str | os.PathLike[str]
    jobs: int | None
    fresh: bool
    experiments: str | os.PathLike[str] | None
    progress: Asked


USUAL: Runs = {"out": OUT, "jobs": None, "fresh": False, "experiments": None, "progress": False}
"""Defaults of the arguments."""


class Drawn(NamedTuple):
    """A figure of a paper, and the points it is drawn from."""

    figure: Figure
    """A matplotlib figure with an axes for each chart."""
    table: _native.Table
    """Every point: chart, line, from_paper (1 if read from the paper), x (word: where x is a word), y_least, y,
    y_greatest."""


class Claims(NamedTuple):
    """A figure and the outcomes of its claims."""

    drawn: Drawn
    claims: _native.Table
    """text, source, bound, outcome (holds, direction, fails, open), expected, worst, at."""


class Paper:
    """The figures of a paper, each a function; ``dir()`` lists them."""

    def __init__(self, name: str, listed: dict[str, Any]) -> None:
        self.name = name
        self._figures = {figure["id"].replace("-", "_"): figure for figure in listed["figure"]}
        self.__doc__ = f"{listed['title']}. {listed['authors']}. {listed['venue']}."

    def __getattr__(self, name: str) -> Callable[..., Drawn]:
        figures = self.__dict__.get("_figures", {})
        if name not in figures:
            expected = among(name, figures)
            raise AttributeError(f"{name}: {self.name} has no such figure: expected {expected}", name=name, obj=self)
        return _function(self.name, figures[name])

    def __dir__(self) -> list[str]:
        return list(self._figures)

    def __repr__(self) -> str:
        return f"<narrows.figures.{self.name.replace('-', '_')}: {self.__doc__}>"


def judge(paper: str, figure: str, size: str = "full", **how: Unpack[Runs]) -> Claims:
    """A figure with what came of its claims.

    Arguments as those of the figures' functions, names as ``"taq", "fig08"``.
    """
    section = _section(f"{paper}/{figure}", size, **how)
    return Claims(_drawn(section), _claims(section))


def _function(paper: str, listed: dict[str, Any]) -> Callable[..., Drawn]:
    def draw(size: str = "full", **how: Unpack[Runs]) -> Drawn:
        return _drawn(_section(f"{paper}/{listed['id']}", size, **how))

    draw.__name__ = draw.__qualname__ = listed["id"].replace("-", "_")
    draw.__doc__ = f"""{listed["item"]}: {listed["title"]}.

    Scenarios: {", ".join(listed["files"])}. {" ".join(listed.get("note", "").split())}

    Args:
        size: ``full`` as the scenarios have it, ``quick`` with fewer seeds and settings, ``least``: a few seconds of
            work.
        out: where runs are kept and found again, :data:`OUT`.
        jobs: runs at a time; without it as many as there are cores.
        fresh: run again what is finished.
        experiments: a folder of scenarios and lists in place of those of this version.
        progress: True shows how far the runs are, as :func:`narrows.sweep` does; a function is called with runs
            finished and runs in all.

    Returns:
        A matplotlib figure, and the table it is drawn from.

    Raises:
        ValueError: an unknown size; ``jobs`` that are no number from 1 on; a scenario that cannot be.
        OSError: a folder that cannot be written.
        ImportError: there is no matplotlib; nothing has run then.
        KeyboardInterrupt: on Ctrl-C, within a fraction of a second; finished runs are kept.
    """
    return draw


def _section(name: str, size: str, **how: Unpack[Runs]) -> dict[str, Any]:
    asked: Runs = {**USUAL, **how}
    if unknown := how.keys() - USUAL.keys():
        other = min(unknown)
        expected = one_of(other, ["size", *USUAL])
        raise TypeError(f"{name} got an unexpected keyword argument {other!r}: expected {expected}")
    # Before hours of work, not after.
    _matplotlib()
    runs = _jobs(asked["jobs"])
    with _folder(asked["experiments"]) as folder, told(asked["progress"], name) as tell:
        section: dict[str, Any] = json.loads(
            _native.reproduce(str(folder), os.fspath(asked["out"]), name, size, runs, asked["fresh"], tell)
        )
    return section


@contextmanager
def _folder(experiments: str | os.PathLike[str] | None) -> Iterator[str | os.PathLike[str]]:
    if experiments is not None:
        yield experiments
        return
    with tempfile.TemporaryDirectory(prefix="narrows-") as folder:
        for name, text in _native.experiments():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield folder


def _jobs(jobs: int | None) -> int:
    if jobs is None:
        return _cores()
    try:
        number = 0 if isinstance(jobs, bool) else operator.index(jobs)
    except TypeError:
        number = 0
    if not 1 <= number <= 4096:
        raise _native.refusal("jobs", f"= {jobs!r}: expected a whole number from 1 to 4096, or None for all cores")
    return number


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _drawn(section: dict[str, Any]) -> Drawn:
    return Drawn(_figure(section["charts"]), _points(section["charts"]))


def _points(charts: list[dict[str, Any]]) -> _native.Table:
    rows = [
        (chart["title"], line["name"], line["paper"], point[0], _word(chart, point[0]), *point[1:])
        for chart in charts
        for line in chart["lines"]
        for point in line["points"]
    ]
    names = ("chart", "line", "from_paper", "x", "word", "y_least", "y", "y_greatest")
    kinds = (str, str, np.uint64, np.float64, str, np.float64, np.float64, np.float64)
    return make_table(
        "points", {n: np.asarray([row[i] for row in rows], dtype=k) for i, (n, k) in enumerate(zip(names, kinds))}
    )


def _word(chart: dict[str, Any], x: float) -> str:
    words = chart["words"]
    return words[int(x)] if words and x == int(x) and 0 <= x < len(words) else ""


def _claims(section: dict[str, Any]) -> _native.Table:
    claims = section["claims"]
    columns: dict[str, Any] = {
        name: np.asarray([claim[name] for claim in claims], dtype=str)
        for name in ("text", "source", "sentence", "reading", "bound", "outcome", "expected")
    }
    columns["worst"] = np.asarray([np.nan if c["worst"] is None else c["worst"] for c in claims], dtype=np.float64)
    columns["at"] = np.asarray([" ".join(claim["at"]) for claim in claims], dtype=str)
    return make_table("claims", columns)


def _matplotlib() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ImportError("drawing needs matplotlib: pip install matplotlib") from missing
    return Figure


def _figure(charts: list[dict[str, Any]]) -> Figure:
    columns = min(2, max(1, len(charts)))
    rows = max(1, -(-len(charts) // columns))
    figure = _matplotlib()(figsize=(7 * columns, 4.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for chart, place in zip(charts, axes):
        _chart(chart, place)
    for place in axes[len(charts) :]:
        place.set_axis_off()
    return figure


def _chart(chart: dict[str, Any], axes: Axes) -> None:
    for line in chart["lines"]:
        x, least, y, greatest = np.asarray(line["points"], dtype=float).reshape(-1, 4).T
        style: dict[str, Any] = {
            "linestyle": "-" if chart["joined"] else "",
            "marker": "." if len(x) > 100 else "o",
            "markersize": 4,
        }
        if line["paper"]:
            style |= {"linestyle": "--", "marker": "", "color": "0.4"}
        (drawn,) = axes.plot(x, y, label=line["name"], **style)
        if (least < greatest).any():
            axes.fill_between(x, least, greatest, color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set(title=chart["title"], xlabel=chart["x_name"], ylabel=chart["y_name"])
    if chart["words"]:
        axes.set_xticks(range(len(chart["words"])), chart["words"])
    elif chart["log_x"]:
        axes.set_xscale("log")
    if chart["log_y"]:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if any(line["name"] for line in chart["lines"]):
        axes.legend(fontsize="small")


@functools.cache
def _papers() -> dict[str, Paper]:
    lists = {
        name.removesuffix(".figures.toml"): text
        for name, text in _native.experiments()
        if name.endswith(".figures.toml")
    }
    return {name.replace("-", "_"): Paper(name, _native.from_toml(text)) for name, text in lists.items()}


def __getattr__(name: str) -> Paper:
    papers = _papers() if not name.startswith("_") else {}
    if name not in papers:
        raise AttributeError(f"{name}: no such paper: expected {among(name, papers)}", name=name)
    return papers[name]


def __dir__() -> list[str]:
    return [*_papers(), "Claims", "Drawn", "Paper", "judge"]
