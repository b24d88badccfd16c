"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from narrows._native import Table


@dataclass(frozen=True)
class Result:
    """One run: figures, tables, captures, and what made them.

    Each table is an attribute too: ``result.flows``, ``result.slices``. ``docs/probes.md`` tells what every figure and
    column is; a name ends in its unit (``_s``, ``_bps``, ``_kbps``, ``_pkts``), what has none is a share or a count.
    """

    summary: Mapping[str, float]
    """A figure each, by name. One that could not be measured is missing."""
    tables: Mapping[str, Table]
    """Arrow tables by name; pyarrow, pandas and polars take them without copying."""
    manifest: Mapping[str, Any]
    """Name, seed, scenario (TOML that runs by itself), version, engine, key (a hash over all that decides the results)."""
    captures: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Packets of the links in ``probes.capture``, as pcap files."""

    def __getattr__(self, name: str) -> Table:
        tables = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        known = ", ".join(tables)
        raise AttributeError(f"{name}: this run has no such table: expected one of {known}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]
