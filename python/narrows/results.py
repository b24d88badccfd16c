"""Results of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows import views
from narrows._native import Table
from narrows.near import Named, one_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class Result:
    """One run: figures, tables, captures, and what made them.

    Each table is an attribute too: ``result.flows``, ``result.slices``. ``docs/reference/probes.md`` tells what
    every figure and column is; a name ends in its unit (``_s``, ``_bps``, ``_kbps``, ``_pkts``), what has none is a
    share or a count.
    """

    summary: Mapping[str, float]
    """A figure each, by name, as :func:`narrows.metrics` has them. One that could not be measured is missing."""
    tables: Mapping[str, Table]
    """Arrow tables by name; pyarrow, pandas and polars take them without copying."""
    manifest: Mapping[str, Any]
    """``name``, ``about``, ``seed``, ``scenario`` (TOML that runs by itself), ``narrows`` (its version), ``engine``,
    ``key`` (a hash over all that decides the results but what a class of one's own does), and ``own`` (the names of
    such classes, if there are any)."""
    captures: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Packets of the links in ``probes.capture``, as pcap files."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", Named.of(self.summary, "figure of this run"))
        object.__setattr__(self, "tables", Named.of(self.tables, "table of this run"))

    def __getattr__(self, name: str) -> Table:
        tables: Mapping[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        expected = one_of(name, tables)
        raise AttributeError(f"{name}: this run has no such table: expected {expected}", name=name, obj=self)

    def __repr__(self) -> str:
        return views.result_text(self)

    def _repr_html_(self) -> str:
        return views.result_html(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]


def make_table(name: str, columns: Mapping[str, ArrayLike]) -> Table:
    """A table of columns of equal length: whole numbers from 0, measures (NaN where there is none), or words.

    Raises:
        ValueError: names the column that is none of these.
    """
    parts: list[tuple[str, str, Any]] = []
    rows: int | None = None
    for column, values in columns.items():
        array = np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"{column}: {array.ndim} dimensions: expected one dimension")
        rows = len(array) if rows is None else rows
        if len(array) != rows:
            raise ValueError(f"{column}: {len(array)} values: expected {rows}, as in {next(iter(columns))}")
        parts.append((column, *_part(column, array)))
    return Table.from_parts(name, parts)


def _part(column: str, array: np.ndarray) -> tuple[str, Any]:
    if array.dtype.kind in "ub":
        return "u64", array.astype(np.uint64).tobytes()
    if array.dtype.kind == "i":
        if (array < 0).any():
            raise ValueError(f"{column}: a negative whole number: expected none, or measures as floats")
        return "u64", array.astype(np.uint64).tobytes()
    if array.dtype.kind == "f":
        # A list without values is of floats to numpy; so it is here.
        return "f64", array.astype(np.float64).tobytes()
    if array.dtype.kind == "U" or all(isinstance(word, str) for word in array):
        return "text", [str(word) for word in array]
    raise ValueError(f"{column}: of type {array.dtype}: expected whole numbers, measures or words")
