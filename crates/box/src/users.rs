//! Circuits: which one a packet belongs to, and their rates.
//!
//! With routing, packets come from mangle's FORWARD: replies to translated connections have their inner destination
//! again there (NAT undoes it in PREROUTING), and what goes up still has its inner source (masquerading is done in
//! POSTROUTING). So users behind NAT on this machine are known by their own addresses, and nothing has to be asked of
//! conntrack.
//!
//! NFQUEUE shows the sender's MAC address only; so whose an address is is learned on the way up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use narrows_qdisc::{CircuitRates, Direction, Event, Site};
use narrows_units::Instant;
use narrows_users::{
    Change, CircuitFile, CircuitId, Effect, Learned, LinkAddress, Newcomers, Rates, Registry, Told, User,
    UserHosts,
};
use narrows_wire::FlowKey;

use super::backend::{Backend, GonePacket};
use super::host_names::HostNames;
use super::packet::HeldPacket;
use super::settings::Settings;
use super::sight::{NamedUser, Sight};
use super::sites::Sites;

/// Names of sites that one line has.
const NAMES: usize = 5;
/// Remarks on a file that a log takes: a file of thousands of bad rows must not fill a disk.
const REMARKS: usize = 10;
/// The most that is read of a file: some hundred thousand circuits.
const MOST: u64 = 64 << 20;

/// Reads a file of circuits.
///
/// # Errors
/// Names the file, the line, the column and the remedy; with `strict` for any row that cannot be used as it is.
pub fn read(path: &Path, strict: bool) -> anyhow::Result<CircuitFile> {
    let bytes = bytes(path).with_context(|| {
        format!(
            "circuits = '{}': cannot read it: expected a file with the columns of ShapedDevices.csv",
            path.display()
        )
    })?;
    let file = CircuitFile::read(&path.display().to_string(), &bytes)?;
    Ok(if strict { file.strict()? } else { file })
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes))?;
    ensure!(bytes.len() as u64 <= MOST, "expected at most {MOST} bytes");
    Ok(bytes)
}

/// Reads a tree of sites.
///
/// # Errors
/// Names the file and what was expected; with `strict` for any site that cannot be used as it is.
pub fn read_sites(path: &Path, strict: bool) -> anyhow::Result<Sites> {
    let bytes = bytes(path).with_context(|| {
        format!("sites = '{}': cannot read it: expected a file like network.json", path.display())
    })?;
    let sites = Sites::read(&path.display().to_string(), &bytes)?;
    Ok(if strict { sites.strict()? } else { sites })
}

/// Counts and names the sites that circuits hang at and that the tree lacks, in one line; `None` if it lacks none.
#[must_use]
pub fn at_no_site(circuits: &CircuitFile, sites: &Sites) -> Option<String> {
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for circuit in circuits.circuits().all() {
        let site = &circuit.site;
        if !site.is_none() && sites.find(site).is_none() {
            *unknown.entry(if site.name.is_empty() { &site.id } else { &site.name }).or_default() += 1;
        }
    }
    let (names, count) = (unknown.len(), unknown.values().sum::<usize>());
    let list: Vec<_> = unknown.keys().take(NAMES).map(|name| format!("'{name}'")).collect();
    let more = if names > NAMES { format!(" and {} more", names - NAMES) } else { String::new() };
    (count > 0).then(|| {
        format!(
            "sites: {count} circuits hang at {}{more}, and no site is called so: they hang at none",
            list.join(", ")
        )
    })
}

/// Remarks on files of circuits and sites for a log: those that cost anything, the first few, and how many more there
/// are.
#[must_use]
pub fn remarks(file: &CircuitFile, sites: &Sites) -> Vec<String> {
    let all = || file.remarks().iter().chain(sites.remarks());
    let costly = || all().filter(|remark| remark.effect > Effect::Taken);
    let mut lines: Vec<_> = costly().take(REMARKS).map(ToString::to_string).collect();
    let more = costly().count() - lines.len();
    if more > 0 {
        lines.push(format!("circuits: {more} more remarks as these; narrows check lists all"));
    }
    lines.extend(if sites.all().is_empty() { None } else { at_no_site(file, sites) });
    lines
}

/// Lines without those that were there before: links of one box mostly share one file.
#[must_use]
pub fn unique(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines.filter(|line| seen.insert(line.clone())).collect()
}

/// The circuits of a box.
#[derive(Debug, Default)]
pub struct UserMap {
    file: Arc<CircuitFile>,
    sites: Arc<Sites>,
    /// Numbers of the file's circuits, in the order of the file.
    ids: Vec<CircuitId>,
    /// Indices of circuits in the file, by circuit number.
    places: BTreeMap<CircuitId, usize>,
    /// Places of the sites that circuits hang at, by the circuits' numbers. They are found once for a file: what is
    /// told changes no site, and may come often.
    at_sites: Arc<[Option<u32>]>,
    /// Rates of users who are in no circuit, down and up.
    plan: Rates,
    told: Told,
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
    pub fn load(&mut self, file: Arc<CircuitFile>, sites: Arc<Sites>, plan: Rates) {
        self.ids = self.registry.number(file.circuits());
        self.places = self.ids.iter().copied().zip(0..).collect();
        self.told.renew(file.circuits(), &self.ids, &mut self.registry);
        let mut at_sites = vec![None; if sites.all().is_empty() { 0 } else { self.registry.len() }];
        for (circuit, id) in file.circuits().all().iter().zip(&self.ids) {
            if let Some(at) = at_sites.get_mut(id.0 as usize) {
                *at = sites.find(&circuit.site);
            }
        }
        self.at_sites = at_sites.into();
        (self.file, self.sites, self.plan) = (file, sites, plan);
        self.learned.clear();
    }

    /// Loads circuits, sites and plan from the settings.
    pub fn load_from(&mut self, settings: &Settings) {
        self.load(settings.circuits.clone(), settings.sites.clone(), settings.plan);
    }

    /// Takes what another program tells of a circuit. Returns what holds from then on.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn tell(&mut self, change: &Change) -> Result<String, String> {
        self.told.take(change, self.file.circuits(), &self.ids, &mut self.registry)
    }

    /// Lines that tell another box all that was told.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        self.told.lines()
    }

    /// Sets the hosts that have IPv6 addresses, and the names that people are shown.
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
        let nobody = self.ids.is_empty() && self.told.is_empty();
        let circuit = if nobody { None } else { self.circuit(direction, key, link) };
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
        let way = direction as usize;
        let mut rates = vec![None; self.registry.len()];
        for (circuit, id) in self.file.circuits().all().iter().zip(&self.ids) {
            rates[id.0 as usize] = circuit.rates[way];
        }
        for (id, told) in self.told.rates() {
            match told {
                Some(told) => rates[id.0 as usize] = told[way],
                // A circuit that no file has, told without rates, has the default plan.
                None if !self.places.contains_key(&id) => rates[id.0 as usize] = self.plan[way],
                None => {}
            }
        }
        let sites: Vec<_> =
            self.sites.all().iter().map(|s| Site { rate: s.rates[way], above: s.above }).collect();
        CircuitRates::new(rates).with_others(self.plan[way]).with_sites(&sites, self.at_sites.clone())
    }

    /// The name of a circuit.
    #[must_use]
    pub fn name(&self, id: CircuitId) -> Option<&str> {
        match self.places.get(&id) {
            Some(at) => Some(&self.file.circuits().all()[*at].name),
            None => self.registry.name(id),
        }
    }

    /// Name of a user: the circuit's name if the user is a circuit, else the address.
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
        if let Some(told) = self.told.find(address) {
            return Some(told);
        }
        let circuits = self.file.circuits();
        let at = circuits.of_address(address).or_else(|| {
            let seen = circuits.of_link(link);
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

    fn load(map: &mut UserMap, text: &str) {
        let file = CircuitFile::read("x.csv", text.as_bytes()).unwrap();
        map.load(Arc::new(file), Arc::default(), [None; 2]);
    }

    fn map(rows: &str) -> UserMap {
        let head = "Circuit ID,Circuit Name,IPv4,MAC,Download Max Mbps,Upload Max Mbps\n";
        let mut map = UserMap::default();
        load(&mut map, &format!("{head}{rows}"));
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
        assert_eq!(map.rates(Direction::Down), [rate(2), rate(4)].into());
        assert_eq!(map.rates(Direction::Up), [rate(1), None].into());
        load(&mut map, "Circuit ID,IPv4,Download Max Mbps\nb,10.0.0.2,8\n");
        assert_eq!(map.rates(Direction::Down), [None, rate(8)].into());
        let to = |last| key([192, 0, 2, 1], [10, 0, 0, last]);
        assert_eq!(map.circuit(Direction::Down, &to(2), LinkAddress::default()), Some(CircuitId(1)));
        assert_eq!(map.circuit(Direction::Down, &to(1), LinkAddress::default()), None);
    }

    /// Circuits keep their sites when something is told, and one that is told alone hangs at none.
    #[test]
    fn what_is_told_moves_nobody_to_another_site() {
        let text =
            "Circuit ID,Parent Node,Parent Node ID,IPv4\na,Barn,,10.0.0.1\nb,,h,10.0.0.2\nc,,,10.0.0.3\n";
        let file = CircuitFile::read("x.csv", text.as_bytes()).unwrap();
        let tree = r#"{"Hill": {"id": "h", "children": {"Barn": {"downloadBandwidthMbps": 5}}}}"#;
        let sites = Sites::read("n.json", tree.as_bytes()).unwrap();
        let mut map = UserMap::default();
        map.load(Arc::new(file), Arc::new(sites), [None; 2]);
        for line in ["circuit b 10.0.0.9 2mbit 1mbit", "circuit guest 10.0.0.8"] {
            map.tell(&Change::parse(line).unwrap().unwrap()).unwrap();
            for direction in Direction::BOTH {
                let rates = map.rates(direction);
                let at = (0..5).map(|n| rates.site(User::circuit(CircuitId(n)))).collect::<Vec<_>>();
                assert_eq!(at, [Some(1), Some(0), None, None, None], "{line}");
            }
        }
    }

    #[test]
    fn a_file_of_two_links_is_remarked_on_once() {
        let rows = "Circuit ID,IPv4\na,10.0.0\nb,10.0.1\n";
        let file = CircuitFile::read("x.csv", rows.as_bytes()).unwrap();
        let of_a_link = || remarks(&file, &Sites::default());
        assert_eq!(of_a_link().len(), 2);
        assert_eq!(unique(of_a_link().into_iter().chain(of_a_link())), of_a_link());
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
