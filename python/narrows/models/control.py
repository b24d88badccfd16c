"""Why classes are isolated: flows that steer by one common queue, or each by a queue of its own.

Yilmaz and Matta, "Class-based isolation of short-lived and long-lived TCP flows" (Boston University, about 2001),
section 2. Per step, in packets, with q what is outstanding, x_i what flow i sends, C the capacity and B the target::

    q(k+1)   = q(k) + sum_i x_i(k) - C
    x_i(k+1) = x_i(k) + alpha_i (B - q(k+1)) - beta_i (q(k+1) - q(k))

Flows with queues of their own (individual control, equation 5) are rows of one flow each: add an axis,
``alpha[..., None]``. ``feedback`` is ``prompt``, as above, or ``late``: x(k+1) answers to q(k). The model is linear:
rates and queues may come out negative. See ``docs/explanation/models/isolation.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Numbers, Words, evaluate, evaluate_rows, named, reshaped


@dataclass(frozen=True)
class Control:
    """The flows at one queue."""

    alpha: ArrayLike
    """Gain for the distance to the target, a row: shape (..., flows), 0 to 1e6."""
    beta: ArrayLike
    """Gain for the change of the queue, as ``alpha``."""
    capacity: ArrayLike = 1
    """Packets served in a step, above 0."""
    target: ArrayLike = 1
    """Packets the queue is to hold, above 0."""


@dataclass(frozen=True)
class Start:
    """Where the flows begin."""

    queue: ArrayLike
    """Packets outstanding."""
    rates: ArrayLike
    """Packets each flow sends in the first step, shape (..., flows)."""


class State(NamedTuple):
    """Queue and rates; NaN where there is none."""

    queue: Array
    """Packets outstanding."""
    rates: Array
    """Packets each flow sends in a step; flows are the last axis."""


def stability(control: Control, feedback: str = "prompt") -> Words:
    """The exact test: ``stable``, ``marginal`` or ``unstable``.

    With A and G the sums of alpha and beta: prompt feedback is stable if and only if A > 0, G > 0 and A + 2G < 4
    (Jury's test), late feedback if and only if 0 < A < G (1 - G).
    """
    codes = evaluate("control::Control::stability", *_control(control), {"feedback": feedback})
    return named(codes[0], ("stable", "marginal", "unstable"))


def sufficient_stable(control: Control) -> np.ndarray:
    """The paper's equation 2, ``N (alpha + 2 beta) < 4`` with the largest gains of any flow: enough, and booleans."""
    holds = evaluate("control::Control::sufficient_stable", *_control(control))
    return np.asarray(holds[0], dtype=bool)[()]


def spectral_radius(control: Control, feedback: str = "prompt") -> Array:
    """The factor per step by which the slowest mode of queue and sum of rates shrinks; above 1 it grows."""
    return evaluate("control::Control::spectral_radius", *_control(control), {"feedback": feedback})[0]


def equilibrium(control: Control, start: Start, feedback: str = "prompt") -> State:
    """Where the flows come to rest from a start (equations 3 and 4); NaN if the loop is not stable."""
    row = evaluate_rows("control::Control::equilibrium", *_control(control, start), {"feedback": feedback})[0]
    return State(row[..., 0], row[..., 1:])


def simulate(control: Control, start: Start, steps: int, feedback: str = "prompt") -> State:
    """The states from a start on, queue (..., steps + 1), rates (..., steps + 1, flows).

    NaN once the loop has run away.
    """
    numbers, rows = _control(control, start, steps=steps)
    row = evaluate_rows("control::Control::simulate", numbers, rows, {"feedback": feedback})[0]
    states = reshaped(row, int(steps) + 1, -1)
    return State(states[..., 0], states[..., 1:])


def settling(control: Control, start: Start, fraction: ArrayLike = 0.05, feedback: str = "prompt") -> Array:
    """The first step from which queue and sum of rates stay within ``fraction`` of target and capacity; NaN if none."""
    numbers, rows = _control(control, start, fraction=fraction)
    return evaluate("control::Control::settling", numbers, rows, {"feedback": feedback})[0]


def pipe_packets(capacity_pps: ArrayLike, rtt_s: ArrayLike, buffer_packets: ArrayLike) -> Array:
    """What a path holds between a packet and its ACK, packets: ``C RTT + B`` (section 3.4).

    Args:
        capacity_pps: packets per second, above 0.
        rtt_s: seconds, above 0.
        buffer_packets: 0 to 1e12.
    """
    numbers = {"capacity_pps": capacity_pps, "rtt_s": rtt_s, "buffer_packets": buffer_packets}
    return evaluate("control::pipe_packets", numbers)[0]


def share_packets(pipe_packets: ArrayLike, connections: ArrayLike) -> Array:
    """What one connection gets of a pipe, packets per RTT; isolation pays below about 10 (section 4)."""
    return evaluate("control::share_packets", {"pipe_packets": pipe_packets, "connections": connections})[0]


def slow_start_rtts(packets: ArrayLike) -> Array:
    """Round trips of slow start (1, 2, 4, ... packets, no loss) that so many packets need."""
    return evaluate("control::slow_start_rtts", {"packets": packets})[0]


def _control(
    control: Control, start: Start | None = None, **asked: ArrayLike
) -> tuple[Numbers, dict[str, ArrayLike]]:
    numbers: Numbers = {"capacity": control.capacity, "target": control.target, **asked}
    rows = {"alpha": control.alpha, "beta": control.beta}
    if start is not None:
        numbers["queue"], rows["rates"] = start.queue, start.rates
    return numbers, rows
