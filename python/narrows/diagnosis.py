"""Diagnosis of captures: which connections stall, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows import _native, views
from narrows._native import Table


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Diagnosis of captures. ``docs/reference/diagnosis.md`` explains every name."""

    flows: Table
    """Table with a row for each connection."""
    stalls: Table
    """Table with a row for each stall; ``flow`` is the ``number`` of its connection."""
    overall: Mapping[str, Any]
    """Sums over all connections."""
    quic: Sequence[Mapping[str, Any]]
    """Findings for each QUIC connection."""
    page: str
    """Findings in words, as ``narrows diagnose`` prints them."""
    remarks: Sequence[str]
    """Sentences on packets that were left out or cut off."""

    def __str__(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return views.diagnosis_text(self)

    def _repr_html_(self) -> str:
        return views.diagnosis_html(self)


def diagnose(
    *captures: str | os.PathLike[str],
    qlog: Sequence[str | os.PathLike[str]] = (),
    over_s: float = 5.0,
    worst: int = 10,
) -> Diagnosis:
    """Says who stalls in captures (pcap or pcapng, also in gzip or zstd), and why.

    Several captures are put together by their times, as one of each direction.

    Args:
        captures: Paths.
        qlog: Paths of logs that ends of QUIC connections kept (qlog 0.3, 0.4 and drafts, as JSON or JSON-SEQ): each
            tells why its end was silent.
        over_s: From which length on a stall is long.
        worst: Connections that the page shows.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is no capture, or has no TCP and no QUIC in it; a log is no qlog.
    """
    if not captures:
        raise ValueError("diagnose: expected the path of a capture")
    if isinstance(qlog, (str, bytes, os.PathLike)):
        raise ValueError(f"diagnose: qlog = {qlog!r}: expected a list of paths")
    paths, logs = ([os.fspath(path) for path in files] for files in (captures, qlog))
    told = _native.diagnose(paths, logs, over_s, worst)
    return Diagnosis(
        flows=told["flows"],
        stalls=told["stalls"],
        overall=json.loads(told["overall"]),
        quic=json.loads(told["quic"]),
        page=told["page"],
        remarks=told["remarks"],
    )


def what_if(
    *captures: str | os.PathLike[str],
    disciplines: Sequence[str] = ("taq",),
    rate: str | None = None,
    buffer: str | None = None,
    scenario: str | os.PathLike[str] | None = None,
    over_s: float = 5.0,
) -> Mapping[str, Any]:
    """Fits a workload and a link to captures, and simulates them as they are and with other disciplines.

    Gives ``what_if`` of the JSON in ``docs/reference/diagnosis.md``.

    Args:
        captures: Paths.
        disciplines: What to simulate besides the fitted drop-tail queue.
        rate: Of the thin link, as ``2mbit``; fitted where it is not given.
        buffer: Of its queue, as ``50`` packets or ``200ms``; fitted likewise.
        scenario: Where the fitted scenario is written, in ``.toml``, with its logs beside it.
        over_s: From which length on a stall is long.

    Raises:
        OSError: a file cannot be read.
        ValueError: nothing can be fitted to the captures, or a discipline, rate or size is none.
    """
    if not captures:
        raise ValueError("what_if: expected the path of a capture")
    if not over_s >= 0.0:
        raise ValueError(f"over_s = {over_s}: expected seconds, as 5 or 0.5")
    paths = [os.fspath(path) for path in captures]
    where = None if scenario is None else os.fspath(scenario)
    told: dict[str, Any] = json.loads(_native.what_if(paths, list(disciplines), (rate, buffer), where, over_s))
    return told
