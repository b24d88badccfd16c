"""How much buffer a link needs, by the rules of the field.

One delay-bandwidth product (DBP; Villamizar and Song, 1994); DBP over the root of the number of flows (Appenzeller,
Keslassy and McKeown, 2004); what a back-off factor needs when all flows lose together (Shorten and Leith, 2007, section
III).
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate


def dbp_packets(rate_bps: ArrayLike, rtt_s: ArrayLike, packet_bytes: ArrayLike = 1500) -> Array:
    """The delay-bandwidth product in packets.

    Args:
        rate_bps: bit/s, 1 or more.
        rtt_s: seconds, above 0 and at most 1e6.
        packet_bytes: whole bytes, 1 or more.
    """
    return evaluate("buffers::dbp_packets", {"rate_bps": rate_bps, "rtt_s": rtt_s, "packet_bytes": packet_bytes})[0]


def sqrt_rule(dbp: ArrayLike, flows: ArrayLike) -> Array:
    """``DBP / sqrt(n)`` in the unit of ``dbp``, for ``flows`` long flows that lose independently."""
    return evaluate("buffers::sqrt_rule", {"dbp": dbp, "flows": flows})[0]


def full_link(beta: ArrayLike) -> Array:
    """``1/beta - 1``: the buffer in DBP that a cut to ``beta`` just empties; 1e-6 <= beta < 1."""
    return evaluate("buffers::full_link", {"beta": beta})[0]


def for_utilisation(utilisation: ArrayLike, beta: ArrayLike) -> Array:
    """The least buffer in DBP with which synchronised flows use such a share: the inverse of ``aimd.efficiency``.

    Args:
        utilisation: 0 < utilisation <= 1.
        beta: factor, 1e-6 <= beta < 1.
    """
    return evaluate("buffers::for_utilisation", {"utilisation": utilisation, "beta": beta})[0]
