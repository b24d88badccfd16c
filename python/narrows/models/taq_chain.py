"""Markov chains of TAQ: one TCP flow that loses packets.

Chen, Subramanian, Iyengar and Ford, "TAQ: Enhancing Fairness and Performance Predictability in Small Packet Regimes"
(EuroSys 2014), section 3.1: a step is a round trip (an epoch), a state is a window, each packet is lost on its own; a
loss that no fast retransmission repairs waits for the timer. See docs/explanation/models/taq.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one, several


@dataclass(frozen=True)
class Chain:
    """Chain and its sender."""

    chain: str = "f64"
    """Chain of the paper: partial, f3 or f64, whose timer is capped at ``2^stages`` T0. One of ``partial``: figure 4:
    one idle state for all repeated timeouts; ``f3``: figure 5: the last of the stages stands for all beyond;
    ``f64``: figure 5: the last of the stages repeats."""
    stages: ArrayLike | None = None
    """Number of back-offs beyond the first (whole, 0 to 16); None: 3 of f3, 6 of f64, which is a cap of 64 T0."""
    wmax: ArrayLike = 6
    """Greatest window of a flow (packets, whole, 4 to 10000)."""
    t0_epochs: ArrayLike = 2
    """First value of the timer, before any back-off; an epoch is a round trip (epochs, 1 to 1e6)."""
    probe_epochs: ArrayLike | None = None
    """Tail loss probe before the timer (RFC 8985) (epochs, 1 to 1e6); None: no probe."""
    backoff_ends: str = "new_ack"
    """Event that ends a back-off of the timer, as ``Tcp.backoff_ends``. One of ``new_ack``: any new ACK: with
    timestamps; ``new_sample``: the first ACK of a packet sent once (Karn): without timestamps; ``s2``: the caption
    of the paper's figure 4: a window of 2 that arrives; ``s3``: the paper's text: a window of 3 that arrives."""
    repair: str = "sack"
    """Losses that a fast retransmission repairs. One of ``sack``: any number of them; ``one``: one in a window of 4 and
    more (the paper)."""


CHAIN = Chain()
"""Sender of today: timestamps, SACK, a timer capped at 64 T0. Behind drop-tail at losses of .05 to .25 its packets per
epoch are .04 off in the mean, .06 at worst (docs/explanation/models/against-simulation.md)."""


PAPER = Chain(backoff_ends="s3", repair="one")
"""Sender of the paper's text: a back-off lives until window 4, and one loss is repaired; .13 to .18 off in figure 6."""


class Stationary(NamedTuple):
    """Figures of a stationary distribution, as shares of all epochs."""

    silent: Array
    """Epochs in which nothing is sent."""
    silent_or_first: Array
    """Epochs with nothing or the retransmission of a timeout: the subject of the paper's tipping point."""
    packets_per_epoch: Array
    """Mean packets sent in an epoch, lost ones included."""
    timeouts_per_epoch: Array
    """Mean number of timeouts per epoch, repeated ones included."""
    mean_idle_epochs: Array
    """Mean idle epochs of a timeout; 0 if there are none."""


class Stages(NamedTuple):
    """Stages of a back-off, shape (..., stages); of the partial chain ``b0`` and ``b*``."""

    timer_epochs: Array
    """Length of the timer in this stage, 2^k T0, epochs."""
    probe: Array
    """Whether the stage is a tail loss probe and no timeout: 1 or 0."""
    open: Array
    """Whether the stage stands for itself and all later ones: 1 or 0."""
    mean_idle_epochs: Array
    """Mean number of idle epochs of a visit to this stage."""
    idle: Array
    """Share of the epochs that a flow spends in this stage without a packet."""
    first: Array
    """Share of the epochs in S_1 with this back-off: a retransmission alone."""
    second: Array
    """Share of the epochs in S_2 with memory of this back-off."""
    third: Array
    """Share of the epochs in S_3 with memory of this back-off."""


class Silences(NamedTuple):
    """Times in which nothing of a flow gets through; NaN for an open chain, whose waits the paper does not order."""

    per_epoch: Array
    """Number of silences that begin per epoch."""
    mean_epochs: Array
    """Mean length of a silence, epochs."""


def stationary(loss: ArrayLike, chain: Chain = CHAIN) -> Stationary:
    """Stationary distribution (equations 1 to 10, with docs/explanation/models/taq.md).

    Args:
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return Stationary(*several("taq_chain.stationary", loss, chain))


def sent(loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Share of the epochs with n packets sent, by n from 0 on; shape (..., wmax + 1).

    Args:
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return one("taq_chain.sent", loss, chain)


def stages(loss: ArrayLike, chain: Chain = CHAIN) -> Stages:
    """Stages of the back-off (equation 5, with the ratio of ``stage_ratio``).

    Args:
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return Stages(*several("taq_chain.stages", loss, chain))


def idle_quantile(quantile: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN, by_time: bool = False) -> Array:
    """Idle epochs that a share ``quantile`` of the timeouts do not exceed.

    Args:
        quantile: Share of the waits that are no longer than the result (0 to 1).
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
        by_time: Whether each wait counts as often as it is long, as an observer at a random moment meets it.
    """
    return one("taq_chain.idle_quantile", quantile, loss, chain, by_time)


def silent_in_a_row(epochs: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Probability that a flow sends nothing in some epochs in a row that begin at a random moment.

    Args:
        epochs: Silent epochs in a row (whole, 0 to 4.294967295e9).
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return one("taq_chain.silent_in_a_row", epochs, loss, chain)


def silences(loss: ArrayLike, chain: Chain = CHAIN) -> Silences:
    """Frequency and length of silences: from a loss that the timer repairs to the first retransmission that arrives.

    Args:
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return Silences(*several("taq_chain.silences", loss, chain))


def silence_quantile(quantile: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN, by_time: bool = False) -> Array:
    """Length that a share ``quantile`` of the silences does not exceed.

    Args:
        quantile: Share of the waits that are no longer than the result (0 to 1).
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
        by_time: Whether each wait counts as often as it is long, as an observer at a random moment meets it.
    """
    return one("taq_chain.silence_quantile", quantile, loss, chain, by_time)


def silent_longer_than(epochs: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Share of the flows that have been silent for some epochs, at a moment.

    Args:
        epochs: Length of the silence so far, epochs (0 or more).
        loss: Loss probability of a packet; below 0.5 for the partial and the open chain (0 to below 1).
    """
    return one("taq_chain.silent_longer_than", epochs, loss, chain)


def stage_ratio(loss: ArrayLike, backoff_ends: str = "new_ack") -> Array:
    """Ratio of each stage of the back-off to the one before: ``1 - q^6`` for ``s3``.

    Args:
        loss: Loss probability of a packet (above 0 to below 1).
        backoff_ends: Event that ends a back-off of the timer, as ``Tcp.backoff_ends``. One of ``new_ack``: any new
            ACK: with timestamps; ``new_sample``: the first ACK of a packet sent once (Karn): without timestamps;
            ``s2``: the caption of the paper's figure 4: a window of 2 that arrives; ``s3``: the paper's text: a window
            of 3 that arrives.
    """
    return one("taq_chain.stage_ratio", loss, backoff_ends)


def mean_idle_uncapped(loss: ArrayLike, t0_epochs: ArrayLike = 2, backoff_ends: str = "new_ack") -> Array:
    """Mean idle epochs of a timeout if the timer is never capped; infinite from ``tipping_point`` on.

    Args:
        loss: Loss probability of a packet (above 0 to below 1).
        t0_epochs: First value of the timer, before any back-off; an epoch is a round trip (epochs, 1 to 1e6).
        backoff_ends: Event that ends a back-off of the timer, as ``Tcp.backoff_ends``. One of ``new_ack``: any new
            ACK: with timestamps; ``new_sample``: the first ACK of a packet sent once (Karn): without timestamps;
            ``s2``: the caption of the paper's figure 4: a window of 2 that arrives; ``s3``: the paper's text: a window
            of 3 that arrives.
    """
    return one("taq_chain.mean_idle_uncapped", loss, t0_epochs, backoff_ends)


def tipping_point(backoff_ends: str = "new_ack") -> Array:
    """Loss from which on the mean wait of an uncapped timer is infinite: .5, and .109 with the paper's ``s3``.

    Args:
        backoff_ends: Event that ends a back-off of the timer, as ``Tcp.backoff_ends``. One of ``new_ack``: any new
            ACK: with timestamps; ``new_sample``: the first ACK of a packet sent once (Karn): without timestamps;
            ``s2``: the caption of the paper's figure 4: a window of 2 that arrives; ``s3``: the paper's text: a window
            of 3 that arrives.
    """
    return one("taq_chain.tipping_point", backoff_ends)


def tipping_point_closed(packets: ArrayLike) -> Array:
    """Tipping point where some packets in a row have to arrive to end a back-off: ``1 - 2^(-1/packets)``.

    Args:
        packets: Packets that have to arrive in a row to end a back-off (packets, whole, 1 to 4.294967295e9).
    """
    return one("taq_chain.tipping_point_closed", packets)
