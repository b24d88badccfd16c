//! Answers plain HTTP in a server's place: 503 Service Unavailable with `Retry-After` (RFC 9110, sections 15.6.4 and
//! 10.2.3) to a connection that has to wait. No state is kept of such a connection: our initial sequence number is the
//! keyed hash F of its addresses and ports (RFC 6528, section 3), so an acknowledgment number tells whether a later
//! segment belongs to it. The timer M of that section is left out, as a later segment does not tell when its SYN came;
//! who has not seen our SYN|ACK must guess 32 bits all the same. Pure: headers in, packets out.
//!
//! The conversation, of which the server sees nothing:
//!
//! ```text
//! SYN, refused               ->   SYN|ACK, ISN = hash, MSS, window 65535
//! ACK, or RST                ->   nothing
//! request, or FIN            ->   the whole answer and FIN, in one segment of constant length
//! later data, or FIN         ->   ACK
//! ```
//!
//! A constant length makes a copy of the answer the same sequence numbers whatever it says, and the acknowledgment
//! numbers that belong to it a fixed range. Whatever the answer does not acknowledge the client sends again, and is
//! answered again.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use narrows_units::{Duration, SeqNum};
use narrows_wire::{Flags, Header, Proto, TcpHeader, checksum, tcp_checksum};

/// Plain HTTP.
const HTTP: u16 = 80;
/// Bytes of the answer, header and page: within the least MSS there is (536, RFC 9293, section 3.7.1).
const LENGTH: usize = 480;
/// A client that is told to wait longer would find its position given up: admission control forgets after 70 s.
const LONGEST_WAIT: u64 = 60;
const WINDOW: u16 = u16::MAX;
const TTL: u8 = 64;

/// Standing of a client in the wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Position of the client, from 1.
    pub position: usize,
    /// Time after which the client should ask again.
    pub wait: Duration,
}

/// Answer to a segment of a connection of ours; the server does not get the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// IP packet with the 503 page, to be sent to the client.
    Page(Vec<u8>),
    /// IP packet with an acknowledgment, to be sent to the client.
    Ack(Vec<u8>),
    /// Nothing is to be sent.
    Nothing,
}

/// Answers for servers behind a full link.
#[derive(Clone, Debug, Default)]
pub struct Http503 {
    /// A pseudo-random function (SipHash) with a key of 128 bits that the kernel has made.
    secret: RandomState,
}

impl Http503 {
    /// Our initial sequence number in the connection of this packet from its client.
    #[must_use]
    pub fn isn(&self, header: &Header) -> SeqNum {
        SeqNum(self.secret.hash_one(header.key) as u32)
    }

    /// The SYN|ACK that answers a SYN to port 80, as an IP packet; `None` if this is no such SYN.
    #[must_use]
    pub fn syn(&self, syn: &Header) -> Option<Vec<u8>> {
        let tcp = http(syn)?;
        let others = Flags::ACK.and(Flags::RST).and(Flags::FIN);
        if !tcp.flags.has(Flags::SYN) || tcp.flags.0 & others.0 != 0 {
            return None;
        }
        // Largest segment that fits an Ethernet frame behind a plain IP header.
        let mss: u16 = if syn.key.src().is_ipv4() { 1460 } else { 1440 };
        let [high, low] = mss.to_be_bytes();
        // Data in a SYN (RFC 7413) is not acknowledged, and so comes again.
        let says =
            Says { seq: self.isn(syn), ack: tcp.seq + 1, flags: Flags::SYN.and(Flags::ACK), payload: &[] };
        says.packet(syn, &[2, 4, high, low])
    }

    /// Answers a segment from a client; `None` if it belongs to no connection of ours, and is to go on. `standing`
    /// is called only for the 503 itself.
    #[must_use]
    pub fn segment(&self, segment: &Header, standing: impl FnOnce(IpAddr) -> Standing) -> Option<Answer> {
        let tcp = http(segment)?;
        if !tcp.flags.has(Flags::ACK) || tcp.flags.has(Flags::SYN) {
            return None;
        }
        let first = self.isn(segment) + 1;
        let acknowledged = tcp.ack.0.wrapping_sub(first.0) as usize;
        // The client's FIN is acknowledged one beyond the answer.
        if acknowledged > LENGTH + 1 {
            return None;
        }
        if tcp.flags.has(Flags::RST) || tcp.seq_len() == 0 {
            return Some(Answer::Nothing);
        }
        if acknowledged > 0 {
            let says = Says { seq: tcp.ack, ack: tcp.seq_end(), flags: Flags::ACK, payload: &[] };
            return Some(says.packet(segment, &[]).map_or(Answer::Nothing, Answer::Ack));
        }
        let page = page(standing(segment.key.src()));
        let flags = Flags::PSH.and(Flags::FIN).and(Flags::ACK);
        let says = Says { seq: first, ack: tcp.seq_end(), flags, payload: page.as_bytes() };
        Some(says.packet(segment, &[]).map_or(Answer::Nothing, Answer::Page))
    }
}

/// Whether the sender of a packet can be answered here.
#[must_use]
pub fn is_answerable(header: &Header) -> bool {
    http(header).is_some()
}

/// The TCP header of a whole segment to port 80 from an address that can be answered.
fn http(header: &Header) -> Option<TcpHeader> {
    let one_host = match header.key.src() {
        IpAddr::V4(a) => !(a.is_multicast() || a.is_broadcast() || a.is_unspecified() || a.is_loopback()),
        IpAddr::V6(a) => !(a.is_multicast() || a.is_unspecified() || a.is_loopback()),
    };
    let to_http = header.key.proto == Proto::TCP
        && header.key.dport == HTTP
        && !header.fragment
        && !header.key.is_in_tunnel();
    header.tcp.filter(|_| one_host && to_http)
}

/// The answer, always [`LENGTH`] bytes: the page is filled up with spaces. The page asks again by itself, because
/// browsers heed a refresh and not `Retry-After`.
fn page(standing: Standing) -> String {
    let position = standing.position;
    let wait = standing.wait.as_nanos().div_ceil(1_000_000_000).clamp(1, LONGEST_WAIT);
    let head = |length: usize| {
        format!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {wait}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let page = format!(
        "<!doctype html><meta http-equiv=refresh content={wait}><title>The link is full</title>\n<p>The link is full. \
         You are number {position} in line; try again in {wait} s (this page does so by itself).\n"
    );
    // A page of 100 to 999 bytes: three digits, so the length of the head does not depend on the number.
    let head = head(LENGTH - head(100).len());
    let rest = LENGTH - head.len();
    format!("{head}{page:<rest$}")
}

/// Segment of ours to a client.
struct Says<'a> {
    seq: SeqNum,
    ack: SeqNum,
    flags: Flags,
    payload: &'a [u8],
}

impl Says<'_> {
    /// An IP packet back to where `to` came from, checksums complete. `None` if its addresses are of two families,
    /// which no packet's are.
    fn packet(&self, to: &Header, options: &[u8]) -> Option<Vec<u8>> {
        let key = to.key.reverse();
        let tcp_len = u16::try_from(20 + options.len() + self.payload.len()).ok()?;
        let mut p = Vec::with_capacity(40 + usize::from(tcp_len));
        match (key.src(), key.dst()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let [high, low] = (20 + tcp_len).to_be_bytes();
                // Don't fragment; an identification means nothing then (RFC 6864, section 4.1).
                p.extend([0x45, 0, high, low, 0, 0, 0x40, 0, TTL, Proto::TCP.0, 0, 0]);
                p.extend(src.octets());
                p.extend(dst.octets());
                let sum = checksum(&p, 0);
                p[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let [high, low] = tcp_len.to_be_bytes();
                p.extend([0x60, 0, 0, 0, high, low, Proto::TCP.0, TTL]);
                p.extend(src.octets());
                p.extend(dst.octets());
            }
            _ => return None,
        }
        let at = p.len();
        p.extend(key.sport.to_be_bytes());
        p.extend(key.dport.to_be_bytes());
        p.extend(self.seq.0.to_be_bytes());
        p.extend(self.ack.0.to_be_bytes());
        p.extend([((20 + options.len()) * 4) as u8, self.flags.0]);
        p.extend(WINDOW.to_be_bytes());
        p.extend([0; 4]);
        p.extend(options);
        p.extend(self.payload);
        let sum = tcp_checksum(&p)?;
        p[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        Some(p)
    }
}

#[cfg(test)]
mod tests;
