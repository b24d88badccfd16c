//! How merged frames are to be cut. A bridge's queue hands over a packet that stands for several (made by its sender
//! for hardware to cut, or by GRO of what came), and not how long each of those is; a packet socket on the port by
//! which it came is told ([`Vnet`]), before the bridge has the frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use crate::frame::{self, VNET, Vnet};
use crate::mmsg::Batch;
use crate::packet_socket::{bind, hear_long, ignore_outgoing, with_vnet_header};

/// Longest Ethernet frame of a common port: merged frames that are no longer go as one packet.
pub const ETHERNET_FRAME: usize = 1514;
/// Bytes by which a frame is known again: IPv6's header and of TCP's ports and sequence number; IPv4's with all of a
/// TCP header without options.
const KNOWN_BY: usize = 48;
/// Bytes kept of a frame: with two VLAN tags or a PPPoE session's header before the IP packet.
const KEPT: usize = 14 + 8 + KNOWN_BY;
/// Frames heard whose packets have not come, at most: of those that go elsewhere none ever comes.
const WAITING: usize = 256;
/// Bytes of frames that may wait to be read: 160 of 64 kB, whose memory counts whole although their beginning is kept.
const SOCKET_BUFFER: usize = 16 << 20;
/// Reads of one call at most, so that a flood keeps nobody here.
const READS: usize = 64;

#[derive(Debug)]
struct Heard {
    beginning: Vec<u8>,
    vnet: Vnet,
}

/// Merged frames that have come in by one interface.
#[derive(Debug)]
pub struct MergedFrames {
    socket: OwnedFd,
    batch: Batch,
    heard: VecDeque<Heard>,
}

impl MergedFrames {
    /// Listens on the interface with this number.
    ///
    /// # Errors
    /// If it is gone, or for want of `CAP_NET_RAW`.
    pub fn open(index: u32) -> io::Result<Self> {
        // Without a protocol until all is set: no frame may come in that is not wanted.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        ignore_outgoing(&socket)?;
        with_vnet_header(&socket)?;
        hear_long(&socket, ETHERNET_FRAME as u32, KEPT as u32)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER)?;
        }
        bind(&socket, index, libc::ETH_P_ALL as u16)?;
        Ok(Self { socket, batch: Batch::new(VNET + KEPT), heard: VecDeque::new() })
    }

    /// Takes out how to cut the frame that carries this IP packet, if it was heard.
    pub fn take(&mut self, ip: &[u8]) -> Option<Vnet> {
        self.listen();
        let beginning = ip.get(..KNOWN_BY)?;
        let at = self.heard.iter().position(|heard| heard.beginning == beginning)?;
        self.heard.remove(at).map(|heard| heard.vnet)
    }

    fn listen(&mut self) {
        for _ in 0..READS {
            match self.batch.receive(self.socket.as_fd()) {
                Ok(0) => return,
                Ok(_) => {}
                // A frame the vnet header has no words for; the kernel has let go of it.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => continue,
                // The interface is down or gone; whoever asks finds nothing.
                Err(_) => return,
            }
            for datagram in self.batch.iter() {
                note(&mut self.heard, datagram);
            }
        }
    }
}

/// Notes a frame, in place of the oldest if there are too many.
fn note(all: &mut VecDeque<Heard>, datagram: &[u8]) {
    let Some((vnet, bytes)) = Vnet::split(datagram).filter(|(vnet, _)| vnet.is_merged()) else { return };
    let Some(ip_at) = frame::ip_offset(bytes) else { return };
    let Some(beginning) = bytes.get(ip_at..ip_at + KNOWN_BY) else { return };
    if all.len() == WAITING {
        all.pop_front();
    }
    all.push_back(Heard { beginning: beginning.to_vec(), vnet });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vnet header of kind `gso` before a frame of IPv4 from this port.
    fn datagram(gso: u8, port: u16) -> Vec<u8> {
        let mut bytes = vec![1, gso, 0, 0, 0xb0, 5, 34, 0, 16, 0];
        bytes.resize(VNET + 12, 0);
        bytes.extend([8, 0]);
        bytes.resize(VNET + 14 + 20, 0x45);
        bytes.extend(port.to_be_bytes());
        bytes.resize(VNET + KEPT, 0);
        bytes
    }

    #[test]
    fn a_merged_frame_is_noted_and_of_many_the_last() {
        let mut all = VecDeque::new();
        note(&mut all, &datagram(0, 1));
        assert!(all.is_empty(), "it stands for itself");
        for port in 0..300 {
            note(&mut all, &datagram(1, port));
        }
        assert_eq!(all.len(), WAITING);
        assert_eq!(all[0].beginning[20..22], 44u16.to_be_bytes(), "300 less 256");
        for n in 0..VNET + KEPT {
            note(&mut all, &datagram(1, 1)[..n]);
        }
    }
}
