//! Names of hosts to show: from a file of DHCP leases, else their MAC addresses. These names decide nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use narrows_users::{Leases, Mac, User};

/// Most bytes read of a file, enough for 65 536 leases of dnsmasq.
const MOST: u64 = 8 << 20;

/// Names of hosts, as far as this machine knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    leases: Arc<Leases>,
    macs: BTreeMap<u128, Mac>,
}

impl HostNames {
    /// Makes names out of leases; a host without a lease is named by its neighbour entry's MAC address.
    pub fn new(leases: Arc<Leases>, neighbours: &[(Mac, IpAddr)]) -> Self {
        let macs = neighbours.iter().map(|(mac, address)| (User::of(*address, 128).bits(), *mac));
        Self { leases, macs: macs.collect() }
    }

    /// Name of a user's host, if the host is known.
    pub fn name(&self, user: User) -> Option<String> {
        let leased = self.leases.name(user).map(str::to_owned);
        leased.or_else(|| self.macs.get(&user.bits()).map(Mac::to_string))
    }
}

/// Identity of a file when it was read: whoever writes it anew makes another, or one of another time or length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    number: u64,
    changed: (i64, i64),
    length: u64,
}

/// File of DHCP leases, read again when the file has changed.
#[derive(Debug, Default)]
pub struct LeasesFile {
    read: Option<Version>,
    leases: Arc<Leases>,
}

impl LeasesFile {
    /// Present leases of the file; none without a file, or where it cannot be read.
    pub fn look(&mut self, path: Option<&Path>) -> Arc<Leases> {
        let opened = path.and_then(|path| open(path).ok());
        match opened {
            None => *self = Self::default(),
            Some((_, version)) if self.read == Some(version) => {}
            Some((file, version)) => {
                self.leases = Arc::new(parse(file).unwrap_or_default());
                self.read = Some(version);
            }
        }
        self.leases.clone()
    }
}

/// Reads a file of DHCP leases.
///
/// # Errors
/// If it is no file that can be read.
pub fn read(path: &Path) -> io::Result<Leases> {
    parse(open(path)?.0)
}

/// A pipe would be waited for.
fn open(path: &Path) -> io::Result<(File, Version)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let changed = (found.mtime(), found.mtime_nsec());
    Ok((file, Version { device: found.dev(), number: found.ino(), changed, length: found.len() }))
}

fn parse(file: File) -> io::Result<Leases> {
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text)?;
    Ok(Leases::parse(&String::from_utf8_lossy(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_lease_stands_before_a_mac_address() {
        let [a, b, c] = [7, 8, 9].map(|last| User::of([10, 0, 0, last].into(), 128));
        let neighbours = [7, 8].map(|last| (Mac([2, 0, 0, 0, 0, last]), IpAddr::from([10, 0, 0, last])));
        let names = HostNames::new(Arc::new(Leases::parse("1 m 10.0.0.7 laptop *\n")), &neighbours);
        assert_eq!(
            [a, b, c].map(|user| names.name(user)),
            [Some("laptop".into()), Some("02:00:00:00:00:08".into()), None]
        );
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let folder = narrows_testing::Scratch::new("leases");
        let path = folder.join("leases");
        let mut file = LeasesFile::default();
        let mut count = || file.look(Some(&path)).len();
        assert_eq!(count(), 0);
        std::fs::write(&path, "1 m 10.0.0.7 laptop *\n").unwrap();
        assert_eq!(count(), 1);
        std::fs::write(&path, "1 m 10.0.0.7 laptop *\n1 m 10.0.0.8 tablet *\n").unwrap();
        assert_eq!(count(), 2);
        // As servers do: another file in its place.
        let new = folder.join("new");
        std::fs::write(&new, "1 m 10.0.0.7 laptop *\n1 m 10.0.0.8 printe *\n").unwrap();
        std::fs::rename(&new, &path).unwrap();
        assert_eq!(file.look(Some(&path)).name(User::of([10, 0, 0, 8].into(), 128)), Some("printe"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.look(Some(&path)).len(), 0);
        assert_eq!(file.look(Some(&folder)).len(), 0, "no file");
        assert_eq!(file.look(None).len(), 0);
    }
}
