"""Tables of a sweep: the rows of all runs under each other, with what tells the runs apart in front.

On disk a table is a file beside its run's: the SHA-256 of the rest, a line of JSON with names and kinds, then the
columns of numbers one after another; words are in the JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from narrows import _native
from narrows.near import one_of
from narrows.results import make_table

TABLES = (
    "backoffs",
    "bursts",
    "calls",
    "classes",
    "cwnd",
    "datagrams",
    "decisions",
    "epoch_packets",
    "epochs",
    "flows",
    "links",
    "pages",
    "queue",
    "repairs",
    "shares",
    "sizes",
    "slices",
    "throughput",
    "transfers",
)
"""Names of the tables that a run may have (docs/reference/probes.md)."""

ELSEWHERE = {
    "objects": "'transfers', which has a row for each object",
    "stalls": "'flows' or 'transfers', whose column 'stall_s' it is",
}
"""Tables that people look for, and which have it."""


def names(asked: Iterable[str]) -> tuple[str, ...]:
    """The tables asked for, each once.

    Raises:
        ValueError: it is no list, or names one that no run has.
    """
    if isinstance(asked, (str, bytes)) or not isinstance(asked, Iterable):
        raise _native.refusal("tables", f"= {asked!r}: expected a list of names, as ['flows']")
    found = tuple(dict.fromkeys(asked))
    for name in found:
        if name not in TABLES:
            expected = ELSEWHERE.get(name) if isinstance(name, str) else None
            raise _native.refusal("tables", f"has {name!r}: expected {expected or one_of(str(name), TABLES)}")
    return found


def joined(
    name: str, runs: Sequence[_native.Table | None], labels: Mapping[str, np.ndarray], taken: Mapping[str, str]
) -> _native.Table:
    """One table of the tables of all runs; ``labels`` has a value for each run, by column.

    ``taken`` has the names of those of its own columns that are called as a label. What only some runs have is NaN or
    empty in the others.
    """
    lengths = [0 if table is None else len(table) for table in runs]
    columns: dict[str, Any] = {key: np.repeat(values, lengths) for key, values in labels.items()}
    present = [table for table in runs if table is not None]
    for column in dict.fromkeys(column for table in present for column in table.columns):
        parts = [_column(table, column, present) for table in present]
        columns[taken.get(column, column)] = np.concatenate(parts) if parts else []
    return make_table(name, columns)


def _column(table: _native.Table, column: str, tables: Sequence[_native.Table]) -> np.ndarray:
    if column in table:
        return np.asarray(table[column])
    words = any(isinstance(t[column], list) for t in tables if column in t)
    return np.full(len(table), "") if words else np.full(len(table), np.nan)


def to_bytes(table: _native.Table | None) -> bytes:
    """A file's content; a run without the table is as good as kept."""
    parts = [] if table is None else table.__reduce__()[1][1]
    head = {
        "name": None if table is None else table.name,
        "columns": [
            [name, kind, values if kind == "text" else len(values)] for name, kind, values in parts
        ],
    }
    numbers = b"".join(values for _, kind, values in parts if kind != "text")
    body = json.dumps(head).encode() + b"\n" + numbers
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def from_bytes(content: bytes) -> tuple[_native.Table | None] | None:
    """The table of a file, which may be none; None if the file is not whole."""
    check, _, body = content.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != check:
        return None
    line, _, numbers = body.partition(b"\n")
    head = json.loads(line)
    if head["name"] is None:
        return (None,)
    parts: list[tuple[str, str, Any]] = []
    at = 0
    for name, kind, values in head["columns"]:
        if kind == "text":
            parts.append((name, kind, values))
        else:
            parts.append((name, kind, numbers[at : at + values]))
            at += values
    return (_native.Table.from_parts(head["name"], parts),)
