"""Who stalls in a capture, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows import _native
from narrows._native import Table


@dataclass(frozen=True)
class Diagnosis:
    """What captures tell. ``docs/reference/diagnosis.md`` says what every name is."""

    flows: Table
    """A row a connection."""
    stalls: Table
    """A row a stall; ``flow`` is the ``number`` of its connection."""
    overall: Mapping[str, Any]
    """Sums."""
    quic: Sequence[Mapping[str, Any]]
    """QUIC connections."""
    page: str
    """The same in words."""
    remarks: Sequence[str]
    """What was left out or cut off."""

    def __str__(self) -> str:
        return self.page


def diagnose(*captures: str | os.PathLike[str], over_s: float = 5.0, worst: int = 10) -> Diagnosis:
    """Says who stalls in captures (pcap or pcapng, also in gzip or zstd), and why.

    Several captures are put together by their times, as one of each direction.

    Args:
        captures: Paths.
        over_s: From which length on a stall is long.
        worst: Connections that the page shows.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is no capture, or has no TCP and no QUIC in it.
    """
    if not captures:
        raise ValueError("diagnose: expected the path of a capture")
    told = _native.diagnose([os.fspath(path) for path in captures], over_s, worst)
    return Diagnosis(
        flows=told["flows"],
        stalls=told["stalls"],
        overall=json.loads(told["overall"]),
        quic=json.loads(told["quic"]),
        page=told["page"],
        remarks=told["remarks"],
    )
