"""Cost of sharing one link, whatever the transport: an M/G/1 queue of transfers.

Processor sharing (Kleinrock, "Queueing Systems" II, section 4.4), the limit of a fair queue; first in, first out
(Pollaczek and Khinchine); shortest remaining processing time first (Schrage and Miller, Operations Research 14(4),
1966), the lower bound of the mean for any queue and any sender. Propagation, headers, slow start and losses come on
top.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from typing import NamedTuple, Union

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, law, one


class Fixed(NamedTuple):
    """One size."""

    bytes: ArrayLike
    """Size of every transfer (bytes, 0.001 to 1e15)."""


class Choice(NamedTuple):
    """One of some sizes, each as likely."""

    bytes: ArrayLike
    """Sizes of transfers, each as likely, up to 1 000 000 of them (bytes, 0.001 to 1e15), shape (..., sizes)."""


class Exponential(NamedTuple):
    """Exponential law."""

    mean_bytes: ArrayLike
    """Mean size of a transfer (bytes, 0.001 to 1e15)."""


class Pareto(NamedTuple):
    """Pareto law: ``P(S > x) = (scale/x)^shape``."""

    scale_bytes: ArrayLike
    """Least size of a transfer, the scale of Pareto's law (bytes, 0.001 to 1e15)."""
    shape: ArrayLike
    """Shape of Pareto's law: the smaller, the more of the bytes are in few long transfers (1.1 to 100)."""


class BoundedPareto(NamedTuple):
    """Pareto law between two ends."""

    low_bytes: ArrayLike
    """Least size of a transfer (bytes, 0.001 to 1e15)."""
    high_bytes: ArrayLike
    """Greatest size of a transfer, above the least (bytes, above 0)."""
    shape: ArrayLike
    """Shape of Pareto's law, cut at the greatest size: the smaller, the more of the bytes are in few long transfers
    (0.01 to 100)."""


Sizes = Union[Fixed, Choice, Exponential, Pareto, BoundedPareto]
"""A law of sizes."""


def mean_bytes(sizes: Sizes) -> Array:
    """Mean size of a law, bytes."""
    return one("sharing.mean_bytes", law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))


def ps_s(bytes: ArrayLike, rate_bps: ArrayLike, load: ArrayLike) -> Array:
    """Mean time of a transfer by processor sharing: ``x / (C (1 - load))`` whatever the law of sizes.

    Args:
        bytes: Size of the transfer (bytes, 0.001 to 1e15).
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.ps_s", bytes, rate_bps, load)


def ps_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Mean time over all transfers by processor sharing.

    Args:
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.ps_mean_s", rate_bps, load, law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))


def fifo_wait_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Mean wait before service, first in, first out; a Pareto law needs a shape above 2, or it has no mean.

    Args:
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.fifo_wait_s", rate_bps, load, law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))


def fifo_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Mean time over all transfers, first in, first out.

    Args:
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.fifo_mean_s", rate_bps, load, law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))


def srpt_s(bytes: ArrayLike, rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Mean time of a transfer by SRPT (Schrage and Miller).

    Args:
        bytes: Size of the transfer (bytes, 0.001 to 1e15).
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.srpt_s", bytes, rate_bps, load, law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))


def srpt_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Mean time over all transfers by SRPT: no order of service has a smaller one.

    Args:
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        load: Share of the time in which the link is busy (0 to 0.9999).
    """
    return one("sharing.srpt_mean_s", rate_bps, load, law(sizes, (Fixed, Choice, Exponential, Pareto, BoundedPareto)))
