"""How results look: a few lines as text, a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows._native import Table
    from narrows.diagnosis import Diagnosis
    from narrows.results import Result

ROWS = 8
"""Rows of a table that are shown."""
FIGURES = 6
"""Figures of a result that its text names."""
WIDTH = 100
"""Columns of text that a table takes at most."""


def number(value: Any) -> str:
    """A value with four digits, as is fit for figures; nothing where there is none."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value)


def table_text(table: Table) -> str:
    """The first rows, as many columns as fit, and how much there is."""
    rows, columns = table.shape
    cells = [[name, *map(number, _values(table, name))] for name in table.columns]
    lines = [""] * (min(rows, ROWS) + 1)
    shown = 0
    for cell in cells:
        width = max(map(len, cell))
        if len(lines[0]) + width + 2 > WIDTH:
            break
        lines = [f"{line}{'  ' if shown else ''}{value:>{width}}" for line, value in zip(lines, cell)]
        shown += 1
    if rows > ROWS:
        lines.append("...")
    if shown < columns:
        lines.append(f"and {', '.join(table.columns[shown:])}")
    return "\n".join([f"<narrows.Table {table.name}: {rows} rows, {columns} columns>", *lines])


def table_html(table: Table) -> str:
    """The first rows."""
    rows, columns = table.shape
    cells = zip(*([number(value) for value in _values(table, name)] for name in table.columns))
    told = f"{table.name}: {rows} rows, {columns} columns"
    return _html(told if rows <= ROWS else f"{told}; the first {ROWS} rows", table.columns, cells)


def result_text(result: Result) -> str:
    """Scenario, seed, some figures, and what else there is."""
    about = result.manifest
    some = ", ".join(f"{name}={number(result.summary[name])}" for name in _first(result.summary)[:FIGURES])
    tables = ", ".join(f"{name} ({len(table)})" for name, table in result.tables.items())
    more = len(result.summary) - FIGURES
    return (
        f"<narrows.Result {about.get('name', '')}, seed {about.get('seed', '')}: {some}"
        f"{f' and {more} figures more' if more > 0 else ''}; tables {tables or 'none'}>"
    )


def result_html(result: Result) -> str:
    """All figures with units and meanings, and the tables there are."""
    from narrows.catalogue import metric

    about = result.manifest
    rows = []
    for name in _first(result.summary):
        what = metric(name)
        rows.append((name, number(result.summary[name]), what.unit, what.meaning))
    head = _html(f"{about.get('name', '')}, seed {about.get('seed', '')}", ("figure", "", "unit", "meaning"), rows)
    tables = ((name, *table.shape, ", ".join(table.columns)) for name, table in result.tables.items())
    return head + _html("tables", ("table", "rows", "columns", "names"), tables)


def scenario_html(scenario: Any) -> str:
    """The text of the file that says the same."""
    try:
        text = scenario.to_toml()
    except ValueError:
        # A class of Python's, or what no file can hold otherwise.
        text = repr(scenario)
    return f"<pre>{escape(text)}</pre>"


def diagnosis_text(found: Diagnosis) -> str:
    """How many connections and stalls, and the first sentence of the page."""
    flows, stalls = len(found.flows), len(found.stalls)
    first = next((line for line in found.page.splitlines() if line.strip()), "")
    return f"<narrows.Diagnosis: {flows} connections, {stalls} stalls, {len(found.quic)} of QUIC; {first.strip()}>"


def diagnosis_html(found: Diagnosis) -> str:
    """The page, and the first rows of the tables."""
    return f"<pre>{escape(found.page)}</pre>{table_html(found.flows)}{table_html(found.stalls)}"


def _values(table: Table, name: str) -> Iterable[Any]:
    column = table.head(ROWS)[name]
    return column if isinstance(column, list) else column.tolist()


def _first(summary: Mapping[str, float]) -> list[str]:
    """Names of the figures, those first that most people ask for."""
    asked = ("goodput_kbps", "utilisation", "loss", "jain_20s", "user_stall_p99_s", "timeouts")
    first = [name for name in asked if name in summary]
    return [*first, *(name for name in summary if name not in first)]


def _html(caption: str, head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    )
