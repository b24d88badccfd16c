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
        self.merged.get_or_init(|| MergedFrames::open(self.index).ok());
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
        let has_way = is_ethernet && !is_long && self.port(packet.leaves_by).output.is_some();
        if has_way { (packet.leaves_by, header) } else { (0, &[]) }
    }

    /// Frames of the packets that this one stands for; `None` if it can only be taken as it is.
    pub fn cut(&mut self, packet: &QueuedPacket<'_>) -> Option<Vec<Vec<u8>>> {
        let header = packet.link_header;
        // A packet as long as one of Ethernet goes as one; one that was copied in part cannot be cut.
        let is_long = header.len() + packet.bytes.len() > ETHERNET_FRAME;
        let is_whole = narrows_wire::parse(packet.bytes).is_ok_and(|h| h.len.0 <= packet.bytes.len() as u64);
        if !packet.is_ip || !packet.is_merged || !is_long || !is_whole || header.len() != ETHERNET_HEADER {
            return None;
        }
        self.port(packet.leaves_by).output.as_ref()?;
        let heard = self.port(packet.came_by).merged().and_then(|merged| merged.take(packet.bytes));
        let whole = [header, packet.bytes].concat();
        let vnet = heard.or_else(|| Vnet::guess(&whole))?;
        let mut pieces = Vec::new();
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
