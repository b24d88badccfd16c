//! Link-layer address of a user: its MAC address and its VLAN.

use core::fmt;
use core::str::FromStr;
use std::collections::{BTreeMap, VecDeque};

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    /// Reads twelve hexadecimal digits, in whatever groups a vendor writes them (`02:00:5e:10:00:01`,
    /// `02-00-5E-10-00-01`, `0200.5e10.0001`, `02005E-100001`, `02005e100001`), or six numbers with colons between,
    /// without leading zeros, as BSD writes them.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no MAC address: expected one as 02:00:5e:10:00:01");
        let groups: Vec<&str> = text.split([':', '-', '.', ' ']).collect();
        let alike = groups.iter().all(|group| group.len() == groups[0].len());
        let in_bytes = groups.len() == 6 && groups.iter().all(|group| (1..=2).contains(&group.len()));
        let digits = match groups.len() {
            1 | 2 | 3 | 6 if alike && !in_bytes => groups.concat(),
            6 if in_bytes => groups.iter().map(|group| format!("{group:0>2}")).collect(),
            _ => return Err(wrong()),
        };
        if digits.len() != 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let bits = u64::from_str_radix(&digits, 16).map_err(|_| wrong())?;
        let [_, _, mac @ ..] = bits.to_be_bytes();
        Ok(Self(mac))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Link-layer address in a frame, as far as the backend shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAddress {
    /// The MAC address on the users' side.
    pub mac: Option<Mac>,
    /// The VLAN's number.
    pub vlan: Option<u16>,
}

/// Addresses remembered at once, and of one circuit: a household's, or a village router's.
const REMEMBERED: usize = 1 << 16;
const OF_A_CIRCUIT: usize = 1 << 10;
/// Packets in a row from another circuit, with none from its own between them, until an address is believed to have
/// moved there: who writes a neighbour's address as its own does not have that neighbour's downloads by it.
const MOVED: u8 = 64;

/// Addresses seen with a circuit's MAC address or VLAN. Where the backend shows the link layer of one direction
/// only, the other direction's packets are found by these. A circuit above its limit forgets its own oldest
/// address; when all is full, circuits that have none learn no new ones, so that no circuit loses by another.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Circuit of an address, and how many packets in a row another claimed it.
    seen: BTreeMap<u128, (u32, u8)>,
    /// Addresses of each circuit, the oldest first.
    of: BTreeMap<u32, VecDeque<u128>>,
}

impl Learned {
    /// This address belongs to that circuit.
    pub fn note(&mut self, address: u128, circuit: u32) {
        if let Some((of, claims)) = self.seen.get_mut(&address) {
            if *of == circuit {
                *claims = 0;
                return;
            }
            *claims += 1;
            if *claims < MOVED {
                return;
            }
            self.forget(address);
        }
        let mine = self.of.get(&circuit).map_or(0, VecDeque::len);
        if mine >= OF_A_CIRCUIT || self.seen.len() >= REMEMBERED {
            let Some(oldest) = self.of.get(&circuit).and_then(|all| all.front().copied()) else { return };
            self.forget(oldest);
        }
        self.seen.insert(address, (circuit, 0));
        self.of.entry(circuit).or_default().push_back(address);
    }

    fn forget(&mut self, address: u128) {
        let Some((circuit, _)) = self.seen.remove(&address) else { return };
        if let Some(all) = self.of.get_mut(&circuit) {
            // The oldest, but for one that has moved.
            let at = all.iter().position(|one| *one == address);
            if let Some(at) = at {
                all.remove(at);
            }
        }
    }

    /// The circuit of an address.
    #[must_use]
    pub fn find(&self, address: u128) -> Option<u32> {
        if self.seen.is_empty() { None } else { self.seen.get(&address).map(|seen| seen.0) }
    }

    /// Forgets all addresses.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.of.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        let mac: Mac = "02:00:5E:10:00:ff".parse().unwrap();
        assert_eq!((mac.0, mac.to_string()), ([2, 0, 0x5e, 0x10, 0, 0xff], "02:00:5e:10:00:ff".to_owned()));
        for same in [
            "02-00-5e-10-00-ff",
            "02 00 5e 10 00 ff",
            "0200.5e10.00FF",
            "0200-5e10-00ff",
            "02005e-1000ff",
            "02005E1000FF",
            "2:0:5e:10:0:ff",
        ] {
            assert_eq!(same.parse(), Ok(mac), "{same}");
        }
        for wrong in [
            "",
            "02:00:5e:10:00",
            "02:00:5e:10:00:ff:00",
            "02:00:5e:10:00:fg",
            "0200:5e10:0",
            "+2:00:5e:10:00:ff",
            "alice@isp",
            "2001:db8::1",
            "100.64.0.1",
        ] {
            assert!(wrong.parse::<Mac>().unwrap_err().contains("expected one as"), "{wrong}");
        }
    }

    #[test]
    fn one_circuit_takes_nothing_from_another() {
        let mut learned = Learned::default();
        learned.note(7, 2);
        // A user that sends from made-up addresses, and from its neighbour's once.
        (0..REMEMBERED as u128 * 2).for_each(|a| learned.note(1000 + a, 1));
        learned.note(7, 1);
        assert_eq!(learned.seen.len(), OF_A_CIRCUIT + 1);
        assert_eq!((learned.find(7), learned.find(1000)), (Some(2), None));
        assert_eq!(learned.find(1000 + REMEMBERED as u128 * 2 - 1), Some(1));
        // Many circuits that do so fill it, and a new one learns nothing.
        for circuit in 10..100 {
            (0..OF_A_CIRCUIT as u128).for_each(|a| learned.note((u128::from(circuit) << 32) + a, circuit));
        }
        learned.note(8, 3);
        assert_eq!((learned.seen.len(), learned.find(7), learned.find(8)), (REMEMBERED, Some(2), None));
    }

    #[test]
    fn an_address_moves_when_its_circuit_is_silent() {
        let mut learned = Learned::default();
        learned.note(7, 1);
        (1..MOVED).for_each(|_| learned.note(7, 2));
        learned.note(7, 1);
        (1..MOVED).for_each(|_| learned.note(7, 2));
        assert_eq!(learned.find(7), Some(1));
        learned.note(7, 2);
        assert_eq!(learned.find(7), Some(2));
        assert_eq!((learned.of[&1].len(), learned.of[&2].len()), (0, 1));
    }
}
