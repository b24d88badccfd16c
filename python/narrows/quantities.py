"""Rates, times and sizes as scenario files write them (``"600kbit"``, ``"200ms"``, ``"64kB"``), as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

QUANTITIES = {
    "bit/s": {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9},
    "s": {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    "bytes": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
}
"""Units that values may have in scenario files, by the one that numbers have."""

UNITS = {"_s": "s", "_ms": "ms", "_bps": "bit/s", "_kbps": "kbit/s", "_pkts": "packets", "_bytes": "bytes"}
"""Endings of names, and the unit of each (docs/reference/probes.md)."""

EXAMPLES = {"bit/s": "600kbit", "s": "200ms", "bytes": "64kB"}
"""Words for each unit that words may have."""


def unit(name: str) -> str:
    """The unit that a name is, or ends in; nothing for a share, an index or a count."""
    return next((unit for end, unit in UNITS.items() if f"_{name}".endswith(end)), "")


def with_unit(value: Any, unit: str | None) -> Any:
    """A bare number of seconds or bit/s as scenario files have it; anything else as it is, and so is a number that is
    no time or rate, for the reader of the files to refuse.

    >>> with_unit(0.2, "s"), with_unit(600e3, "bit/s"), with_unit("200ms", "s")
    ('0.2s', 600000, '200ms')
    """
    if isinstance(value, list):
        return [with_unit(one, unit) for one in value]
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if unit is None or not number or not 0 <= value < 2**53:
        return value
    if unit == "s":
        return f"{value:.9f}".rstrip("0").rstrip(".") + "s"
    # 1.1 times 600e3 is a rounding error away from a whole number of bits.
    return round(value) if abs(value - round(value)) <= 1e-9 * value else value


def measure(text: object, scales: Mapping[str, float]) -> float | None:
    """``"600kbit"`` as a number of the base unit, if the unit is one of these."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]+)", text) if isinstance(text, str) else None
    scale = scales.get(found[2]) if found else None
    if not found or scale is None:
        return None
    # By division where the unit is a part, so that 200 ms are .2 s.
    return float(found[1]) * scale if scale >= 1 else float(found[1]) / round(1 / scale)
