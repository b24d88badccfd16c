"""Isolation of classes: flows that steer by one common queue, or each by a queue of its own.

Yilmaz and Matta, "Class-based isolation of short-lived and long-lived TCP flows" (Boston University, about 2001),
section 2. Per step, in packets, with q outstanding, x_i sent by flow i, C the capacity and B the target::

    q(k+1)   = q(k) + sum_i x_i(k) - C
    x_i(k+1) = x_i(k) + alpha_i (B - q(k+1)) - beta_i (q(k+1) - q(k))

Flows with queues of their own (individual control, equation 5) are rows of one flow each: add an axis,
``alpha[..., None]``. The model is linear: rates and queues may come out negative. See
docs/explanation/models/isolation.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrows.models.vectorised import Array, Words, one, several


STABILITY = ("stable", "marginal", "unstable")
"""Verdicts of the exact test, from good to bad."""


@dataclass(frozen=True)
class Control:
    """Flows at one queue."""

    alpha: ArrayLike
    """Gain for the distance to the target, one for all flows or one for each (0 to 1e6), shape (..., flows)."""
    beta: ArrayLike
    """Gain for the change of the queue, one for all flows or one for each (0 to 1e6), shape (..., flows)."""
    capacity: ArrayLike = 1
    """Packets served in a step (a round trip), all flows together (packets, above 0)."""
    target: ArrayLike = 1
    """Packets that the queue is to hold, all flows together (packets, above 0)."""


@dataclass(frozen=True)
class Start:
    """State in which the flows begin."""

    queue: ArrayLike
    """Packets outstanding in the queue at the start (packets, -1e12 to 1e12)."""
    rates: ArrayLike
    """Packets that each flow sends in the first step (packets, -1e12 to 1e12), shape (..., flows)."""


class State(NamedTuple):
    """Queue and rates; NaN where there is none."""

    queue: Array
    """Packets that wait in the queue."""
    rates: Array
    """Packets that each flow sends in a step; flows are the last axis."""


def stability(control: Control, feedback: str = "prompt") -> Words:
    """Verdict of the exact test: with A and G the sums of alpha and beta, prompt feedback is stable if and only if A >
    0, G > 0 and A + 2G < 4 (Jury's test), late feedback if and only if 0 < A < G (1 - G).

    Args:
        feedback: Queue that a flow answers to. One of ``prompt``: x(k+1) answers to q(k+1); ``late``: x(k+1)
            answers to q(k).
    """
    result: Words = several("control.stability", control, feedback)[0]
    return result


def sufficient_stable(control: Control) -> NDArray[np.bool_]:
    """Sufficient condition of the paper's equation 2: ``N (alpha + 2 beta) < 4`` with the largest gains of any flow."""
    result: NDArray[np.bool_] = several("control.sufficient_stable", control)[0]
    return result


def spectral_radius(control: Control, feedback: str = "prompt") -> Array:
    """Factor per step by which the slowest mode of queue and sum of rates shrinks; above 1 it grows.

    Args:
        feedback: Queue that a flow answers to. One of ``prompt``: x(k+1) answers to q(k+1); ``late``: x(k+1)
            answers to q(k).
    """
    return one("control.spectral_radius", control, feedback)


def equilibrium(control: Control, start: Start, feedback: str = "prompt") -> State:
    """State in which the flows come to rest (equations 3 and 4); NaN if the loop is not stable.

    Args:
        feedback: Queue that a flow answers to. One of ``prompt``: x(k+1) answers to q(k+1); ``late``: x(k+1)
            answers to q(k).
    """
    return State(*several("control.equilibrium", control, start, feedback))


def simulate(control: Control, start: Start, steps: ArrayLike, feedback: str = "prompt") -> State:
    """States from the start on: queue (..., steps + 1), rates (..., steps + 1, flows); NaN once the loop has run
    away.

    Args:
        steps: Number of steps after the start (whole, 0 to 3.333333e6).
        feedback: Queue that a flow answers to. One of ``prompt``: x(k+1) answers to q(k+1); ``late``: x(k+1)
            answers to q(k).
    """
    return State(*several("control.simulate", control, start, steps, feedback))


def settling(control: Control, start: Start, fraction: ArrayLike = 0.05, feedback: str = "prompt") -> Array:
    """First step from which queue and sum of rates stay near target and capacity; NaN if there is none.

    Args:
        fraction: Share of target and capacity within which queue and sum of rates stay (above 0 to below 1).
        feedback: Queue that a flow answers to. One of ``prompt``: x(k+1) answers to q(k+1); ``late``: x(k+1)
            answers to q(k).
    """
    return one("control.settling", control, start, fraction, feedback)


def pipe_packets(capacity_pps: ArrayLike, rtt_s: ArrayLike, buffer_packets: ArrayLike) -> Array:
    """Packets that a path holds between a packet and its ACK: ``C RTT + B`` (section 3.4).

    Args:
        capacity_pps: Rate of the path (packets/s, above 0).
        rtt_s: Round-trip time of the path, queue left out (s, above 0).
        buffer_packets: Buffer of the path (packets, 0 to 1e12).
    """
    return one("control.pipe_packets", capacity_pps, rtt_s, buffer_packets)


def share_packets(pipe_packets: ArrayLike, connections: ArrayLike) -> Array:
    """Share of one connection in a pipe, per RTT; isolation pays below about 10 (section 4), packets.

    Args:
        pipe_packets: Size of the pipe (packets, above 0).
        connections: Connections that share the pipe (whole, 1 to 2.147483648e9).
    """
    return one("control.share_packets", pipe_packets, connections)


def slow_start_rtts(packets: ArrayLike) -> Array:
    """Round trips of slow start (1, 2, 4, ... packets, no loss) that a transfer needs.

    Args:
        packets: Number of packets that the connection has to send (packets, whole, 0 or more).
    """
    return one("control.slow_start_rtts", packets)
