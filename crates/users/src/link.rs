//! What the link layer tells of a user: the MAC address and the VLAN.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no MAC address: expected one as 02:00:5e:10:00:01");
        let mut mac = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut mac {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(mac)) }
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

/// What a frame shows of the user, as far as the way in shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAddress {
    /// The MAC address on the users' side.
    pub mac: Option<Mac>,
    /// The VLAN's number.
    pub vlan: Option<u16>,
}

/// Addresses remembered at once.
const REMEMBERED: usize = 1 << 16;

/// Which addresses were seen to come from which circuit's MAC address or VLAN. Where the way in shows the link layer
/// of one direction only, the other direction's packets are found by that. When it is full it begins again: whoever is
/// there is soon seen again.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    seen: BTreeMap<u128, u32>,
}

impl Learned {
    /// This address belongs to that circuit.
    pub fn note(&mut self, address: u128, circuit: u32) {
        if self.seen.get(&address) == Some(&circuit) {
            return;
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(address, circuit);
    }

    /// The circuit of an address.
    #[must_use]
    pub fn find(&self, address: u128) -> Option<u32> {
        if self.seen.is_empty() { None } else { self.seen.get(&address).copied() }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        let mac: Mac = "02:00:5E:10:00:ff".parse().unwrap();
        assert_eq!((mac.0, mac.to_string()), ([2, 0, 0x5e, 0x10, 0, 0xff], "02:00:5e:10:00:ff".to_owned()));
        assert_eq!("02-00-5e-10-00-ff".parse(), Ok(mac));
        for wrong in ["", "02:00:5e:10:00", "02:00:5e:10:00:ff:00", "02:00:5e:10:00:fg", "2:0:5e:10:0:ff"] {
            assert!(wrong.parse::<Mac>().unwrap_err().contains("expected one as"), "{wrong}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut learned = Learned::default();
        (0..REMEMBERED as u128 + 10).for_each(|a| learned.note(a, 1));
        assert_eq!(
            (learned.seen.len(), learned.find(3), learned.find(REMEMBERED as u128)),
            (10, None, Some(1))
        );
    }
}
