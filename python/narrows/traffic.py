"""The entries of ``[[traffic]]`` of a scenario file, a dataclass for each kind.

As in :mod:`narrows.parts` a field is a key of the same name, and the reader of the files judges the values.
``docs/reference/workloads.md`` tells what each does.
"""

from __future__ import annotations

from typing import ClassVar

from narrows.parts import Tcp
from narrows.tables import Bytes, Number, Rate, Size, Time, default, table


@table
class Traffic:
    """Traffic of a group of users or flows: the keys that go with every kind. ``docs/reference/workloads.md``
    explains each."""

    kind: ClassVar[str]
    name: str | None = None
    """Class in the results (default the kind; sim only)."""
    from_: str | None = default("servers")
    """Hosts that send the data (default servers; sim only)."""
    to: str | None = default("clients")
    """Hosts that receive the data (default clients; sim only)."""
    opened_by: str | None = None
    """End that opens the connections; in the lab always the receiver. ``sender`` with ``preset = "ns2"``, whose SYN
    goes the way of the data (default receiver for objects, pages and log, else sender; sim only)."""
    request: Bytes | None = None
    """Size of the receiver's request; 0 for a one-way transfer (bytes; default 120 for objects, pages, log and QUIC,
    else 0; sim only)."""
    header: Bytes | None = None
    """Size of the header before each object: payload, but not part of the object's size (bytes; default 200 for
    objects, pages, log and QUIC, else 0; sim only)."""
    dscp: Number | str | None = default(0)
    """Codepoint of the packets, both ways: a number, or a name as ``ef`` (codepoint; default 0; lab: calls only)."""
    tcp: Tcp | None = None
    """Settings of these connections (sim only)."""
    opaque: bool | None = default(False)
    """Whether queues see UDP in which nothing can be read; the ends remain TCP, which is not QUIC (default false;
    sim only)."""
    transport: str | None = None
    """Transport of the data: ``tcp``, ``quic`` (in the simulator for long, files, objects and pages), ``tls`` (in the
    simulator for objects), ``tfrc`` (in the simulator for long) (default tcp, or what ``http`` goes over)."""
    start: Time | None = default("0s")
    """Time at which the traffic begins (time; default 0s; sim only)."""
    stop: Time | None = None
    """Time after which no new transfers start; endless ones stop then (time; default the duration; sim only)."""


@table
class SyntheticLog:
    """Synthetic requests in place of an access log's file."""

    requests: Number | None = None
    """Requests of all clients together, a Poisson process (per second; needed; sim only)."""
    clients: Number | None = None
    """Clients of the log before they are folded (needed; sim only)."""
    zipf: Number | None = default(0)
    """Exponent by which requests fall to clients; 0 for equal shares (default 0; sim only)."""
    size: Size | None = default("web")
    """Size of a reply (size law; default web; sim only)."""


@table
class Long(Traffic):
    """Connections that send from start to stop."""

    kind: ClassVar[str] = "long"
    flows: Number | None = None
    """Number of flows (needed)."""


@table
class Files(Traffic):
    """A connection for each file."""

    kind: ClassVar[str] = "files"
    flows: Number | None = None
    """Number of files in all; without ``arrivals`` they start within the jitter (default as many as arrive; sim
    only)."""
    arrivals: Number | None = None
    """Rate of a Poisson process of arriving files (per second; sim only)."""
    users: Number | None = None
    """Hosts over which arrivals go in turn (default flows, or 100 with arrivals; sim only)."""
    size: Size | None = None
    """Size of a file (size law; needed; sim only)."""


@table
class Objects(Traffic):
    """Users in a closed loop: each connection fetches one object after another, a new connection each time."""

    kind: ClassVar[str] = "objects"
    users: Number | None = None
    """Number of users, each on a host of its own (needed)."""
    connections: Number | None = default(1)
    """Parallel connections of each user (default 1)."""
    think: Time | None = default("0s")
    """Mean of the exponential pause between objects (time; default 0s)."""
    size: Size | None = default("web")
    """Size of an object (size law; default web)."""
    arrivals: Number | None = None
    """Rate of an open loop: users come by a Poisson process and take turns on ``users`` addresses (per second)."""
    visit: Number | None = default(1)
    """Objects each connection fetches before its user goes, with ``arrivals`` (default 1)."""


@table
class Pages(Traffic):
    """Users in a closed loop of pages: some objects over parallel connections, then a pause."""

    kind: ClassVar[str] = "pages"
    users: Number | None = None
    """Number of users, each on a host of its own (needed)."""
    connections: Number | None = default(6)
    """Objects of a page fetched at a time (default 6)."""
    objects: Size | None = None
    """Number of objects of a page (law; needed without ``page``)."""
    size: Size | None = default("web")
    """Size of an object (size law; default web)."""
    think: Time | None = default("0s")
    """Mean of the exponential pause between pages (time; default 0s)."""
    http: str | None = None
    """Version of HTTP: ``1.1`` or ``2`` over TLS, ``3`` over QUIC (needed in the lab; lab only)."""
    page: Size | None = None
    """Sizes of a page's objects, the document first, in place of ``objects`` and ``size`` (list of bytes; lab only)."""
    arrivals: Number | None = None
    """Rate of an open loop: users come by a Poisson process and take turns on ``users`` addresses (per second)."""
    visit: Number | None = default(1)
    """Pages each user loads before going, with ``arrivals`` (default 1)."""


@table
class Browser(Traffic):
    """A headless browser that loads a page again and again, each time as a new visitor without cache."""

    kind: ClassVar[str] = "browser"
    users: Number | None = default(1)
    """Number of users, each with a browser of its own (default 1; lab only)."""
    http: str | None = default("2")
    """Version of HTTP: ``1.1`` or ``2`` over TLS, ``3`` over QUIC (default 2; lab only)."""
    page: Size | None = None
    """Sizes of the document, 2 style sheets, 3 scripts and the pictures (list of bytes; default 30 objects of 350 kB;
    lab only)."""
    think: Time | None = default("0s")
    """Mean of the exponential pause between pages (time; default 0s; lab only)."""


@table
class Telnet(Traffic):
    """Small writes over connections that last."""

    kind: ClassVar[str] = "telnet"
    flows: Number | None = None
    """Number of connections (needed; sim only)."""
    interval: Time | None = default("1s")
    """Mean of the exponential pause between writes (time; default 1s; sim only)."""
    bytes: Bytes | None = default(64)
    """Size of a write (bytes; default 64; sim only)."""


@table
class Udp(Traffic):
    """Packets at a constant rate."""

    kind: ClassVar[str] = "udp"
    flows: Number | None = None
    """Number of flows (needed; sim only)."""
    rate: Rate | None = None
    """Rate of one flow while on, IP header included (rate; needed; sim only)."""
    packet: Bytes | None = default(500)
    """Size of a packet, IP header included (bytes; default 500; sim only)."""
    on: Time | None = None
    """Mean of the exponential time on; needs ``off`` (time; default always on; sim only)."""
    off: Time | None = None
    """Mean of the exponential time off; needs ``on`` (time; sim only)."""


@table
class Calls(Traffic):
    """Calls, games and queries: small datagrams at a steady pace, both ways."""

    kind: ClassVar[str] = "calls"
    flows: Number | None = None
    """Number of calls, each by another user (needed)."""
    beside: str | None = None
    """Name of traffic before it, whose users make the calls (default users of their own)."""
    shape: str | None = default("g711")
    """``g711``, ``opus24``, ``opus32-40ms``, ``opus-dtx``, ``game``, ``dns`` or ``keepalive`` (default g711)."""
    packet: Bytes | None = None
    """Size of a packet, IP header included, both ways (bytes; default by ``shape``)."""
    up_packet: Bytes | None = None
    """Size of a packet from the user, IP header included (bytes; default ``packet``)."""
    interval: Time | None = None
    """Time from a packet to the next (default by ``shape``)."""


@table
class Log(Traffic):
    """Requests of an access log."""

    kind: ClassVar[str] = "log"
    file: str | None = None
    """Path beside the scenario file: squid's format, the Common Log Format, or columns ``time,client,bytes`` (sim
    only)."""
    synthetic: SyntheticLog | None = None
    """Synthetic requests in place of a file (sim only)."""
    clients: Number | None = None
    """Users the log's clients are folded onto (needed; sim only)."""
    connections: Number | None = default(4)
    """Parallel connections of each user (default 4; sim only)."""
    timing: str | None = default("recorded")
    """Times of the requests: ``recorded`` as in the log, or ``back_to_back``, one after another (default recorded;
    sim only)."""
    retry: Time | None = default("1s")
    """Pause after a connection that failed (time; default 1s; sim only)."""
