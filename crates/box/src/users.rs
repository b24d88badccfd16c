//! Circuits: which one a packet belongs to, and their rates.
//!
//! With routing, packets come from mangle's FORWARD: replies to translated connections have their inner destination
//! again there (NAT undoes it in PREROUTING), and what goes up still has its inner source (masquerading is done in
//! POSTROUTING). So users behind NAT on this machine are known by their own addresses, and nothing has to be asked of
//! conntrack.
//!
//! NFQUEUE shows the sender's MAC address only; so whose an address is is learned on the way up.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use narrows_qdisc::{CircuitRates, Direction, Event};
use narrows_units::Instant;
use narrows_users::{CircuitId, Circuits, Learned, LinkAddress, Newcomers, Registry, User, UserHosts};
use narrows_wire::FlowKey;

use super::backend::{Backend, GonePacket};
use super::host_names::HostNames;
use super::packet::HeldPacket;
use super::sight::{NamedUser, Sight};

/// Reads a file of circuits.
///
/// # Errors
/// Names the file, the line, the column and the remedy.
pub fn read(path: &Path) -> anyhow::Result<Circuits> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!(
            "circuits = '{}': cannot read it: expected a file with the columns of ShapedDevices.csv",
            path.display()
        )
    })?;
    Ok(Circuits::parse(&path.display().to_string(), &text)?)
}

/// The circuits of a box.
#[derive(Debug, Default)]
pub struct UserMap {
    circuits: Circuits,
    /// The numbers of these, in their order.
    ids: Vec<CircuitId>,
    registry: Registry,
    learned: Learned,
    hosts: Arc<UserHosts>,
    names: Arc<HostNames>,
    newcomers: Newcomers,
    /// Leading bits of an IPv6 address that a setting says are a user's, down and up.
    said: [Option<u8>; 2],
}

impl UserMap {
    /// Takes these circuits in place of those before. A user that stays keeps its number, so packets that wait stay
    /// with their user.
    pub fn load(&mut self, circuits: &Circuits) {
        self.ids = self.registry.number(circuits);
        self.circuits = circuits.clone();
        self.learned.clear();
    }

    /// Takes addresses of IPv6 for these hosts' from now on, and tells people these names.
    pub fn know(&mut self, hosts: Arc<UserHosts>, names: Arc<HostNames>) {
        self.hosts = hosts;
        self.names = names;
    }

    /// Sets how many leading bits of an IPv6 address are a user's, down and up, where a setting says so.
    pub fn say(&mut self, bits: [Option<u8>; 2]) {
        self.said = bits;
    }

    /// User of a packet, where more is known than its address: a circuit's, or a host's.
    pub fn whose(&mut self, direction: Direction, key: &FlowKey, link: LinkAddress) -> Option<User> {
        let circuit = if self.ids.is_empty() { None } else { self.circuit(direction, key, link) };
        circuit.map(User::circuit).or_else(|| self.host(direction, address(direction, key), link))
    }

    fn host(&mut self, direction: Direction, address: u128, link: LinkAddress) -> Option<User> {
        let said = self.said[direction as usize];
        let known = self.hosts.user(address, said);
        if said.is_some_and(|bits| bits < 128) {
            return known;
        }
        if let Some(mac) = link.mac.filter(|_| direction == Direction::Up) {
            let user = known.unwrap_or_else(|| User::of_bits(address, 128));
            self.newcomers.note(&self.hosts, mac, address, user);
        }
        let known = known?;
        let new = || self.newcomers.find(address).unwrap_or(known);
        Some(if User::is_ipv4(known.bits()) { known } else { new() })
    }

    /// The rates of one direction, by number.
    #[must_use]
    pub fn rates(&self, direction: Direction) -> CircuitRates {
        let mut rates = vec![None; self.registry.len()];
        for (circuit, id) in self.circuits.all().iter().zip(&self.ids) {
            rates[id.0 as usize] = circuit.rates[direction as usize];
        }
        rates.into()
    }

    /// The name of a circuit.
    #[must_use]
    pub fn name(&self, id: CircuitId) -> Option<&str> {
        let at = self.ids.iter().position(|known| *known == id)?;
        Some(&self.circuits.all()[at].name)
    }

    /// The name of a user: the circuit's, if it is one, else its address.
    #[must_use]
    pub fn user(&self, user: User) -> String {
        let name = user.as_circuit().and_then(|id| self.name(id));
        name.map_or_else(|| user.to_string(), str::to_owned)
    }

    /// Name of a user to show: of a host its lease's name or its MAC address, where known.
    #[must_use]
    pub fn named(&self, user: User) -> NamedUser {
        let name = if user.as_circuit().is_some() { None } else { self.names.name(user) };
        NamedUser { name, ..self.user(user).into() }
    }

    /// The circuit of a packet: by its user's address, else by what the link layer shows.
    pub fn circuit(&mut self, direction: Direction, key: &FlowKey, link: LinkAddress) -> Option<CircuitId> {
        let address = address(direction, key);
        let by_address = self.circuits.of_address(address);
        let at = by_address.or_else(|| {
            let seen = self.circuits.of_link(link);
            if let Some(at) = seen {
                self.learned.note(address, at);
            }
            seen.or_else(|| self.learned.find(address))
        })?;
        self.ids.get(at as usize).copied()
    }
}

/// The user's address of a packet.
const fn address(direction: Direction, key: &FlowKey) -> u128 {
    match direction {
        Direction::Down => key.dst_bits(),
        Direction::Up => key.src_bits(),
    }
}

/// A back end whose packets are told their flows, where they are tunnels', and their users as they come.
pub struct Sorted<'a, B> {
    pub backend: &'a mut B,
    pub users: &'a mut UserMap,
    /// Sight, which is shown all packets.
    pub sight: &'a mut Sight,
}

impl<B: Backend<Packet = HeldPacket>> Backend for Sorted<'_, B> {
    type Packet = HeldPacket;

    fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
        let before = into.len();
        let more = self.backend.receive(now, into);
        for (direction, packet) in &mut into[before..] {
            packet.look_inside();
            packet.user = self.users.whose(*direction, &packet.header.key, packet.link);
        }
        self.sight.arrived_together(now, &mut into[before..]);
        more
    }

    fn apply(&mut self, now: Instant, event: Event<HeldPacket>) {
        self.sight.decided(now, &event);
        self.backend.apply(now, event);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.backend.flush()
    }

    fn keeps(&self, direction: Direction) -> bool {
        self.backend.keeps(direction)
    }

    fn take_gone(&mut self) -> Vec<GonePacket> {
        self.backend.take_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rate;
    use narrows_wire::Proto;

    fn map(rows: &str) -> UserMap {
        let head = "Circuit ID,Circuit Name,IPv4,MAC,Download Max Mbps,Upload Max Mbps\n";
        let mut map = UserMap::default();
        map.load(&Circuits::parse("x.csv", &format!("{head}{rows}")).unwrap());
        map
    }

    fn key(src: [u8; 4], dst: [u8; 4]) -> FlowKey {
        FlowKey::new(src.into(), dst.into(), 40_000, 80, Proto::TCP)
    }

    #[test]
    fn by_address_on_the_users_side_and_by_what_was_learned() {
        let mut map = map("a,Office,10.0.0.0/24,,,\nb,,,02:00:00:00:00:0b,,\n");
        let (wide, office, home) = ([192, 0, 2, 1], [10, 0, 0, 7], [10, 9, 9, 9]);
        let none = LinkAddress::default();
        assert_eq!(map.circuit(Direction::Down, &key(wide, office), none), Some(CircuitId(0)));
        assert_eq!(map.circuit(Direction::Up, &key(office, wide), none), Some(CircuitId(0)));
        assert_eq!(map.circuit(Direction::Up, &key(wide, office), none), None, "the other side is no user");
        assert_eq!(map.circuit(Direction::Down, &key(wide, home), none), None);
        let seen = LinkAddress { mac: "02:00:00:00:00:0b".parse().ok(), vlan: None };
        assert_eq!(map.circuit(Direction::Up, &key(home, wide), seen), Some(CircuitId(1)));
        assert_eq!(map.circuit(Direction::Down, &key(wide, home), none), Some(CircuitId(1)));
        assert_eq!((map.name(CircuitId(0)), map.name(CircuitId(1))), (Some("Office"), Some("b")));
    }

    #[test]
    fn a_reload_keeps_numbers_and_changes_rates() {
        let mut map = map("a,,10.0.0.1,,2,1\nb,,10.0.0.2,,4,\n");
        let rate = |mbps: u64| Some(Rate::from_kbps(mbps * 1000));
        assert_eq!(*map.rates(Direction::Down), [rate(2), rate(4)]);
        assert_eq!(*map.rates(Direction::Up), [rate(1), None]);
        map.load(&Circuits::parse("x", "Circuit ID,IPv4,Download Max Mbps\nb,10.0.0.2,8\n").unwrap());
        assert_eq!(*map.rates(Direction::Down), [None, rate(8)]);
        let to = |last| key([192, 0, 2, 1], [10, 0, 0, last]);
        assert_eq!(map.circuit(Direction::Down, &to(2), LinkAddress::default()), Some(CircuitId(1)));
        assert_eq!(map.circuit(Direction::Down, &to(1), LinkAddress::default()), None);
    }

    /// Receives one packet.
    struct Once(Option<HeldPacket>);

    impl Backend for Once {
        type Packet = HeldPacket;

        fn receive(&mut self, _: Instant, into: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
            into.extend(self.0.take().map(|packet| (Direction::Up, packet)));
            Ok(false)
        }
        fn apply(&mut self, _: Instant, _: Event<HeldPacket>) {}
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The circuit is that of the tunnel's own address, 10.0.1.1, and not of the one within, 10.0.0.1.
    #[test]
    fn what_comes_in_a_tunnel_is_a_flow_of_whose_it_is() {
        let mut users = map("inner,,10.0.0.1,,,\nouter,,10.0.1.1,,,\n");
        let (mut backend, mut sight) = (Once(Some(HeldPacket::in_gre())), Sight::new(Instant::ZERO, 1));
        let mut into = Vec::new();
        let mut sorted = Sorted { backend: &mut backend, users: &mut users, sight: &mut sight };
        sorted.receive(Instant::ZERO, &mut into).unwrap();
        let (_, packet) = &into[0];
        assert_eq!((packet.header.key.proto, packet.header.key.is_in_tunnel()), (Proto::TCP, true));
        assert_eq!(packet.header.key.src(), std::net::IpAddr::from([10, 0, 1, 1]));
        assert_eq!(narrows_qdisc::Packet::circuit(packet), Some(CircuitId(1)));
    }
}
