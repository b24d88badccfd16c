//! State of a link, as bytes in memory that go to another process.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use anyhow::Context;
use narrows_qdisc::Direction;
use narrows_units::Instant;
use narrows_users::{LinkAddress, Mac};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::engine::EngineState;
use crate::lane::LaneState;
use crate::packet::{HeldPacket, header_of_frame, header_of_packet};
use crate::sight::Mark;

/// Number of the format in which a box tells what it knows. Any change of what is told raises it: the bytes do not
/// describe themselves. Two tests notice a change of their length: one here, and one of what TAQ tells.
pub const FORMAT: u32 = 12;

#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    id: u32,
    down: bool,
    dirty: bool,
    answerable: bool,
    is_piece: bool,
    port: u32,
    ip_at: u16,
    mac: Option<[u8; 6]>,
    vlan: Option<u16>,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

impl From<&HeldPacket> for Waiting {
    fn from(p: &HeldPacket) -> Self {
        Self {
            id: p.id,
            down: p.direction == Direction::Down,
            dirty: p.dirty,
            answerable: p.answerable,
            is_piece: p.is_piece,
            port: p.port,
            ip_at: p.ip_at,
            mac: p.link.mac.map(|mac| mac.0),
            vlan: p.link.vlan,
            bytes: p.bytes.clone(),
        }
    }
}

impl Waiting {
    /// Reads the packet; `None` if the bytes are none.
    fn packet(self) -> Option<HeldPacket> {
        let ip_at = usize::from(self.ip_at);
        if ip_at > self.bytes.len() {
            return None;
        }
        let mac = self.mac.map(Mac);
        let (header, _) =
            if ip_at == 0 { header_of_packet(&self.bytes, mac) } else { header_of_frame(&self.bytes, ip_at) };
        let mut packet = HeldPacket {
            id: self.id,
            direction: if self.down { Direction::Down } else { Direction::Up },
            dirty: self.dirty,
            answerable: self.answerable,
            is_piece: self.is_piece,
            port: self.port,
            ip_at: self.ip_at,
            header,
            link: LinkAddress { mac: self.mac.map(Mac), vlan: self.vlan },
            user: None,
            mark: Mark::default(),
            bytes: self.bytes,
        };
        packet.look_inside();
        Some(packet)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Lane {
    #[serde(with = "serde_bytes")]
    knowledge: Option<Vec<u8>>,
    free_at: Instant,
    waiting: Vec<Waiting>,
    held: Vec<Waiting>,
}

/// State of a link that goes over beside descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkState {
    /// The back end's numbers.
    pub numbers: Vec<u32>,
    /// Lines in which circuits were told.
    pub told: Vec<String>,
    lanes: [Lane; 2],
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [down, up] = &self.lanes;
        let waiting = [down, up].map(|lane| lane.waiting.len() + lane.held.len());
        let known = [down, up].map(|lane| lane.knowledge.as_ref().map_or(0, Vec::len) / 1000);
        write!(
            f,
            "{} and {} packets, {} and {} kB about flows and users",
            waiting[0], waiting[1], known[0], known[1]
        )
    }
}

impl LinkState {
    /// Form of `state` that is told.
    #[must_use]
    pub fn of(state: &EngineState<HeldPacket>, numbers: Vec<u32>, told: Vec<String>) -> Self {
        let lane = |lane: &LaneState<HeldPacket>| Lane {
            knowledge: lane.knowledge.clone(),
            free_at: lane.free_at,
            waiting: lane.waiting.iter().map(Waiting::from).collect(),
            held: lane.held.iter().map(Waiting::from).collect(),
        };
        Self { numbers, told, lanes: state.each_ref().map(lane) }
    }

    /// State of the link that the other process told.
    #[must_use]
    pub fn state(self) -> EngineState<HeldPacket> {
        self.lanes.map(|lane| LaneState {
            knowledge: lane.knowledge,
            free_at: lane.free_at,
            waiting: lane.waiting.into_iter().filter_map(Waiting::packet).collect(),
            held: lane.held.into_iter().filter_map(Waiting::packet).collect(),
        })
    }

    /// Writes it into memory that can be handed over.
    pub(super) fn in_memory(&self) -> anyhow::Result<OwnedFd> {
        let bytes = postcard::to_stdvec(self).context("what is known cannot be told")?;
        let memory = memfd_create(c"narrows", MFdFlags::MFD_CLOEXEC).context("memfd_create")?;
        let mut file = File::from(memory);
        file.write_all(&bytes).context("memory for what is known")?;
        Ok(file.into())
    }

    pub(super) fn from_memory(memory: OwnedFd) -> anyhow::Result<Self> {
        let (mut file, mut bytes) = (File::from(memory), Vec::new());
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).context("what it knows")?;
        Self::parse(&bytes)
    }

    /// Understands bytes of another box.
    ///
    /// # Errors
    /// If they are none.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        postcard::from_bytes(bytes).context("what it knows cannot be read")
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use narrows_netio::rights;

    use super::*;

    fn packet(id: u32) -> HeldPacket {
        let mut bytes = vec![0xee; 12];
        bytes.extend([8, 0]);
        bytes.extend([0x45, 0x02, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes
            .extend([0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 3, 0xe8, 0, 0, 0, 0, 1, 2, 3, 4]);
        let header = narrows_wire::parse(&bytes[14..]).unwrap();
        HeldPacket {
            id,
            direction: Direction::Up,
            dirty: true,
            answerable: true,
            is_piece: true,
            port: 3,
            ip_at: 14,
            header,
            link: LinkAddress { mac: Some(Mac([2, 0, 0, 0, 0, 1])), vlan: Some(7) },
            user: None,
            mark: Mark::default(),
            bytes,
        }
    }

    /// The successor knows the flow of what waits by the same key.
    #[test]
    fn what_a_tunnel_carries_is_looked_into_again() {
        let mut before = HeldPacket::in_gre();
        before.look_inside();
        let after = Waiting::from(&before).packet().unwrap();
        assert!(after.header.key.is_in_tunnel());
        assert_eq!(after.header, before.header);
    }

    #[test]
    fn what_is_told_comes_through_a_socket_as_it_was() {
        let lane = |id| LaneState {
            knowledge: Some(vec![1, 2, 3]),
            free_at: Instant::from_nanos(99),
            waiting: [packet(id), packet(id + 1)].into(),
            held: vec![packet(id + 2)],
        };
        let state =
            LinkState::of(&[lane(1), lane(11)], vec![40, 5, 6], vec!["circuit a 10.0.0.1".to_owned()]);
        let (a, b) = UnixStream::pair().unwrap();
        let memory = state.in_memory().unwrap();
        rights::send(&a, b"link\n", &[memory.as_fd(), a.as_fd()]).unwrap();
        let (word, mut fds) = rights::receive(&b).unwrap();
        assert_eq!((word.as_slice(), fds.len()), (&b"link\n"[..], 2));
        let again = LinkState::from_memory(fds.remove(0)).unwrap();
        assert_eq!(
            (&again.numbers[..], &again.told[..]),
            (&[40, 5, 6][..], &["circuit a 10.0.0.1".to_owned()][..])
        );
        let text = |state: &EngineState<HeldPacket>| format!("{state:?}");
        assert_eq!(text(&again.state()), text(&[lane(1), lane(11)]));
    }

    #[test]
    fn nonsense_is_an_error() {
        let memory = File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap());
        (&memory).write_all(&[0xff; 100]).unwrap();
        assert!(LinkState::from_memory(memory.into()).is_err());
    }
}
