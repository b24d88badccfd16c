//! The other way in and out: two packet sockets that join two interfaces at layer 2. Any EtherType passes, and waits;
//! what is no IP as a flow of its user's Ethernet address. Here the box itself forwards: when it is gone, so is the
//! connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Context;
use narrows_netio::frame::{self, VNET, Vnet};
use narrows_netio::mmsg::{self, BATCH, Batch};
use narrows_netio::packet_socket::{
    be_promiscuous, bind, dropped, ignore_outgoing, with_auxdata, with_vnet_header,
};
use narrows_qdisc::{Direction, Event, Verdict};
use narrows_units::Instant;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::backend::Backend;
use super::channel::Channel;
use super::interface_names::Named;
use super::packet::{ErrorCounters, HeldPacket, Passage};

/// Bytes of frames that may wait to be read.
const SOCKET_BUFFER: usize = 16 << 20;
/// A 64 kB segment, its Ethernet header with two tags, and the vnet header.
const DATAGRAM: usize = 66_000;
/// tp_status: a VLAN tag was taken off; its TPID is told too (linux/if_packet.h).
const VLAN_VALID: u32 = 1 << 4;
const VLAN_TPID_VALID: u32 = 1 << 6;

#[derive(Debug)]
struct Port {
    name: String,
    index: u32,
    input: OwnedFd,
    output: OwnedFd,
    batch: Batch,
    /// Frames to be sent out of this port's interface.
    outgoing: Vec<Vec<u8>>,
    /// Frames received on this port's interface.
    came: Passage,
}

impl Port {
    fn open(name: &str, index: u32) -> io::Result<Self> {
        let (input, output) = Self::sockets(index)?;
        Ok(Self {
            name: name.to_owned(),
            index,
            input,
            output,
            batch: Batch::new(DATAGRAM),
            outgoing: Vec::new(),
            came: Passage::default(),
        })
    }

    fn sockets(index: u32) -> io::Result<(OwnedFd, OwnedFd)> {
        // Without a protocol until all is set: no frame may come in that is not wanted.
        let open = || socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None);
        let (input, output) = (open()?, open()?);
        ignore_outgoing(&input)?;
        with_vnet_header(&input)?;
        with_auxdata(&input)?;
        if setsockopt(&input, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            setsockopt(&input, sockopt::RcvBuf, &SOCKET_BUFFER)?;
        }
        bind(&output, index, 0)?;
        bind(&input, index, libc::ETH_P_ALL as u16)?;
        // Frames for others than this machine are why we are here.
        be_promiscuous(&input, index)?;
        Ok((input, output))
    }
}

/// Back end on two interfaces that nothing but this box joins.
#[derive(Debug)]
pub struct PacketPair {
    /// Ports by which packets of each direction come in: the wide network's interface for down, the users' for up.
    ports: [Port; 2],
    errors: ErrorCounters,
}

impl PacketPair {
    /// Joins `lan` and `wan`.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub fn open(lan: Named<'_>, wan: Named<'_>) -> anyhow::Result<Self> {
        let port = |Named { name, link }: Named<'_>| {
            Port::open(name, link.index).with_context(|| format!("cannot open a packet socket on {name}"))
        };
        Ok(Self { ports: [port(wan)?, port(lan)?], errors: ErrorCounters::default() })
    }

    /// Goes on where another process stops, on the interfaces `lan` and `wan`, with descriptors and numbers of its
    /// [`Channel::hand_over`]. `None` if they are of another back end.
    pub fn resume(lan: &str, wan: &str, fds: Vec<OwnedFd>, numbers: &[u32]) -> Option<Self> {
        let (&[wan_index, lan_index], Ok([a, b, c, d])) = (numbers, <[OwnedFd; 4]>::try_from(fds)) else {
            return None;
        };
        let port = |name: &str, index, input, output| {
            let (name, batch) = (name.to_owned(), Batch::new(DATAGRAM));
            Port { name, index, input, output, batch, outgoing: Vec::new(), came: Passage::default() }
        };
        let ports = [port(wan, wan_index, a, b), port(lan, lan_index, c, d)];
        Some(Self { ports, errors: ErrorCounters::default() })
    }

    fn out(&mut self, direction: Direction) -> &mut Vec<Vec<u8>> {
        &mut self.ports[direction.other() as usize].outgoing
    }

    /// Takes in a received datagram as packets to queue.
    fn take_in(
        datagram: &[u8],
        vlan: Option<(u16, u16)>,
        direction: Direction,
        errors: &mut ErrorCounters,
        came: &mut Passage,
        into: &mut Vec<(Direction, HeldPacket)>,
    ) {
        let Some((vnet, raw)) = Vnet::split(datagram) else { return };
        let cut = vnet.complete(raw, |mut bytes| {
            if let Some((tpid, tci)) = vlan {
                frame::insert_vlan(&mut bytes, tpid, tci);
            }
            let packet = HeldPacket::of_frame(bytes, direction, errors);
            came.note(packet.is_some());
            into.extend(packet.map(|packet| (direction, packet)));
        });
        if !cut {
            came.lose(1, errors);
        }
    }

    fn receive_from(
        &mut self,
        direction: Direction,
        into: &mut Vec<(Direction, HeldPacket)>,
    ) -> io::Result<bool> {
        let port = &mut self.ports[direction as usize];
        // One batch in a step, so that a flood leaves time for the timers.
        let count = match port.batch.receive(port.input.as_fd()) {
            Ok(count) => count,
            // A frame the vnet header has no words for; the kernel has let go of it.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                port.came.lose(1, &mut self.errors);
                return Ok(true);
            }
            // The interface is down or gone: told once, and by the monitor too.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO)) => 0,
            Err(e) => return Err(e),
        };
        for (datagram, aux) in port.batch.iter_with_control(libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            let vlan = aux.and_then(vlan_of);
            Self::take_in(datagram, vlan, direction, &mut self.errors, &mut port.came, into);
        }
        Ok(count == BATCH)
    }
}

/// TPID and TCI of the tag that was taken off (struct tpacket_auxdata).
fn vlan_of(aux: &[u8]) -> Option<(u16, u16)> {
    let status = u32::from_ne_bytes(aux.get(..4)?.try_into().ok()?);
    let word = |at: usize| Some(u16::from_ne_bytes(aux.get(at..at + 2)?.try_into().ok()?));
    if status & VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & VLAN_TPID_VALID == 0 { 0x8100 } else { word(18)? };
    Some((tpid, word(16)?))
}

impl Backend for PacketPair {
    type Packet = HeldPacket;

    fn receive(&mut self, _now: Instant, into: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
        let down = self.receive_from(Direction::Down, into)?;
        let up = self.receive_from(Direction::Up, into)?;
        Ok(down || up)
    }

    fn apply(&mut self, _now: Instant, event: Event<HeldPacket>) {
        match event {
            Event::Send(direction, packet) => self.out(direction).push(packet.bytes),
            Event::Verdict(
                _,
                Verdict::Dropped { .. } | Verdict::Suppressed { .. } | Verdict::Refused { .. },
            )
            | Event::Verdict(_, Verdict::Marked { .. }) => {}
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        for direction in Direction::BOTH {
            let port = &mut self.ports[direction.other() as usize];
            if !port.outgoing.is_empty() {
                let (gone, _) = mmsg::send_all(port.output.as_fd(), &port.outgoing);
                port.outgoing.clear();
                self.errors.gone += gone;
                self.ports[direction as usize].came.gone += gone;
            }
        }
        Ok(())
    }
}

impl Channel for PacketPair {
    fn fds(&self) -> [BorrowedFd<'_>; 2] {
        self.ports.each_ref().map(|p| p.input.as_fd())
    }

    fn error_counters(&mut self) -> ErrorCounters {
        for port in &mut self.ports {
            let dropped = dropped(&port.input);
            port.came.lose(dropped, &mut self.errors);
        }
        self.errors
    }

    fn gone(&self) -> u64 {
        self.errors.gone
    }

    fn passages(&mut self) -> [Passage; 2] {
        self.error_counters();
        self.ports.each_ref().map(|port| port.came)
    }

    fn discard_late(&mut self) -> bool {
        for port in &mut self.ports {
            // A socket that cannot be read holds nothing to discard.
            let _ = port.batch.receive_waiting(port.input.as_fd(), SOCKET_BUFFER, |_| {});
        }
        true
    }

    fn links_changed(&mut self) {
        for port in &mut self.ports {
            // An interface that comes back has a new number.
            if let Ok(index) = nix::net::if_::if_nametoindex(port.name.as_str())
                && index != port.index
                && let Ok((input, output)) = Port::sockets(index)
            {
                (port.input, port.output, port.index) = (input, output, index);
            }
        }
    }

    fn hand_over(&self) -> (Vec<BorrowedFd<'_>>, Vec<u32>) {
        let fds = self.ports.iter().flat_map(|port| [port.input.as_fd(), port.output.as_fd()]);
        (fds.collect(), self.ports.iter().map(|port| port.index).collect())
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const _: () = assert!(VNET < DATAGRAM);

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `len` bytes with an IPv4 packet that says it has `claimed`, as a packet socket hands it over.
    fn datagram(claimed: u16, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; VNET + 12];
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend(claimed.to_be_bytes());
        bytes.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.resize(VNET + len, 0);
        bytes
    }

    #[test]
    fn what_cannot_be_read_waits_as_a_flow_of_its_senders() {
        let (mut errors, mut into) = (ErrorCounters::default(), Vec::new());
        let mut take = |kind: [u8; 2], payload: &[u8]| {
            let mut bytes = vec![0; VNET];
            bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            bytes.extend(kind);
            bytes.extend(payload);
            bytes.resize(VNET + 1514, 0);
            PacketPair::take_in(&bytes, None, Direction::Up, &mut errors, &mut Passage::default(), &mut into);
            let (_, packet) = into.pop().unwrap();
            assert_eq!((packet.header.len.0, packet.bytes.len()), (1500, 1514));
            let key = packet.header.key;
            (key.src().to_string(), key.dst().to_string(), key.proto.0)
        };
        let by_mac = ("fe80::200:0:1".to_owned(), "fe80::200:0:2".to_owned(), 255);
        // An EtherType of nobody, MPLS without a last label, the same behind two VLAN tags; nor does it help to look
        // like IPv4.
        assert_eq!(take([0x88, 0xb5], &[0x45; 40]), by_mac);
        assert_eq!(take([0x88, 0x47], &[0; 40]), by_mac);
        assert_eq!(take([0x88, 0xa8], &[0, 1, 0x81, 0, 0, 2, 0x88, 0xb5, 0x45, 0]), by_mac);
        // IPv6 whose destination options claim 2048 bytes more than it has.
        let mut options = vec![0x60, 0, 0, 0, 0, 8, 60, 64];
        options.extend([0xfd; 16]);
        options.extend([0xfc; 16]);
        options.extend([59, 255, 0, 0, 0, 0, 0, 0]);
        let (src, dst, proto) = take([0x86, 0xdd], &options);
        assert!(src.starts_with("fdfd:") && dst.starts_with("fcfc:") && proto == 255, "{src} {dst}");
        assert_eq!(errors.malformed, 1, "the last alone says it is IP");
    }

    #[test]
    fn a_packet_is_no_longer_than_its_frame() {
        let (mut errors, mut came, mut into) = (ErrorCounters::default(), Passage::default(), Vec::new());
        for (claimed, len) in
            [(46, 60), (40, 60), (65_535, 60), (47, 60), (1486, 1500), (1487, 1500), (28, 1514)]
        {
            let datagram = datagram(claimed, len);
            PacketPair::take_in(&datagram, None, Direction::Down, &mut errors, &mut came, &mut into);
        }
        assert_eq!(came, Passage { offered: 7, lost: 3, ..Passage::default() });
        // The last carries 1472 bytes behind its packet, over the link too.
        let lengths: Vec<_> = into.iter().map(|(_, packet)| packet.header.len.0).collect();
        assert_eq!((lengths, errors.malformed), (vec![46, 40, 1486, 1500], 3));
    }
}
