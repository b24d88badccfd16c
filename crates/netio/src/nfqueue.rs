//! The words of `nfnetlink_queue` (linux/netfilter/nfnetlink_queue.h): written to and read from plain bytes, bounds
//! checked.
//!
//! We speak it ourselves rather than through the crate `nfq`, which keeps a 69 kB receive buffer alive for every packet
//! that waits and sends each verdict by a call of its own.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{self as sockets, AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType};

const NLMSG_HEADER: usize = 16;
const NFGEN: usize = 4;
const ATTR_HEADER: usize = 4;
const SUBSYS_QUEUE: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8;

/// Accept, as netfilter numbers verdicts.
pub const ACCEPT: u32 = libc::NF_ACCEPT as u32;
/// Drop.
pub const DROP: u32 = libc::NF_DROP as u32;

/// Appends one message; its length is known when its attributes are.
struct Message<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Message<'a> {
    fn new(out: &'a mut Vec<u8>, kind: i32, queue: u16, ack: bool) -> Self {
        let start = out.len();
        let flags = libc::NLM_F_REQUEST as u16 | if ack { libc::NLM_F_ACK as u16 } else { 0 };
        out.extend([0; 4]);
        out.extend((SUBSYS_QUEUE | kind as u16).to_ne_bytes());
        out.extend(flags.to_ne_bytes());
        out.extend([0; 8]);
        out.extend([libc::AF_UNSPEC as u8, libc::NFNETLINK_V0 as u8]);
        out.extend(queue.to_be_bytes());
        Self { out, start }
    }

    fn attr(self, kind: i32, value: &[&[u8]]) -> Self {
        let len = ATTR_HEADER + value.iter().map(|v| v.len()).sum::<usize>();
        // A netlink attribute counts its length in 16 bits; an IP packet with its header just fits.
        debug_assert!(u16::try_from(len).is_ok());
        self.out.extend((len as u16).to_ne_bytes());
        self.out.extend((kind as u16).to_ne_bytes());
        value.iter().for_each(|v| self.out.extend_from_slice(v));
        self.out.resize(self.out.len().next_multiple_of(4), 0);
        self
    }

    fn end(self) {
        let len = (self.out.len() - self.start) as u32;
        self.out[self.start..self.start + 4].copy_from_slice(&len.to_ne_bytes());
    }
}

/// Asks for the packets of `queue`.
pub fn bind(out: &mut Vec<u8>, queue: u16) {
    let command = [libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, 0];
    Message::new(out, libc::NFQNL_MSG_CONFIG, queue, true).attr(libc::NFQA_CFG_CMD, &[&command]).end();
}

/// Gives `queue` up. What waits in it is dropped by the kernel, so accept it first.
pub fn unbind(out: &mut Vec<u8>, queue: u16) {
    let command = [libc::NFQNL_CFG_CMD_UNBIND as u8, 0, 0, 0];
    Message::new(out, libc::NFQNL_MSG_CONFIG, queue, true).attr(libc::NFQA_CFG_CMD, &[&command]).end();
}

/// Whole packets, at most `max_len` of them at a time, more than that let through rather than dropped; merged ones cut
/// by the kernel, unless [`leave_merged`] says otherwise.
pub fn configure(out: &mut Vec<u8>, queue: u16, max_len: u32) {
    // A copy range of 0 means as much as fits an attribute: 65531 bytes.
    let params = [0u8, 0, 0, 0, libc::NFQNL_COPY_PACKET as u8];
    let mask = (libc::NFQA_CFG_F_FAIL_OPEN | libc::NFQA_CFG_F_GSO) as u32;
    let flags = libc::NFQA_CFG_F_FAIL_OPEN as u32;
    Message::new(out, libc::NFQNL_MSG_CONFIG, queue, true)
        .attr(libc::NFQA_CFG_PARAMS, &[&params])
        .attr(libc::NFQA_CFG_QUEUE_MAXLEN, &[&max_len.to_be_bytes()])
        .attr(libc::NFQA_CFG_MASK, &[&mask.to_be_bytes()])
        .attr(libc::NFQA_CFG_FLAGS, &[&flags.to_be_bytes()])
        .end();
}

/// Has the kernel hand merged packets over as they are from now on, and plain ones whose checksum is left to hardware.
/// No answer is asked for, so packets may flow meanwhile.
pub fn leave_merged(out: &mut Vec<u8>, queue: u16) {
    let flag = (libc::NFQA_CFG_F_GSO as u32).to_be_bytes();
    Message::new(out, libc::NFQNL_MSG_CONFIG, queue, false)
        .attr(libc::NFQA_CFG_MASK, &[&flag])
        .attr(libc::NFQA_CFG_FLAGS, &[&flag])
        .end();
}

/// Sets the most packets of a queue from now on. No answer is asked for, so packets may flow meanwhile.
pub fn set_max_len(out: &mut Vec<u8>, queue: u16, max_len: u32) {
    Message::new(out, libc::NFQNL_MSG_CONFIG, queue, false)
        .attr(libc::NFQA_CFG_QUEUE_MAXLEN, &[&max_len.to_be_bytes()])
        .end();
}

/// Writes the verdict on packet `id`; `changed` is the whole packet if it differs from the one that came.
pub fn verdict(out: &mut Vec<u8>, queue: u16, id: u32, verdict: u32, changed: Option<&[u8]>) {
    let header: [&[u8]; 2] = [&verdict.to_be_bytes(), &id.to_be_bytes()];
    let message =
        Message::new(out, libc::NFQNL_MSG_VERDICT, queue, false).attr(libc::NFQA_VERDICT_HDR, &header);
    match changed {
        Some(bytes) => message.attr(libc::NFQA_PAYLOAD, &[bytes]).end(),
        None => message.end(),
    }
}

/// Writes one verdict on all packets up to and including `id`, in the order in which they came.
pub fn verdict_up_to(out: &mut Vec<u8>, queue: u16, id: u32, verdict: u32) {
    let header: [&[u8]; 2] = [&verdict.to_be_bytes(), &id.to_be_bytes()];
    Message::new(out, libc::NFQNL_MSG_VERDICT_BATCH, queue, false)
        .attr(libc::NFQA_VERDICT_HDR, &header)
        .end();
}

/// A socket to netfilter in this network namespace: to its queues as to nf_tables.
///
/// # Errors
/// If this kernel has no nfnetlink.
pub fn socket() -> io::Result<OwnedFd> {
    let kind = Some(SockProtocol::NetlinkNetFilter);
    let socket = sockets::socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, kind)?;
    sockets::bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(socket)
}

/// Tag of a VLAN (IEEE 802.1Q) that the kernel keeps beside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// EtherType of the tag.
    pub protocol: u16,
    /// Priority and number.
    pub control: u16,
}

impl VlanTag {
    /// Number of the VLAN.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.control & 0xfff
    }
}

/// A packet that awaits its verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuedPacket<'a> {
    /// Number of the packet.
    pub id: u32,
    /// Bytes of the packet from behind the frame's header on, perhaps cut.
    pub bytes: &'a [u8],
    /// Whether it is one of IP, as its frame or hook says.
    pub is_ip: bool,
    /// The MAC address of its sender, where it came by Ethernet.
    pub mac: Option<[u8; 6]>,
    /// VLAN of the packet, where a bridge shows it.
    pub vlan: Option<VlanTag>,
    /// Header of the frame, where a bridge shows it.
    pub link_header: &'a [u8],
    /// Whether it stands for several packets.
    pub is_merged: bool,
    /// Whether its checksum is left to hardware.
    pub lacks_checksum: bool,
    /// Number of the interface by which it came, of a bridge its port; zero if none.
    pub came_by: u32,
    /// Number of the interface by which it is to leave, of a bridge its port; zero if none.
    pub leaves_by: u32,
}

/// Message of the kernel about a queue.
#[derive(Debug)]
pub enum QueueMessage<'a> {
    /// A packet awaits its verdict.
    Packet(QueuedPacket<'a>),
    /// The answer to a request that was no verdict: success, or an error number.
    Answer(Result<(), io::Error>),
    /// A verdict was refused: the kernel has no such packet any more.
    Refused {
        /// Number of the packet.
        id: u32,
        /// The verdict.
        verdict: u32,
    },
    /// Something we did not ask for.
    Other,
}

/// The body of the fuzz target `nfqueue`: any bytes as a datagram of the kernel's. What is heard lies within it.
///
/// # Panics
/// If there are more messages, or more bytes, than the datagram has.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(datagram: &[u8]) {
    let (mut count, mut carried) = (0, 0);
    for heard in messages(datagram) {
        count += 1;
        if let QueueMessage::Packet(packet) = heard {
            carried += packet.bytes.len();
            assert!(packet.vlan.is_none_or(|tag| tag.number() < 4096));
        }
    }
    assert!(count * NLMSG_HEADER <= datagram.len() && carried <= datagram.len());
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the messages of one datagram.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = QueueMessage<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(datagram, 0)? as usize;
        let message = datagram.get(..len).filter(|m| m.len() >= NLMSG_HEADER)?;
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(message_of(message).unwrap_or(QueueMessage::Other))
    })
}

fn message_of(m: &[u8]) -> Option<QueueMessage<'_>> {
    let kind = u16_at(m, 4)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = i32::from_ne_bytes(m.get(NLMSG_HEADER..NLMSG_HEADER + 4)?.try_into().ok()?);
        if let Some((id, verdict)) = refused(m.get(NLMSG_HEADER + 4..)?).filter(|_| errno != 0) {
            return Some(QueueMessage::Refused { id, verdict });
        }
        let answer = if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-errno)) };
        return Some(QueueMessage::Answer(answer));
    }
    if kind != SUBSYS_QUEUE | libc::NFQNL_MSG_PACKET as u16 {
        return None;
    }
    let (mut numbered, mut packet) = (false, QueuedPacket { is_ip: true, ..QueuedPacket::default() });
    let number = |value: &[u8]| Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?));
    let mut attrs = m.get(NLMSG_HEADER + NFGEN..)?;
    while let Some(len) = u16_at(attrs, 0).map(usize::from).filter(|&l| l >= ATTR_HEADER) {
        // The two top bits are flags (nested, byte order).
        let kind = i32::from(u16_at(attrs, 2)? & 0x3fff);
        let value = attrs.get(ATTR_HEADER..len)?;
        match kind {
            libc::NFQA_PACKET_HDR => {
                (numbered, packet.id) = (true, number(value)?);
                // Field hw_protocol of struct nfqnl_msg_packet_hdr is an EtherType; on a bridge it may be any.
                packet.is_ip = matches!(value.get(4..6)?, [0x08, 0x00] | [0x86, 0xdd]);
            }
            libc::NFQA_PAYLOAD => packet.bytes = value,
            libc::NFQA_HWADDR => packet.mac = sender(value),
            libc::NFQA_VLAN => packet.vlan = vlan_tag(value),
            libc::NFQA_L2HDR => packet.link_header = value,
            libc::NFQA_SKB_INFO => {
                let flags = number(value)?.cast_signed();
                packet.is_merged = flags & libc::NFQA_SKB_GSO != 0;
                packet.lacks_checksum = flags & libc::NFQA_SKB_CSUMNOTREADY != 0;
            }
            // Beside them stand numbers of the bridge.
            libc::NFQA_IFINDEX_PHYSINDEV => packet.came_by = number(value)?,
            libc::NFQA_IFINDEX_PHYSOUTDEV => packet.leaves_by = number(value)?,
            // Kernels without br_netfilter have these alone, and they are the ports'.
            libc::NFQA_IFINDEX_INDEV if packet.came_by == 0 => packet.came_by = number(value)?,
            libc::NFQA_IFINDEX_OUTDEV if packet.leaves_by == 0 => packet.leaves_by = number(value)?,
            _ => {}
        }
        attrs = attrs.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    numbered.then_some(QueueMessage::Packet(packet))
}

/// Number of a packet and the verdict on it in a request that the kernel gives back with an error, if it is one of
/// [`verdict`].
fn refused(request: &[u8]) -> Option<(u32, u32)> {
    if u16_at(request, 4)? != SUBSYS_QUEUE | libc::NFQNL_MSG_VERDICT as u16 {
        return None;
    }
    let header = request.get(NLMSG_HEADER + NFGEN..NLMSG_HEADER + NFGEN + ATTR_HEADER + 8)?;
    let number = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    if i32::from(u16_at(header, 2)?) != libc::NFQA_VERDICT_HDR {
        return None;
    }
    Some((number(ATTR_HEADER + 4)?, number(ATTR_HEADER)?))
}

/// The address in a struct nfqnl_msg_packet_hw, if it is one of Ethernet.
fn sender(value: &[u8]) -> Option<[u8; 6]> {
    let len = u16::from_be_bytes(value.get(..2)?.try_into().ok()?);
    if len == 6 { value.get(4..10)?.try_into().ok() } else { None }
}

/// The tag in nested attributes NFQA_VLAN_PROTO and NFQA_VLAN_TCI, in network order.
fn vlan_tag(mut value: &[u8]) -> Option<VlanTag> {
    let (mut protocol, mut control) = (0x8100, None);
    while let Some(len) = u16_at(value, 0).map(usize::from).filter(|&l| l >= ATTR_HEADER) {
        let number = u16::from_be_bytes(value.get(ATTR_HEADER..ATTR_HEADER + 2)?.try_into().ok()?);
        match i32::from(u16_at(value, 2)? & 0x3fff) {
            libc::NFQA_VLAN_PROTO => protocol = number,
            libc::NFQA_VLAN_TCI => control = Some(number),
            _ => {}
        }
        value = value.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    control.map(|control| VlanTag { protocol, control })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_byte_by_byte() {
        let mut out = Vec::new();
        verdict(&mut out, 0x0102, 7, ACCEPT, Some(&[9, 9, 9]));
        // 16 of nlmsghdr, 4 of nfgenmsg, 4 + 8 of verdict, 4 + 3 of payload, 1 of padding.
        assert_eq!(out.len(), 40);
        assert_eq!(out[..4], 40u32.to_ne_bytes());
        assert_eq!(out[4..6], 0x0301u16.to_ne_bytes(), "subsystem 3, message 1");
        assert_eq!(out[18..20], [1, 2], "the queue in network order");
        assert_eq!(out[24..32], [0, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(out[32..34], 7u16.to_ne_bytes());
        assert_eq!(out[36..40], [9, 9, 9, 0]);
    }

    fn from_kernel(id: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Message::new(&mut out, libc::NFQNL_MSG_PACKET, 5, false)
            .attr(libc::NFQA_PACKET_HDR, &[&id.to_be_bytes(), &[8, 0, 2]])
            .attr(libc::NFQA_PAYLOAD, &[payload])
            .end();
        out
    }

    #[test]
    fn two_packets_and_an_answer_in_one_datagram() {
        let mut d = from_kernel(1, &[0x45; 3]);
        d.extend(from_kernel(2, b""));
        let mut answer = vec![0; 36];
        answer[0] = 36;
        answer[4] = 2;
        answer[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        d.extend(answer);
        let heard: Vec<_> = messages(&d).collect();
        let packet = |n: usize| match &heard[n] {
            QueueMessage::Packet(packet) => (packet.id, packet.is_ip, packet.bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!(packet(0), (1, true, &[0x45, 0x45, 0x45][..]));
        assert_eq!(packet(1), (2, true, &[][..]));
        assert!(matches!(&heard[2], QueueMessage::Answer(Err(e)) if e.raw_os_error() == Some(libc::EPERM)));
        assert_eq!(heard.len(), 3);
    }

    #[test]
    fn a_merged_packet_on_a_bridge_with_its_frame() {
        let be = |number: u32| number.to_be_bytes();
        let mut out = Vec::new();
        // NFQA_VLAN { NFQA_VLAN_PROTO 0x88a8, NFQA_VLAN_TCI 0x2005 }.
        let vlan = [6, 0, 1, 0, 0x88, 0xa8, 0, 0, 6, 0, 2, 0, 0x20, 5, 0, 0];
        Message::new(&mut out, libc::NFQNL_MSG_PACKET, 5, false)
            .attr(libc::NFQA_PACKET_HDR, &[&be(9), &[0x86, 0xdd, 2]])
            .attr(libc::NFQA_IFINDEX_PHYSINDEV, &[&be(3)])
            .attr(libc::NFQA_IFINDEX_INDEV, &[&be(7)])
            .attr(libc::NFQA_IFINDEX_PHYSOUTDEV, &[&be(4)])
            .attr(libc::NFQA_IFINDEX_OUTDEV, &[&be(7)])
            .attr(libc::NFQA_VLAN, &[&vlan])
            .attr(libc::NFQA_L2HDR, &[&[1; 14]])
            .attr(libc::NFQA_SKB_INFO, &[&be(3)])
            .end();
        let Some(QueueMessage::Packet(packet)) = messages(&out).next() else { panic!("no packet") };
        assert_eq!((packet.id, packet.came_by, packet.leaves_by), (9, 3, 4));
        assert!(packet.is_ip && packet.is_merged && packet.lacks_checksum);
        assert_eq!(packet.link_header, [1; 14]);
        assert_eq!(packet.vlan, Some(VlanTag { protocol: 0x88a8, control: 0x2005 }));
        assert_eq!(packet.vlan.map(VlanTag::number), Some(5));
        for n in 0..out.len() {
            fuzz(&out[..n]);
        }
    }

    /// Message by which the kernel gives a request back with an error (netlink_ack in net/netlink/af_netlink.c).
    fn given_back(request: &[u8], errno: i32) -> Vec<u8> {
        let mut message = vec![0; NLMSG_HEADER];
        message[4] = libc::NLMSG_ERROR as u8;
        message.extend((-errno).to_ne_bytes());
        message.extend(request);
        let len = message.len() as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
        message
    }

    #[test]
    fn a_verdict_that_is_refused_names_its_packet() {
        let mut request = Vec::new();
        verdict(&mut request, 5, 0x0102_0304, DROP, Some(&[9; 5]));
        let error = given_back(&request, libc::ENOENT);
        let heard = messages(&error).next();
        assert!(matches!(heard, Some(QueueMessage::Refused { id: 0x0102_0304, verdict: DROP })), "{heard:?}");
        let mut other = Vec::new();
        set_max_len(&mut other, 5, 7);
        for (request, errno) in [(&request, 0), (&other, libc::ENOENT)] {
            let answer = given_back(request, errno);
            assert!(matches!(messages(&answer).next(), Some(QueueMessage::Answer(_))), "{errno}");
        }
        for n in 0..error.len() {
            fuzz(&error[..n]);
            // Cut within: the length says so too.
            let mut cut = error[..n.max(20)].to_vec();
            let len = cut.len() as u32;
            cut[..4].copy_from_slice(&len.to_ne_bytes());
            fuzz(&cut);
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = from_kernel(1, &[0x45; 40]);
        for n in 0..whole.len() {
            assert!(messages(&whole[..n]).count() <= 1);
            fuzz(&whole[..n]);
            for value in [0, 1, 3, 0x80, 0xff] {
                let mut wrong = whole.clone();
                wrong[n] = value;
                fuzz(&wrong);
                fuzz(&[&wrong[..], &whole].concat());
            }
        }
    }
}
