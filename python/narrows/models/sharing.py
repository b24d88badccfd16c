"""What sharing one link costs, whatever the transport: an M/G/1 queue of transfers.

Processor sharing (Kleinrock, "Queueing Systems" II, section 4.4), what a fair queue comes to; first in, first out
(Pollaczek and Khinchine); shortest remaining processing time first (Schrage and Miller, Operations Research 14(4),
1966), the lower bound of the mean for any queue and any sender. Propagation, headers, slow start and losses come on
top.

Arguments: ``rate_bps`` of the link, 1 bit/s or more; ``load`` the share of the time it is busy, 0 to 0.9999; ``sizes``
a law of sizes in bytes, one of the classes here, whose parameters may be arrays too.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from numpy.typing import ArrayLike

from narrows import _native
from narrows.models.vectorised import Array, evaluate, in_base_units


class Fixed(NamedTuple):
    """All the same."""

    bytes: ArrayLike
    """1e-3 to 1e15."""


class Choice(NamedTuple):
    """One of these, each as likely."""

    bytes: ArrayLike
    """Shape (..., sizes), up to 1 000 000 of them."""


class Exponential(NamedTuple):
    """Exponential."""

    mean_bytes: ArrayLike
    """1e-3 to 1e15."""


class Pareto(NamedTuple):
    """``P(S > x) = (scale/x)^shape``."""

    scale_bytes: ArrayLike
    """The least size."""
    shape: ArrayLike
    """1.1 to 100."""


class BoundedPareto(NamedTuple):
    """Pareto between two ends."""

    low_bytes: ArrayLike
    """The least size."""
    high_bytes: ArrayLike
    """The greatest."""
    shape: ArrayLike
    """0.01 to 100."""


Sizes = Union[Fixed, Choice, Exponential, Pareto, BoundedPareto]


def mean_bytes(sizes: Sizes) -> Array:
    """The mean size, bytes."""
    return _queue("mean_bytes", 1.0, 0.0, sizes)


def ps_s(bytes: ArrayLike, rate_bps: ArrayLike, load: ArrayLike) -> Array:
    """Processor sharing: mean time of a transfer of ``bytes``, seconds: ``x / (C (1 - load))`` whatever the law of
    sizes."""
    return _queue("ps_s", rate_bps, load, Fixed(1.0), bytes)


def ps_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """Processor sharing: the mean over all transfers, seconds."""
    return _queue("ps_mean_s", rate_bps, load, sizes)


def fifo_wait_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """First in, first out: mean wait before service, seconds; a Pareto law needs a shape above 2, or it has no mean."""
    return _queue("fifo_wait_s", rate_bps, load, sizes)


def fifo_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """First in, first out: the mean over all transfers, seconds."""
    return _queue("fifo_mean_s", rate_bps, load, sizes)


def srpt_s(bytes: ArrayLike, rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """SRPT: mean time of a transfer of ``bytes``, seconds (Schrage and Miller)."""
    return _queue("srpt_s", rate_bps, load, sizes, bytes)


def srpt_mean_s(rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes) -> Array:
    """SRPT: the mean over all transfers, seconds: no order of service has a smaller one."""
    return _queue("srpt_mean_s", rate_bps, load, sizes)


def _queue(figure: str, rate_bps: ArrayLike, load: ArrayLike, sizes: Sizes, bytes: ArrayLike | None = None) -> Array:
    law: dict[str, ArrayLike | None] = {"a": None, "b": None, "c": None}
    row: ArrayLike = [0.0]
    match sizes:
        case Fixed(size):
            word, law["a"] = "fixed", in_base_units("bytes", size)
        case Choice(list_):
            word, row = "list", in_base_units("bytes", list_)
        case Exponential(mean):
            word, law["a"] = "exponential", in_base_units("mean_bytes", mean)
        case Pareto(scale, shape):
            word, law["a"], law["c"] = "pareto", in_base_units("scale_bytes", scale), shape
        case BoundedPareto(low, high, shape):
            word, law["c"] = "bounded_pareto", shape
            law["a"], law["b"] = in_base_units("low_bytes", low), in_base_units("high_bytes", high)
        case _:
            problem = f"= {sizes!r}: expected Fixed, Choice, Exponential, Pareto or BoundedPareto"
            raise _native.refusal("sizes", problem)
    numbers: dict[str, ArrayLike | None] = {} if bytes is None else {"bytes": bytes}
    numbers |= {"rate_bps": rate_bps, "load": load, **law}
    return evaluate(f"sharing::SharedQueue::{figure}", numbers, {"list": row}, {"sizes": word})[0]
