"""Congestion controls and queues of one's own, as classes: :class:`CongestionControl` and :class:`Queue` say what the
simulator calls.

>>> class Aimd:
...     def on_ack(self, window, ack):
...         window.cwnd += 0.5 * ack.credit / window.cwnd
...     def on_loss(self, window, loss):
...         window.ssthresh = 0.75 * loss.base
...     on_rto = on_loss
>>> narrows.run(few, set={"congestion": Aimd}).summary["goodput_kbps"]

``docs/how-to/own-parts.md`` goes from here to a file of Rust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from narrows import _native
from narrows._native import Ack, Delivery, Loss, Packet, Window

__all__ = ["Ack", "CongestionControl", "Delivery", "Loss", "Packet", "Queue", "Window"]


class CongestionControl(Protocol):
    """Methods of a congestion control; an object is made for each sender, without arguments.

    Windows are in segments, times in seconds. ``on_ecn(window, loss)`` may say what a congestion mark does (without it
    what a loss does), ``on_delivery(window, delivery)`` hears of all acknowledged data, below ssthresh too, and
    ``pacing_rate(window)`` gives bit/s, or None.
    """

    def on_ack(self, window: Window, ack: Ack, /) -> None:
        """New data was acknowledged at or above ssthresh, outside of recovery: opens ``window.cwnd``."""
    def on_loss(self, window: Window, loss: Loss, /) -> None:
        """ACKs have shown a loss, once a window of data: sets ``window.ssthresh``; the sender sets cwnd."""
    def on_rto(self, window: Window, loss: Loss, /) -> None:
        """The retransmission timer has expired: sets ``window.ssthresh``; the sender sets cwnd to one segment."""


class Queue(Protocol):
    """Methods of a queue; an object is made for each link, without arguments.

    ``next_ready(now)`` is needed of one that holds packets back: the time at which to ask again, or None.
    """

    def enqueue(self, packet: Packet, now: float, /) -> None:
        """A packet came. It waits until ``dequeue`` gives it or ``packet.drop()`` drops it."""
    def dequeue(self, now: float, /) -> Packet | None:
        """The packet to send now, of those that wait."""


PLACES = frozenset(
    {"congestion", "congestion_control", "discipline", "disciplines", "up_discipline", "back_discipline"}
)
"""Keys that take a class in place of a name."""

_brought: list[Callable[[], Any]] = []
"""Classes that this process has run; a place in the list is the number by which a scenario's text has the class."""
_MOST = 2**16
"""Numbers that a scenario's text can have: they are of 16 bits."""


def is_part(value: object) -> bool:
    """Whether a value may make parts: a class, or a function without arguments that gives an object."""
    return callable(value)


def number(part: Callable[[], Any]) -> str:
    """The name of a part in a scenario's text, which is read by this process and by nobody else."""
    at = next((i for i, known in enumerate(_brought) if known is part), len(_brought))
    if at == len(_brought):
        if at == _MOST:
            raise ValueError(f"{name(part)}: {_MOST} classes were run in this process: expected fewer")
        _brought.append(part)
    return f"own:{at}"


def name(part: Any) -> str:
    """The name of a part for people."""
    return str(getattr(part, "__name__", None) or getattr(getattr(part, "func", None), "__name__", None) or repr(part))


def brought() -> list[Callable[[], Any]]:
    """Classes that :func:`number` has numbered, for a run."""
    return list(_brought)


def refuse_in_file(table: Mapping[str, Any], path: str = "") -> None:
    """Refuses a class in what is to become a file."""
    for key, value in table.items():
        within = value if isinstance(value, (list, tuple)) else [value]
        for one in within:
            if isinstance(one, Mapping):
                refuse_in_file(one, f"{path}{key}.")
            elif key in PLACES and is_part(one):
                problem = f"= {name(one)}: expected a name: no file can hold a class of Python's"
                raise _native.refusal(f"{path}{key}", problem)


def text_of(table: Mapping[str, Any]) -> str:
    """The text of a scenario for this process, with numbers in place of classes."""
    return _native.to_toml(within(table))


def within(value: Any, key: str = "") -> Any:
    """``value`` of the dotted ``key``, with numbers in place of classes where classes may stand, at any depth."""
    if isinstance(value, Mapping):
        return {name: within(one, name if isinstance(name, str) else "") for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [within(one, key) for one in value]
    return number(value) if key.rpartition(".")[2] in PLACES and is_part(value) else value


def shown(coords: Mapping[str, str]) -> dict[str, str]:
    """Coordinates with names of classes in place of numbers."""
    return {key: _shown(value) for key, value in coords.items()}


def _shown(value: str) -> str:
    at = re.fullmatch(r"own:(\d+)", value)
    return name(_brought[int(at[1])]) if at and int(at[1]) < len(_brought) else value


def names(scenario: str) -> dict[str, str]:
    """The parts that this process brings to a scenario's text: names by numbers, as ``{"own:0": "Aimd"}``."""
    found = re.findall(r'\b(?:congestion|congestion_control|\w*discipline)\s*=\s*["\'](own:\d+)["\']', scenario)
    return {number: _shown(number) for number in found}
