"""TAQ's Markov chains of one TCP flow that loses packets.

Chen, Subramanian, Iyengar and Ford, "TAQ: Enhancing Fairness and Performance Predictability in Small Packet Regimes"
(EuroSys 2014), section 3.1: a step is a round trip (an epoch), a state is a window, each packet is lost with
probability ``loss`` on its own, 0 <= loss < 1, below 1/2 for the partial and the open chain; what a fast retransmission
cannot repair waits for the timer. See ``docs/explanation/models/taq.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Numbers, evaluate, evaluate_rows, reshaped, split


@dataclass(frozen=True)
class Chain:
    """Which chain."""

    chain: str = "f64"
    """``partial`` (figure 4: one idle state for all repeated timeouts), ``f3`` (figure 5: the last of ``stages``
    stands for all beyond), ``f64`` (the last of ``stages`` repeats: the timer is capped at ``2^stages`` T0); the names
    of ``narrows model taq --chain``."""
    stages: ArrayLike | None = None
    """Back-offs beyond the first, 0 to 16; None: 3 of ``f3``, 6 of ``f64``, which is a cap of 64 T0."""
    wmax: ArrayLike = 6
    """Greatest window, packets, 4 to 10 000."""
    t0_epochs: ArrayLike = 2.0
    """The timer before it is backed off, epochs, 1 to 1e6."""
    probe_epochs: ArrayLike | None = None
    """A tail loss probe before it (RFC 8985), epochs, 1 to 1e6; None: none."""
    backoff_ends: str = "new_ack"
    """What ends a back-off, as ``Tcp.backoff_ends``: ``new_ack`` any new ACK (timestamps), ``new_sample`` Karn's valid
    sample; and as the paper has it, a window that arrives: ``s2`` of 2 (caption of figure 4), ``s3`` of 3 (text)."""
    repair: str = "sack"
    """What a fast retransmission repairs: any loss with ``sack``, or ``one`` in a window of 4 and more (the paper)."""


CHAIN = Chain()
"""A sender of today: timestamps, SACK, a timer capped at 64 T0. Behind drop-tail at losses of .05 to .25 what it sends
in an epoch is .04 off in the mean, .06 at worst (``docs/explanation/models/against-simulation.md``)."""
PAPER = Chain(backoff_ends="s3", repair="one")
"""The paper's text: a back-off lives until window 4, and one loss is repaired. It is .13 to .18 off in figure 6."""


class Stationary(NamedTuple):
    """Figures of a stationary distribution, as shares of all epochs."""

    silent: Array
    """Epochs in which nothing is sent."""
    silent_or_first: Array
    """Epochs with nothing or the retransmission of a timeout: what the paper's tipping point is about."""
    packets_per_epoch: Array
    """Mean packets sent in an epoch, those that get lost among them."""
    timeouts_per_epoch: Array
    """Timeouts, repeated ones among them."""
    mean_idle_epochs: Array
    """Mean idle epochs of a timeout; 0 if there are none."""


class Stages(NamedTuple):
    """The stages of a back-off, shape (..., stages); of the partial chain ``b0`` and ``b*``."""

    timer_epochs: Array
    """The timer: 2^k T0."""
    probe: Array
    """1 if it is a tail loss probe, not a timeout."""
    open: Array
    """1 if it stands for all stages from here on."""
    mean_idle_epochs: Array
    """Of a visit."""
    idle: Array
    """Share of the epochs without a packet in this stage."""
    first: Array
    """Share of the epochs in S_1 with this back-off: a retransmission alone."""
    second: Array
    """The same of S_2 with memory of it."""
    third: Array
    """The same of S_3."""


class Silences(NamedTuple):
    """Times in which nothing of a flow gets through; NaN for an open chain, whose waits the paper does not order."""

    per_epoch: Array
    """Silences that begin per epoch."""
    mean_epochs: Array
    """Their mean length, epochs."""


def stationary(loss: ArrayLike, chain: Chain = CHAIN) -> Stationary:
    """The stationary distribution (equations 1 to 10, with ``docs/explanation/models/taq.md``)."""
    return Stationary(*_of("stationary", chain, loss=loss))


def sent(loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Share of the epochs with n packets sent, by n from 0 on: shape (..., wmax + 1)."""
    numbers, words = _arguments(chain, loss=loss)
    return evaluate_rows("taq_chain::Stationary::sent", numbers, words=words)[0]


def stages(loss: ArrayLike, chain: Chain = CHAIN) -> Stages:
    """The stages of the back-off (equation 5, with the ratio of :func:`stage_ratio`)."""
    numbers, words = _arguments(chain, loss=loss)
    row = evaluate_rows("taq_chain::Stationary::stages", numbers, words=words)[0]
    each = reshaped(row, -1, len(Stages._fields))
    return Stages(*(each[..., i] for i in range(len(Stages._fields))))


def idle_quantile(quantile: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN, by_time: bool = False) -> Array:
    """Idle epochs that a share ``quantile`` of the timeouts do not exceed.

    With ``by_time`` each wait counts as often as it is long, as whoever looks at a moment meets it.
    """
    name = "idle_quantile_by_time" if by_time else "idle_quantile"
    return _of(f"Stationary::{name}", chain, quantile=quantile, loss=loss)[0]


def silent_in_a_row(epochs: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Probability that a flow sends nothing in so many epochs in a row that begin at a moment not chosen by it."""
    return _of("Stationary::silent_in_a_row", chain, epochs=epochs, loss=loss)[0]


def silences(loss: ArrayLike, chain: Chain = CHAIN) -> Silences:
    """How often silences begin and how long they are.

    A silence lasts from a loss that the timer repairs to the first retransmission that arrives.
    """
    return Silences(*(_of(f"Silences::{figure}", chain, loss=loss)[0] for figure in Silences._fields))


def silence_quantile(quantile: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN, by_time: bool = False) -> Array:
    """Length that a share ``quantile`` of the silences does not exceed, epochs.

    ``by_time`` as of :func:`idle_quantile`.
    """
    return _of(f"Silences::{'quantile_by_time' if by_time else 'quantile'}", chain, quantile=quantile, loss=loss)[0]


def silent_longer_than(epochs: ArrayLike, loss: ArrayLike, chain: Chain = CHAIN) -> Array:
    """Share of the flows to which nothing has come for so many epochs, at a moment."""
    return _of("Silences::longer_than", chain, epochs=epochs, loss=loss)[0]


def stage_ratio(loss: ArrayLike, backoff_ends: str = "new_ack") -> Array:
    """How much rarer each stage of the back-off is than the one before: ``1 - q^6`` for ``s3``; 0 < loss < 1."""
    return evaluate("taq_chain::stage_ratio", {"loss": loss}, words={"backoff_ends": backoff_ends})[0]


def mean_idle_uncapped(loss: ArrayLike, t0_epochs: ArrayLike = 2.0, backoff_ends: str = "new_ack") -> Array:
    """Mean idle epochs of a timeout if the timer is never capped; infinite from :func:`tipping_point` on."""
    numbers = {"t0_epochs": t0_epochs, "loss": loss}
    return evaluate("taq_chain::mean_idle_uncapped", numbers, words={"backoff_ends": backoff_ends})[0]


def tipping_point(backoff_ends: str = "new_ack") -> Array:
    """The loss from which on the mean wait of an uncapped timer is infinite: .5, and .109 with the paper's ``s3``."""
    return evaluate("taq_chain::tipping_point", {}, words={"backoff_ends": backoff_ends})[0]


def tipping_point_closed(packets: ArrayLike) -> Array:
    """The same where so many packets in a row have to arrive to end a back-off: ``1 - 2^(-1/packets)``."""
    return evaluate("taq_chain::tipping_point_closed", {"packets": packets})[0]


def _of(figure: str, chain: Chain, **asked: ArrayLike) -> tuple[Array, ...]:
    numbers, words = _arguments(chain, **asked)
    return evaluate(f"taq_chain::{figure}", numbers, words=words)


def _arguments(chain: Chain, **asked: ArrayLike) -> tuple[Numbers, dict[str, str]]:
    numbers, words = split(chain)
    return {**asked, **numbers}, words
