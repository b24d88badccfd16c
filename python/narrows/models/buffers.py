"""Buffer that a link needs, by the rules of the field.

One delay-bandwidth product (DBP; Villamizar and Song, 1994); DBP over the root of the number of flows (Appenzeller,
Keslassy and McKeown, 2004); the need of a back-off factor when all flows lose together (Shorten and Leith, 2007,
section III).
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one


def dbp_packets(rate_bps: ArrayLike, rtt_s: ArrayLike, packet_bytes: ArrayLike = 1500) -> Array:
    """Delay-bandwidth product in packets.

    Args:
        rate_bps: Rate of the link, as 2mbit (bit/s, 1 or more).
        rtt_s: Round-trip time without a queue, in seconds, or as 200ms (s, above 0 to 1e6).
        packet_bytes: Size of a packet on the wire, headers included (bytes, whole, 1 or more).
    """
    return one("buffers.dbp_packets", rate_bps, rtt_s, packet_bytes)


def sqrt_rule(dbp: ArrayLike, flows: ArrayLike) -> Array:
    """Buffer for long flows that lose independently: ``DBP / sqrt(n)``, in the unit of ``dbp``.

    Args:
        dbp: Delay-bandwidth product, in the unit that the buffer is to have (above 0).
        flows: Number of long flows that share the link (whole, 1 or more).
    """
    return one("buffers.sqrt_rule", dbp, flows)


def full_link(beta: ArrayLike) -> Array:
    """Buffer in DBP that a cut to ``beta`` just empties: ``1/beta - 1``.

    Args:
        beta: Back-off factor of at least a millionth: share of the window that a loss leaves (1e-6 to below 1).
    """
    return one("buffers.full_link", beta)


def for_utilisation(utilisation: ArrayLike, beta: ArrayLike) -> Array:
    """Least buffer in DBP with which synchronised flows use such a share: the inverse of ``aimd.efficiency``.

    Args:
        utilisation: Share of the link that is to be used (above 0 to 1).
        beta: Back-off factor of at least a millionth: share of the window that a loss leaves (1e-6 to below 1).
    """
    return one("buffers.for_utilisation", utilisation, beta)
