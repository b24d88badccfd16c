//! Packets on a bridge that the box sends itself, because the kernel would lose them.
//!
//! A packet that stands for several the kernel (6.1 to 7.3) cuts before it hands the pieces over, and on a bridge these
//! have no Ethernet header: `nfqnl_enqueue_packet` calls `skb_gso_segment` on a packet whose data begin behind that
//! header, and headers are copied from there on. Accepted, a piece leaves with whatever stood in memory in its header's
//! place. So merged packets are taken as they are, cut here, and queued as the packets they stand for; the merged one
//! itself is dropped, since one verdict lets go of all of it.
//!
//! A packet that was changed is dropped by Linux 7.3 when it is given back (`nfqnl_validate_write`).
//!
//! Both leave by a packet socket at the port that the bridge has chosen.

use std::cell::OnceCell;
use std::os::fd::{AsFd as _, OwnedFd};

use narrows_netio::frame::{self, Vnet};
use narrows_netio::merged::{ETHERNET_FRAME, MergedFrames};
use narrows_netio::mmsg;
use narrows_netio::nfqueue::QueuedPacket;
use narrows_netio::packet_socket::bind;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

/// Ports known at a time: more than a bridge of the kernel's has (BR_MAX_PORTS).
const PORTS: usize = 1024;
/// Packets that one may stand for at most: Linux's TCP sends none of less than 48 bytes of payload (tcp_min_snd_mss).
const MOST_PIECES: usize = 65_536 / 48;
/// Bytes of Ethernet's header; tags of VLANs are beside it.
const ETHERNET_HEADER: usize = 14;
/// Bytes of frames that may be on their way through queues behind the box: 16 MB are a second of 100 Mbit/s.
const SEND_BUFFER: usize = 16 << 20;

#[derive(Debug)]
struct Port {
    index: u32,
    /// How merged frames that come in are to be cut, from the first one on; `None` within where the kernel refuses to
    /// tell.
    merged: OnceCell<Option<MergedFrames>>,
    /// Way out; `None` where the kernel refuses one.
    output: Option<OwnedFd>,
}

impl Port {
    fn open(index: u32) -> Self {
        Self { index, merged: OnceCell::new(), output: output(index).ok() }
    }

    fn merged(&mut self) -> Option<&mut MergedFrames> {
        // Number 0 would be every interface.
        let is_port = self.index != 0;
        self.merged.get_or_init(|| is_port.then(|| MergedFrames::open(self.index).ok()).flatten());
        self.merged.get_mut()?.as_mut()
    }
}

fn output(index: u32) -> std::io::Result<OwnedFd> {
    let output = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    // Where it is refused, what the system grants will do.
    let _ = setsockopt(&output, sockopt::SndBufForce, &SEND_BUFFER);
    bind(&output, index, 0)?;
    Ok(output)
}

/// Ports of a bridge by which packets have come or are to leave.
#[derive(Debug, Default)]
pub struct Ports(Vec<Port>);

impl Ports {
    fn port(&mut self, index: u32) -> &mut Port {
        let known = self.0.iter().position(|port| port.index == index);
        let at = known.unwrap_or_else(|| {
            if self.0.len() == PORTS {
                self.0.clear();
            }
            self.0.push(Port::open(index));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Number of the port by which this packet is to leave if it is changed, and the header of its frame; none where
    /// the kernel has to send it.
    pub fn way_of<'a>(&mut self, packet: &QueuedPacket<'a>) -> (u32, &'a [u8]) {
        let header = packet.link_header;
        let is_long = packet.is_merged && header.len() + packet.bytes.len() > ETHERNET_FRAME;
        let is_ethernet = packet.is_ip && header.len() == ETHERNET_HEADER;
        let has_way =
            is_ethernet && !is_long && packet.leaves_by != 0 && self.port(packet.leaves_by).output.is_some();
        if has_way { (packet.leaves_by, header) } else { (0, &[]) }
    }

    /// Frames of the packets that a merged packet stands for; `None` if the packet can only be taken as it is. A packet
    /// that claims to stand for more than any sender makes has no frames: their headers would take more of a link than
    /// it says.
    pub fn cut(&mut self, packet: &QueuedPacket<'_>) -> Option<Vec<Vec<u8>>> {
        let header = packet.link_header;
        // A packet as long as one of Ethernet goes as one.
        let is_long = header.len() + packet.bytes.len() > ETHERNET_FRAME;
        let is_ethernet = packet.is_ip && header.len() == ETHERNET_HEADER && packet.leaves_by != 0;
        if !packet.is_merged || !is_long || !is_ethernet {
            return None;
        }
        // A packet of which the kernel copied a part cannot be cut.
        let is_whole = narrows_wire::parse(packet.bytes).is_ok_and(|h| h.len.0 <= packet.bytes.len() as u64);
        if !is_whole {
            return None;
        }
        self.port(packet.leaves_by).output.as_ref()?;
        let heard = self.port(packet.came_by).merged().and_then(|merged| merged.take(packet.bytes));
        let whole = [header, packet.bytes].concat();
        let vnet = heard.or_else(|| Vnet::guess(&whole))?;
        let mut pieces = Vec::new();
        if vnet.pieces(whole.len()) > MOST_PIECES {
            return Some(pieces);
        }
        let done = vnet.complete(&whole, |mut piece| {
            if let Some(tag) = packet.vlan {
                frame::insert_vlan(&mut piece, tag.protocol, tag.control);
            }
            pieces.push(piece);
        });
        done.then_some(pieces)
    }

    /// Sends frames out of the port with this number, in order. Returns how many it did not take.
    pub fn send(&mut self, index: u32, frames: &[Vec<u8>]) -> u64 {
        match &self.port(index).output {
            Some(output) => mmsg::send_all(output.as_fd(), frames).0,
            None => frames.len() as u64,
        }
    }

    /// Forgets ports: one that comes back may have the number of another. What was heard of packets that are on their
    /// way is gone, so they are cut small.
    pub fn links_changed(&mut self) {
        self.0.retain(|port| nix::net::if_::if_indextoname(port.index).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merged segment of TCP with so many bytes of payload, as a queue on a bridge hands it over.
    fn packet(bytes: &[u8]) -> QueuedPacket<'_> {
        QueuedPacket {
            is_ip: true,
            is_merged: true,
            leaves_by: 1,
            link_header: &HEADER,
            bytes,
            ..QueuedPacket::default()
        }
    }

    /// Ethernet's, of IPv4.
    const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

    fn segment(payload: usize) -> Vec<u8> {
        let mut ip = vec![0x45, 0];
        ip.extend(((40 + payload) as u16).to_be_bytes());
        ip.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        ip.extend([0, 80, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        ip.resize(40 + payload, 7);
        ip
    }

    /// Without rights nothing is heard and nothing can be sent: then a packet goes as it is.
    #[test]
    fn a_merged_packet_is_cut_where_its_pieces_can_be_sent() {
        let mut ports = Ports::default();
        let bytes = segment(3000);
        let can_send = ports.port(1).output.is_some();
        let pieces = ports.cut(&packet(&bytes));
        assert_eq!(pieces.map(|p| p.len()), can_send.then_some(3), "1240 bytes of payload each");
        for whole in [
            QueuedPacket { is_merged: false, ..packet(&bytes) },
            QueuedPacket { leaves_by: 0, ..packet(&bytes) },
            QueuedPacket { link_header: &[], ..packet(&bytes) },
            packet(&bytes[..2000]),
            packet(&segment(1460)),
        ] {
            assert!(ports.cut(&whole).is_none(), "{whole:?}");
        }
        let plain = segment(100);
        let way = if can_send { (1, &HEADER[..]) } else { (0, &[][..]) };
        assert_eq!(ports.way_of(&QueuedPacket { is_merged: false, ..packet(&plain) }), way);
        assert_eq!(ports.way_of(&QueuedPacket { is_ip: false, ..packet(&plain) }), (0, &[][..]));
        assert_eq!(ports.way_of(&packet(&bytes)), (0, &[][..]));
    }
}
