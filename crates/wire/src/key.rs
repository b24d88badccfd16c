//! The five-tuple that identifies one direction of a flow.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP protocol number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Proto(pub u8);

impl Proto {
    /// ICMP.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMPv6.
    pub const ICMPV6: Self = Self(58);
}

/// One direction of a flow. IPv4 addresses are stored as IPv4-mapped IPv6 (RFC 4291, 2.5.5.2). Ports are zero if the
/// protocol has none, and for fragments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlowKey {
    src: [u8; 16],
    dst: [u8; 16],
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Protocol.
    pub proto: Proto,
    in_tunnel: bool,
}

impl FlowKey {
    /// A key from addresses and ports.
    #[must_use]
    pub fn new(src: IpAddr, dst: IpAddr, sport: u16, dport: u16, proto: Proto) -> Self {
        Self { src: octets(src), dst: octets(dst), sport, dport, proto, in_tunnel: false }
    }
    /// The key of what has no ports between an address, as [`FlowKey::src_bits`] has it, and itself: to hash addresses.
    #[must_use]
    pub const fn of_host(bits: u128) -> Self {
        let address = bits.to_be_bytes();
        Self { src: address, dst: address, sport: 0, dport: 0, proto: Proto(0), in_tunnel: false }
    }
    /// Source address.
    #[must_use]
    pub fn src(&self) -> IpAddr {
        address(self.src)
    }
    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> IpAddr {
        address(self.dst)
    }
    /// Source address in 128 bits, IPv4 mapped into IPv6.
    #[must_use]
    pub const fn src_bits(&self) -> u128 {
        u128::from_be_bytes(self.src)
    }
    /// Destination address in 128 bits, IPv4 mapped into IPv6.
    #[must_use]
    pub const fn dst_bits(&self) -> u128 {
        u128::from_be_bytes(self.dst)
    }
    /// The other direction of the same flow.
    #[must_use]
    pub const fn reverse(&self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, ..*self }
    }
    /// The key of another protocol and other ports between the same addresses.
    pub(crate) const fn with(self, proto: Proto, sport: u16, dport: u16) -> Self {
        Self { sport, dport, proto, ..self }
    }
    /// The key of this flow where a tunnel carries it: the tunnel's addresses, this protocol, and in place of ports 32
    /// bits of a hash of the addresses and ports. Of a thousand flows in one tunnel two are the same with a probability
    /// of 0.0001. What carries the other direction has the reverse of this key.
    ///
    /// Two processes must agree on keys, so the hash has no secret. Who finds a flow with another's bits can do no more
    /// than who forges the other's addresses.
    pub(crate) fn within(&self, tunnel: &Self) -> Self {
        let forward = (self.src, self.sport) <= (self.dst, self.dport);
        let hash = if forward { *self } else { self.reverse() }.hash(0);
        let (lower, upper) = (hash as u16, (hash >> 16) as u16);
        let (sport, dport) = if forward { (lower, upper) } else { (upper, lower) };
        Self { in_tunnel: true, ..tunnel.with(self.proto, sport, dport) }
    }
    /// Whether the flow is one that a tunnel carries. The addresses are the tunnel's then, and the ports are made from
    /// the flow's own addresses and ports.
    #[must_use]
    #[inline]
    pub const fn is_in_tunnel(&self) -> bool {
        self.in_tunnel
    }
    /// A hash with a seed from the caller: who does not know the seed cannot choose addresses that collide.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        let ports = u64::from(self.sport) << 32 | u64::from(self.dport) << 8 | u64::from(self.proto.0);
        let a = fold(word(&self.src, 0) ^ seed, word(&self.src, 8) ^ K0);
        let b = fold(word(&self.dst, 0) ^ seed.rotate_left(32), word(&self.dst, 8) ^ K1);
        fold(a ^ ports, b ^ seed ^ K2)
    }

    /// A hash that both directions of a flow have in common, with a seed as of [`FlowKey::hash`].
    #[must_use]
    pub fn hash_either_way(&self, seed: u64) -> u64 {
        let end = |address: &[u8; 16], port: u16| {
            fold(word(address, 0) ^ seed, word(address, 8) ^ u64::from(port) << 32 ^ K0)
        };
        let (a, b) = (end(&self.src, self.sport), end(&self.dst, self.dport));
        fold((a ^ b).wrapping_add(self.proto.0.into()), a.wrapping_add(b) ^ seed.rotate_left(32))
    }
}

/// Eight bytes of an address as a number.
fn word(address: &[u8; 16], at: usize) -> u64 {
    let mut w = [0; 8];
    w.copy_from_slice(&address[at..at + 8]);
    u64::from_le_bytes(w)
}

// The first 64 fractional bits of sqrt 2, sqrt 3 and sqrt 5: numbers with nothing up their sleeve.
const K0: u64 = 0x6a09_e667_f3bc_c908;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;

/// Folded multiplication: the two halves of the 128-bit product, exclusive-or.
const fn fold(a: u64, b: u64) -> u64 {
    // Zero times anything is zero. Which `a` becomes zero depends on the seed. `b` gives up its lowest bit never to be
    // zero: addresses that differ in nothing but the lowest bit of their ninth byte collide. No two of IPv4 do. Where
    // nobody may guess the outcome, as for a sequence number, this is no replacement for SipHash.
    let p = (a ^ K2) as u128 * ((b ^ K0) | 1) as u128;
    (p as u64) ^ ((p >> 64) as u64)
}

fn octets(a: IpAddr) -> [u8; 16] {
    match a {
        // As a number: byte by byte it is a good part of what it takes to read a packet's headers.
        IpAddr::V4(v4) => (0xffff_0000_0000 | u128::from(v4.to_bits())).to_be_bytes(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn address(o: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(o);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

impl Default for FlowKey {
    fn default() -> Self {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self::new(any, any, 0, 0, Proto::default())
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proto = match self.proto {
            Proto::TCP => "tcp",
            Proto::UDP => "udp",
            Proto::ICMP | Proto::ICMPV6 => "icmp",
            _ => "ip",
        };
        let tunnel = if self.in_tunnel { " in tunnel" } else { "" };
        write!(f, "{proto}{tunnel} {} > {}", end(self.src(), self.sport), end(self.dst(), self.dport))
    }
}
impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn end(a: IpAddr, port: u16) -> String {
    core::net::SocketAddr::new(a, port).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_both_directions() {
        let k = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 4000, 80, Proto::TCP);
        assert_eq!(k.reverse().reverse(), k);
        assert_eq!(k.to_string(), "tcp 10.0.0.1:4000 > 10.0.0.2:80");
        assert_ne!(k.hash(1), k.reverse().hash(1));
        assert_ne!(k.hash(1), k.hash(2));
        assert_eq!(k.hash_either_way(1), k.reverse().hash_either_way(1));
        let crossed = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 4000, Proto::TCP);
        assert_ne!(k.hash_either_way(1), crossed.hash_either_way(1), "ports of the other ends");
        assert_ne!(k.hash_either_way(1), k.hash_either_way(2));
    }

    #[test]
    fn the_hash_spreads_the_keys_a_network_really_has() {
        // One server, 256 hosts, 256 ports: 65 536 keys into 4096 buckets, 16 expected in each. A Poisson tail above
        // 48 has probability under 1e-10 per bucket.
        for seed in [0, 1, u64::MAX, 0x1234_5678] {
            let mut buckets = [vec![0u32; 4096], vec![0u32; 4096]];
            for host in 0..=255u8 {
                for port in 0..256u16 {
                    let k = FlowKey::new(
                        [10, 0, 0, 1].into(),
                        [10, 0, 1, host].into(),
                        80,
                        32768 + port,
                        Proto::TCP,
                    );
                    buckets[0][(k.hash(seed) & 4095) as usize] += 1;
                    buckets[1][(k.hash_either_way(seed) & 4095) as usize] += 1;
                }
            }
            assert!(buckets.iter().flatten().all(|n| *n <= 48), "seed {seed}");
        }
    }
}
