"""Catalogue: queue disciplines with their settings, figures with their units.

Read from the pages of the reference, ``docs/reference/disciplines.md`` and ``probes.md``, as this version has them.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from narrows import _native
from narrows.near import Named
from narrows.quantities import unit
from narrows.runs import _sets, _source
from narrows.scenario import Scenario
from narrows.words import of_python


class Setting(NamedTuple):
    """A setting of a discipline, as in ``taq:p_admit=0.08``."""

    name: str
    default: str
    range: str
    meaning: str
    where: str = ""
    """With which other setting it means something, as ``mode=paper``."""


class Discipline(NamedTuple):
    """Other setting that must hold for this one to have a meaning, as ``mode=paper``."""

    name: str
    about: str
    settings: Mapping[str, Setting]
    """By name."""


class Metric(NamedTuple):
    """Settings by name."""

    name: str
    unit: str
    """``s``, ``bit/s``, ``kbit/s``, ``packets``, ``bytes``; empty for shares, indices and counts."""
    meaning: str
    about: str
    """Subject that is measured, as ``Objects``."""


def disciplines() -> Mapping[str, Discipline]:
    """The queue disciplines by name, each with its settings.

    >>> disciplines()["codel"].settings["target"].default
    '5ms'
    """
    return Named.of(_disciplines(), "discipline")


def metrics(
    scenario: Scenario | str | os.PathLike[str] | None = None, set: Mapping[str, Any] | None = None
) -> Mapping[str, Metric]:
    """The figures by name: those that runs of ``scenario`` can have, or all.

    Without a scenario capitals stand for what it decides, as in ``utilisation_LINK``.

    >>> metrics()["goodput_kbps"].unit
    'kbit/s'

    Raises:
        ValueError: a scenario that cannot be, with file, key and remedy.
        OSError: its file cannot be read.
    """
    known = _metrics()
    if scenario is None:
        return Named.of(known, "figure")
    text, file = _source(scenario)
    with of_python(isinstance(scenario, Scenario)):
        names = _native.figure_names(text, file, _sets(set, text, file))
    return Named.of({name: metric(name) for name in names}, "figure of this scenario")


def metric(name: str) -> Metric:
    """The figure of this name; without a meaning if the reference has none."""
    return _of(name)._replace(name=name, unit=unit(name))


@functools.cache
def _disciplines() -> dict[str, Discipline]:
    page = _native.pages()["disciplines"]
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    found = {}
    for name in _native.discipline_names():
        section = sections.get(name, "Drop-tail: `fifo:30` holds 30 packets, `fifo:45000b` as many bytes.")
        table = section.partition("<!-- keys")[2].partition("<!-- /keys")[0]
        settings = {one.name: one for one in map(_setting, _rows(table))}
        found[name] = Discipline(name, _prose(section.split("\n\n")[0]), Named.of(settings, f"setting of {name}"))
    return found


@functools.cache
def _metrics() -> dict[str, Metric]:
    summary = _native.pages()["probes"].split("## Summary")[1].split("## Tables")[0]
    found = {}
    for about, section in re.findall(r"^### ([^\n]*)\n(.*?)(?=^### |\Z)", summary, re.MULTILINE | re.DOTALL):
        cells = [(row["name"], row["meaning"]) for row in _rows(section)]
        # Where there is no table: `name`: what it is.
        cells += re.findall(r"(`\w+`): ([^.]*)", " ".join(section.split())) if not cells else []
        for names, meaning in cells:
            for name in (n for written in re.findall(r"`([^`]*)`", names) for n in _written_out(written)):
                found[name] = Metric(name, unit(name), _prose(meaning), about)
    return found


@functools.lru_cache(10_000)
def _of(name: str) -> Metric:
    """Entry of a figure, whose name the page may have with capitals, or with the usual times."""
    known = _metrics()
    if name in known:
        return known[name]
    for template in sorted(known, key=len, reverse=True):
        parts = re.split(r"(LINK|GROUP|NAME|(?<=_)K(?=_|$)|(?<=_)J(?=_|$)|(?<=_)20s|(?<=_)60s)", template)
        pattern = "".join(
            r"[\d.]+s" if part in ("20s", "60s") else ".+" if i % 2 else re.escape(part) for i, part in enumerate(parts)
        )
        if len(parts) > 1 and re.fullmatch(pattern, name):
            return known[template]
    return Metric(name, unit(name), "", "")


def _setting(row: Mapping[str, str]) -> Setting:
    plain = {head: _prose(cell).strip("`") for head, cell in row.items()}
    return Setting(plain["key"], plain["default"], plain["range"], plain["meaning"], plain.get("with", ""))


def _rows(section: str) -> Iterator[dict[str, str]]:
    """The rows of a table in Markdown, each cell by its column's head."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|")) for line in lines]
    rows = [[cell.strip().replace("\\|", "|") for cell in row] for row in cells]
    yield from (dict(zip(rows[0], row)) for row in rows[1:])


def _prose(text: str) -> str:
    """Without line breaks and the addresses of links."""
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split())


def _written_out(name: str) -> Iterator[str]:
    """A name for each choice in braces."""
    before, brace, rest = name.partition("{")
    if not brace:
        yield name
        return
    inside, _, after = rest.partition("}")
    for choice in inside.split(","):
        yield from (f"{before}{choice}{tail}" for tail in _written_out(after))
