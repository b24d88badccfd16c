"""A whole scenario."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _native, own, views
from narrows.own import CongestionControl, Queue
from narrows.parts import Claim, Edge, Hosts, Link, Probes, Tcp, Topology
from narrows.quantities import with_unit
from narrows.tables import Bytes, Number, Rate, Time, default, from_table, table, to_table
from narrows.traffic import Traffic
from narrows.words import of_python

if TYPE_CHECKING:
    from narrows.models.operating import OperatingPoint


@table
class Scenario:
    """A scenario file: what is simulated, what is varied, what is claimed of the results.

    >>> few = Scenario(
    ...     name="few", rate="600kbit", rtt="200ms", mtu=500, duration="60s", seeds="1..3",
    ...     disciplines=["fifo:30", "taq"], sweep={"traffic.0.flows": [10, 30, 60, 120]}, traffic=[Long(flows=30)])
    >>> few == Scenario.from_toml(few.to_toml())
    True
    """

    name: str | None = None
    """Names the result files; letters, digits, ``-``, ``_``."""
    about: str | None = None
    """Description for people (default "")."""
    duration: Time | None = default("120s")
    """How long the load lasts (time; default 120s)."""
    warmup: Time | None = default("0s")
    """Time at the beginning that is not counted (time; default 0s)."""
    seeds: str | list[int] | None = None
    """Seeds, with one run for each at every point; a list, or a range with both ends (default [1])."""
    jitter: Time | None = None
    """Flows and users start at random within this time (time; default 2s, at most half the duration)."""
    dephase: Time | None = default("0ms")
    """Each packet a host sends is delayed by U(0, this), never reordered; 0 leaves phase effects in, which rule drop-
    tail (time; default 0ms; sim only)."""
    rate: Rate | None = None
    """Rate of the thin link, towards the clients (rate; needed)."""
    rtt: Time | None = default("0ms")
    """Propagation both ways together, half each way, on the servers' side; the lab takes the middle of a range (time,
    range; default 0ms)."""
    spread: str | None = default("even")
    """How a range lies over the hosts: ``even`` by index, or ``random`` (default even; sim only)."""
    mtu: Bytes | None = default(1500)
    """Largest IP packet; the MSS follows from it (bytes; default 1500)."""
    overhead: Bytes | None = default(14)
    """Bytes of link layer per packet, counted in rates (14 is Ethernet) (bytes; default 14)."""
    mpu: Bytes | None = default(0)
    """Least size a packet with its overhead counts as (64: DOCSIS) (bytes; default 0; sim only)."""
    framing: str | None = default("none")
    """Framing of the link layer: ``none``, ``atm`` cells, ``ptm`` 64/65 coding (default none; sim only)."""
    loss: Number | None = default(0)
    """Loss on the thin link, each way; in the lab before the queue; also
    ``"gilbert:to_bad=0.01,to_good=0.3,bad=1,good=0"`` (sim) (probability; default 0)."""
    discipline: str | Callable[[], Queue] | None = None
    """Queue before every link that names none (needed)."""
    disciplines: list[str | dict[str, str] | Callable[[], Queue]] | None = None
    """Disciplines to sweep over, as an axis called ``discipline``; ``kernel:NAME`` in the lab only."""
    up_rate: Rate | None = None
    """Rate of the thin link's way back (rate; default access_rate; sim only)."""
    up_discipline: str | Callable[[], Queue] | None = default("fifo:1000")
    """Queue before the way back; ``same``: the one before the thin link (default fifo:1000; sim only)."""
    access_rate: Rate | None = None
    """Rate of each host's own link (rate; default 100 times the thin or fastest link; sim only)."""
    congestion_control: str | Callable[[], CongestionControl] | None = default("cubic")
    """Congestion control of both ends; in the lab any the kernel has, or one of ours with its knobs, as
    ``narrows_btcp:f=4`` (default cubic)."""
    quic_initial_window: Number | None = default(10)
    """Initial window of a QUIC sender (packets of 1200 bytes; default 10)."""
    quic_preset: str | None = default("quinn")
    """Implementation whose settings QUIC has: ``quinn``, ``quic-go``, ``quiche``, ``msquic`` or ``rfc`` (default
    quinn; sim only)."""
    quic_ecn: bool | None = None
    """Whether QUIC's packets bear ECT(0) (default as the preset; sim only)."""
    backend: str | None = default("nfqueue")
    """How the box takes packets (default nfqueue; lab only)."""
    sysctl: dict[str, str] | None = None
    """Kernel settings of users and server (lab only)."""
    window_scales: list[Number] | None = None
    """Window scales of the users' TCP, given to users in turn (lab only)."""
    server_pause: Time | None = default("0s")
    """Mean pause of the server's application, which a fifth of the answers begin with and another fifth stop for
    (default 0s; lab only)."""
    vars: dict[str, Number] | None = None
    """Numbers for expressions."""
    sweep: dict[str, Any] | None = None
    """Keys to vary, each with its values (sim only)."""
    tcp: Tcp | None = None
    """TCP of all hosts (sim only)."""
    probes: Probes | None = None
    """Measurements to record (sim only)."""
    traffic: list[Traffic] | None = None
    """Traffic, an entry for each group of users or flows (needed)."""
    topology: Topology | None = None
    """A well-known shape instead of the thin link (sim only)."""
    link: list[Link] | None = None
    """Links one by one instead of the thin link (sim only)."""
    hosts: list[Hosts] | None = None
    """Groups of hosts, with ``[[link]]`` (sim only)."""
    edge: list[Edge] | None = None
    """Nodes that divide connections into two classes (sim only)."""
    claim: list[Claim] | None = None
    """Claims about the results (sim only)."""
    file: str | None = field(default=None, compare=False, repr=False, metadata={"key": None})
    """Path of the scenario's file: named in errors, and files that the scenario names lie beside it. Not a key of
    the file."""

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Scenario:
        """Reads a file, or text: what has a line break is text, and what has a ``=`` and is no file.

        Raises:
            ValueError: what is wrong with it and where, in a sentence. Values are judged by :meth:`check`.
            OSError: the file cannot be read.
        """
        if isinstance(source, str) and ("\n" in source or ("=" in source and not Path(source).exists())):
            text, file = source, None
        else:
            text, file = Path(source).read_text(encoding="utf-8"), os.fspath(source)
        scenario: Scenario = from_table(cls, _native.from_toml(text, file), "", file)
        scenario.file = file
        return scenario

    def to_dict(self) -> dict[str, Any]:
        """The tables and keys of the file."""
        from narrows.short import unit_at

        table: dict[str, Any] = to_table(self)
        if isinstance(table.get("sweep"), dict):
            # A variable may be called as a key, and is a plain number.
            units = {key: unit_at(str(key)) for key in table["sweep"] if key not in (self.vars or ())}
            table["sweep"] = {key: with_unit(value, units.get(key)) for key, value in table["sweep"].items()}
        return table

    def to_toml(self) -> str:
        """The file's text, keys in order.

        Raises:
            ValueError: a class of Python's stands in it (:mod:`narrows.own`), which no file can hold.
        """
        table = self.to_dict()
        own.refuse_in_file(table)
        return _native.to_toml(table)

    def _repr_html_(self) -> str:
        return views.scenario_html(self)

    def check(self) -> None:
        """Judges every point of it, and simulates nothing.

        Raises:
            ValueError: names file, key and remedy.
        """
        with of_python(self.file is None):
            _native.expand(own.text_of(self.to_dict()), self.file)

    def operating_point(
        self,
        over: Mapping[Any, Iterable[Any]] | None = None,
        *,
        set: Mapping[str, Any] | None = None,
    ) -> OperatingPoint:
        """Operating point of the scenario by the model (:mod:`narrows.models.operating`): the loss at which its endless
        flows fill its thin link behind drop-tail, and how many of them are silent then. Nothing is simulated.

        Rate, round trip, packet (MTU and overhead), flows and TCP are the scenario's, the buffer that of its ``fifo``;
        of another queue one bandwidth-delay product, as if it were drop-tail. Traffic that ends is left out.

        >>> few.operating_point().loss
        >>> few.operating_point({"flows": [10, 30, 60]}).silent.plot()

        Args:
            over: as of :func:`narrows.sweep`.
            set: settings to replace.

        Returns:
            Numbers; DataArrays of the sweep's dimensions, without ``seed``, where something is swept.

        Raises:
            ValueError: names key and point; also of a scenario without a thin link or without endless flows.
        """
        from narrows.models import scenarios

        return scenarios.of_scenario(self, over, set)
