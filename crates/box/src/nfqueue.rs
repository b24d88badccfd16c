//! The default way in and out: NFQUEUE. Packets stay in the kernel, in the middle of its forwarding path; we get copies
//! and say what is to become of them. Routing, NAT and bridging are the kernel's as before, and where nobody listens
//! (`--queue-bypass`) or we fall behind (fail-open) packets go on their way.

mod ports;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use anyhow::Context;
use narrows_netio::frame;
use narrows_netio::mmsg::{BATCH, Batch};
use narrows_netio::nfqueue::{self as netlink, QueueMessage, QueuedPacket, VlanTag};
use narrows_qdisc::{Direction, Event, Verdict};
use narrows_units::{Bytes, Instant};
use narrows_users::{LinkAddress, Mac};
use narrows_wire::Header;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};

use super::backend::{Backend, GonePacket};
use super::channel::Channel;
use super::http_503::Standing;
use super::packet::{ErrorCounters, HeldPacket, Passage, header_of_packet};
use super::responder::Responder;
use super::sight::Mark;
use ports::Ports;

/// Packets the kernel may hold for us, in each direction, until [`Channel::hold_at_most`] is called; what exceeds this
/// is let through unqueued.
const QUEUE_LEN: u32 = 16_384;
/// Bytes of copies that may wait to be read: 10 ms of 10 Gbit/s.
const SOCKET_BUFFER: usize = 16 << 20;
/// A 64 kB packet with its netlink attributes.
const DATAGRAM: usize = 66_000;
/// Verdicts are sent when this many bytes of them have gathered, or at the end of a step.
const VERDICTS_AT_ONCE: usize = 48 << 10;
/// Packets accepted whose lengths are known until their verdicts may have been refused: more than wait in a socket.
const ACCEPTED: usize = 1 << 12;
/// Bytes kept of a packet that is not to be changed: all headers.
const BEGINNING: usize = 256;
/// Buffers kept for packets to come.
const SPARE_BUFFERS: usize = 4096;

#[derive(Debug)]
struct NfQueue {
    number: u16,
    socket: OwnedFd,
    batch: Batch,
    verdicts: Vec<u8>,
    numbers: Numbers,
    accepted: Accepted,
    /// Packets that were accepted when the kernel had them no more.
    gone: u64,
    /// Whether a packet is accepted among the verdicts that wait to be sent.
    accepts: bool,
    /// Frames that wait to be sent; none while a packet is accepted, so that no order changes.
    frames: Vec<Vec<u8>>,
    /// Port by which these leave.
    leave_by: u32,
    /// Packets that merged ones stood for, beside one each.
    cut: u64,
    /// Merged packets that were discarded.
    lost: u64,
}

/// Lengths of the packets that were accepted last, by their numbers: a refusal names the number alone, and comes before
/// the kernel takes the next verdicts.
#[derive(Debug)]
struct Accepted(Box<[AcceptedPacket]>);

/// A packet that was accepted; one of no length is none.
#[derive(Clone, Copy, Debug, Default)]
struct AcceptedPacket {
    id: u32,
    len: u32,
}

impl Accepted {
    fn new() -> Self {
        Self(vec![AcceptedPacket::default(); ACCEPTED].into())
    }

    fn note(&mut self, id: u32, len: Bytes) {
        self.0[id as usize % ACCEPTED] = AcceptedPacket { id, len: u32::try_from(len.0).unwrap_or(u32::MAX) };
    }

    /// Length of the packet, which is told once.
    fn take(&mut self, id: u32) -> Option<Bytes> {
        let known = std::mem::take(&mut self.0[id as usize % ACCEPTED]);
        (known.id == id && known.len > 0).then_some(Bytes(known.len.into()))
    }
}

/// The kernel numbers all packets in the order in which it hands them over, and lets those pass for which the socket
/// has no room.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// The highest heard of.
    last: u32,
    /// Numbers in between that were not heard of.
    skipped: u64,
    /// All numbers since this process listens.
    total: u64,
}

impl Numbers {
    const fn heard(&mut self, id: u32) {
        let new = id.wrapping_sub(self.last);
        self.total += new as u64;
        self.skipped += new.saturating_sub(1) as u64;
        self.last = id;
    }
}

/// The first messages, as many as have `most` bytes, and one at least: after a while without memory there are more than
/// the socket takes at once (EMSGSIZE).
fn messages_within(messages: &[u8], most: usize) -> &[u8] {
    let length =
        |at: usize| messages.get(at..at + 4).and_then(|len| len.try_into().ok()).map(u32::from_ne_bytes);
    let mut end = 0;
    while let Some(len) = length(end) {
        let next = end + (len as usize).max(4).next_multiple_of(4);
        if end > 0 && next > most {
            break;
        }
        end = next;
    }
    &messages[..end.min(messages.len())]
}

impl NfQueue {
    fn open(number: u16) -> io::Result<Self> {
        let socket = narrows_netio::nfqueue::socket()?;
        // Beyond net.core.rmem_max where we may; where not, what the system grants will do.
        if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER)?;
        }
        let mut queue = Self::resume(number, socket, 0);
        queue.ask(|out| netlink::bind(out, number))?;
        queue.ask(|out| netlink::configure(out, number, QUEUE_LEN))?;
        Ok(queue)
    }

    /// Goes on with the socket of another process, which has heard of packets up to `last_id`.
    fn resume(number: u16, socket: OwnedFd, last_id: u32) -> Self {
        Self {
            number,
            socket,
            batch: Batch::new(DATAGRAM),
            verdicts: Vec::new(),
            numbers: Numbers { last: last_id, ..Numbers::default() },
            accepted: Accepted::new(),
            gone: 0,
            accepts: false,
            frames: Vec::new(),
            leave_by: 0,
            cut: 0,
            lost: 0,
        }
    }

    /// Sends a request and waits for its answer. Only before packets flow: any that came meanwhile would be lost.
    fn ask(&mut self, request: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut out = Vec::new();
        request(&mut out);
        send(self.socket.as_raw_fd(), &out, MsgFlags::empty())?;
        for _ in 0..1000 {
            self.batch.receive(self.socket.as_fd())?;
            for datagram in self.batch.iter() {
                for heard in netlink::messages(datagram) {
                    if let QueueMessage::Answer(answer) = heard {
                        return answer;
                    }
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(io::Error::from(io::ErrorKind::TimedOut))
    }

    fn say(&mut self, id: u32, verdict: u32, changed: Option<&[u8]>) -> io::Result<()> {
        netlink::verdict(&mut self.verdicts, self.number, id, verdict, changed);
        self.accepts |= verdict == netlink::ACCEPT;
        if self.verdicts.len() >= VERDICTS_AT_ONCE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let mut outcome = Ok(());
        while sent < self.verdicts.len() && outcome.is_ok() {
            let part = messages_within(&self.verdicts[sent..], VERDICTS_AT_ONCE);
            match send(self.socket.as_raw_fd(), part, MsgFlags::empty()) {
                // The kernel has no memory for them now. Without them their packets would be held for good.
                Err(Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN | Errno::EINTR) => break,
                done => {
                    outcome = done.map(drop).map_err(io::Error::from);
                    sent += part.len();
                }
            }
        }
        self.verdicts.drain(..sent);
        self.accepts &= !self.verdicts.is_empty();
        outcome
    }

    /// Sends the frames that wait. Returns how many their port did not take.
    fn flush_frames(&mut self, ports: &mut Ports) -> u64 {
        if self.frames.is_empty() {
            return 0;
        }
        let gone = ports.send(self.leave_by, &self.frames);
        self.gone += gone;
        self.frames.clear();
        gone
    }
}

/// A back end on two kernel queues, one per direction.
#[derive(Debug)]
pub struct Nfqueue {
    queues: [NfQueue; 2],
    spare: Vec<Vec<u8>>,
    errors: ErrorCounters,
    /// The first error of a verdict, told at the end of the step.
    failed: Option<io::Error>,
    /// Packets that were gone when they were accepted, until they are told.
    gone: Vec<GonePacket>,
    /// Interface of the users, if packets are routed to it.
    lan: Option<String>,
    /// Answers for servers where that was asked for.
    responder: Option<Responder>,
    /// Ports of the bridge, if packets come from one.
    ports: Option<Ports>,
}

impl Nfqueue {
    /// Listens on queue `number` for packets that go down and on the next for those that go up.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, or if another program listens there, `EPROTONOSUPPORT` if this kernel has no
    /// `nfnetlink_queue`.
    pub fn open(number: u16) -> io::Result<Self> {
        Ok(Self::on([NfQueue::open(number)?, NfQueue::open(number + 1)?]))
    }

    /// Goes on where another process stops, with what [`Channel::hand_over`] has told there. `None` if it was something
    /// else.
    pub fn resume(fds: Vec<OwnedFd>, numbers: &[u32]) -> Option<Self> {
        let (&[number, down, up], Ok([a, b])) = (numbers, <[OwnedFd; 2]>::try_from(fds)) else { return None };
        let number = u16::try_from(number).ok().filter(|n| *n < u16::MAX)?;
        Some(Self::on([NfQueue::resume(number, a, down), NfQueue::resume(number + 1, b, up)]))
    }

    fn on(queues: [NfQueue; 2]) -> Self {
        let errors = ErrorCounters::default();
        let (spare, gone) = (Vec::new(), Vec::new());
        Self { queues, spare, errors, failed: None, gone, lan: None, responder: None, ports: None }
    }

    /// Takes packets of a table of family bridge: merged ones as they are.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn on_bridge(mut self) -> io::Result<Self> {
        for queue in &mut self.queues {
            netlink::leave_merged(&mut queue.verdicts, queue.number);
            queue.flush()?;
        }
        Ok(Self { ports: Some(Ports::default()), ..self })
    }

    /// Names the interface of the users, to which this machine routes: needed for answering.
    #[must_use]
    pub fn routed_to(self, lan: &str) -> Self {
        Self { lan: Some(lan.to_owned()), ..self }
    }

    /// Bytes of a packet behind those of `before`, and where it begins.
    fn buffer_with(spare: &mut Vec<Vec<u8>>, before: &[u8], packet: &QueuedPacket<'_>) -> (Vec<u8>, u16) {
        let mut buffer = spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(before);
        if let Some(tag) = packet.vlan.filter(|_| !before.is_empty()) {
            frame::insert_vlan(&mut buffer, tag.protocol, tag.control);
        }
        let ip_at = buffer.len() as u16;
        buffer.extend_from_slice(packet.bytes);
        (buffer, ip_at)
    }

    fn keep_buffer(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= 4096 {
            self.spare.push(buffer);
        }
    }

    fn say(&mut self, packet: HeldPacket, verdict: u32) {
        let accepts = verdict == netlink::ACCEPT;
        // Given back changed, a packet on a bridge is dropped by newer kernels (nfqnl_validate_write of Linux 7.3).
        let sends = accepts && packet.port != 0 && (packet.dirty || packet.is_piece);
        if !packet.is_piece {
            let changed = (packet.dirty && accepts && !sends).then_some(packet.bytes.as_slice());
            let queue = &mut self.queues[packet.direction as usize];
            if accepts && !sends {
                self.errors.gone += self.ports.as_mut().map_or(0, |ports| queue.flush_frames(ports));
                queue.accepted.note(packet.id, packet.header.len);
            }
            let verdict = if sends { netlink::DROP } else { verdict };
            if let Err(error) = queue.say(packet.id, verdict, changed) {
                self.failed.get_or_insert(error);
            }
        }
        if sends { self.send_frame(packet) } else { self.keep_buffer(packet.bytes) }
    }

    /// Has the frame of a packet leave by its port, behind what was accepted before.
    fn send_frame(&mut self, packet: HeldPacket) {
        let queue = &mut self.queues[packet.direction as usize];
        if queue.accepts
            && let Err(error) = queue.flush()
        {
            self.failed.get_or_insert(error);
        }
        let ports = self.ports.get_or_insert_default();
        if queue.leave_by != packet.port || queue.frames.len() == BATCH {
            self.errors.gone += queue.flush_frames(ports);
        }
        queue.leave_by = packet.port;
        queue.frames.push(packet.bytes);
    }

    fn receive_from(
        &mut self,
        now: Instant,
        direction: Direction,
        into: &mut Vec<(Direction, HeldPacket)>,
    ) -> io::Result<bool> {
        let queue = &mut self.queues[direction as usize];
        // One batch in a step, so that a flood leaves time for the timers.
        let count = match queue.batch.receive(queue.socket.as_fd()) {
            // The kernel could not tell of packets; the number of the next one says of how many.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => 0,
            other => other?,
        };
        for heard in queue.batch.iter().flat_map(netlink::messages) {
            match heard {
                QueueMessage::Packet(packet) => {
                    let QueuedPacket { id, bytes, is_ip, mac, vlan, .. } = packet;
                    queue.numbers.heard(id);
                    // The sender's MAC address is the user's on the way up only; a VLAN is of the port it came in by.
                    let users = direction == Direction::Up;
                    let link = LinkAddress {
                        mac: mac.filter(|_| users).map(Mac),
                        vlan: vlan.filter(|_| users).map(VlanTag::number),
                    };
                    if let Some(pieces) = self.ports.as_mut().and_then(|ports| ports.cut(&packet)) {
                        netlink::verdict(&mut queue.verdicts, queue.number, id, netlink::DROP, None);
                        queue.cut += (pieces.len() as u64).saturating_sub(1);
                        queue.lost += u64::from(pieces.is_empty());
                        self.errors.malformed += u64::from(pieces.is_empty());
                        into.extend(pieces.into_iter().filter_map(|bytes| {
                            let piece = HeldPacket::of_frame(bytes, direction, &mut self.errors)?;
                            Some((
                                direction,
                                HeldPacket { is_piece: true, port: packet.leaves_by, link, ..piece },
                            ))
                        }));
                        continue;
                    }
                    let (header, is_sound) = header_of_packet(if is_ip { bytes } else { &[] }, mac.map(Mac));
                    let header = Header { len: Bytes(bytes.len() as u64).max(header.len), ..header };
                    self.errors.malformed += u64::from(is_ip && !is_sound);
                    if direction == Direction::Up
                        && self.responder.as_mut().is_some_and(|r| r.takes(now, &header))
                    {
                        netlink::verdict(&mut queue.verdicts, queue.number, id, netlink::DROP, None);
                        continue;
                    }
                    let answerable = direction == Direction::Up
                        && self.responder.as_ref().is_some_and(|r| r.answers(&header));
                    let (port, before) =
                        self.ports.as_mut().map_or((0, &[][..]), |ports| ports.way_of(&packet));
                    let (mut bytes, ip_at) = Self::buffer_with(&mut self.spare, before, &packet);
                    // A merged packet that cannot be cut is left as it is: each of its pieces would have to be changed.
                    if packet.is_merged && port == 0 {
                        bytes.truncate(BEGINNING);
                    }
                    // Given back changed, it goes as it is.
                    if is_ip && packet.lacks_checksum {
                        frame::finish_checksum(&mut bytes, usize::from(ip_at));
                    }
                    into.push((
                        direction,
                        HeldPacket {
                            id,
                            direction,
                            dirty: false,
                            answerable,
                            is_piece: false,
                            port,
                            ip_at,
                            header,
                            link,
                            user: None,
                            mark: Mark::default(),
                            bytes,
                        },
                    ));
                }
                // As a rule what any base chain's removal has dropped from all queues (nf_queue_nf_hook_drop). Which of
                // those that wait are gone too nobody tells: of an interface that goes down only its own are.
                QueueMessage::Refused { id, verdict } => {
                    self.errors.gone += 1;
                    if verdict == netlink::ACCEPT {
                        queue.gone += 1;
                        let len = queue.accepted.take(id);
                        self.gone.extend(len.map(|len| GonePacket { direction, len }));
                    }
                }
                QueueMessage::Answer(Err(_)) => self.errors.gone += 1,
                QueueMessage::Answer(Ok(())) | QueueMessage::Other => {}
            }
        }
        Ok(count == BATCH)
    }
}

impl Backend for Nfqueue {
    type Packet = HeldPacket;

    fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
        let down = self.receive_from(now, Direction::Down, into)?;
        let up = self.receive_from(now, Direction::Up, into)?;
        Ok(down || up)
    }

    fn apply(&mut self, now: Instant, event: Event<HeldPacket>) {
        match event {
            Event::Send(_, packet) => self.say(packet, netlink::ACCEPT),
            Event::Verdict(_, Verdict::Dropped { packet, .. } | Verdict::Suppressed { packet }) => {
                self.say(packet, netlink::DROP);
            }
            Event::Verdict(_, Verdict::Refused { packet, position, retry_after }) => {
                if let Some(responder) = self.responder.as_mut().filter(|_| packet.answerable) {
                    let standing = Standing { position, wait: retry_after };
                    responder.refused(now, &packet.header, standing);
                }
                self.say(packet, netlink::DROP);
            }
            Event::Verdict(_, Verdict::Marked { .. }) => {}
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        for queue in &mut self.queues {
            self.errors.gone += self.ports.as_mut().map_or(0, |ports| queue.flush_frames(ports));
            queue.flush()?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn keeps(&self, direction: Direction) -> bool {
        !self.queues[direction as usize].verdicts.is_empty()
    }

    fn take_gone(&mut self) -> Vec<GonePacket> {
        std::mem::take(&mut self.gone)
    }
}

impl Channel for Nfqueue {
    fn fds(&self) -> [BorrowedFd<'_>; 2] {
        self.queues.each_ref().map(|q| q.socket.as_fd())
    }

    fn error_counters(&mut self) -> ErrorCounters {
        let answered = self.responder.as_ref().map_or(0, |responder| responder.answered());
        ErrorCounters { answered, gone: self.gone(), ..self.errors }
    }

    fn gone(&self) -> u64 {
        self.errors.gone + self.responder.as_ref().map_or(0, |responder| responder.failed())
    }

    fn passages(&mut self) -> [Passage; 2] {
        self.queues.each_ref().map(|queue| Passage {
            offered: queue.numbers.total,
            unqueued: queue.numbers.skipped,
            lost: queue.lost,
            gone: queue.gone,
            cut: queue.cut,
        })
    }

    // Rules and queues go by name and number: an interface that comes back is found by them.
    fn links_changed(&mut self) {
        if let Some(responder) = &self.responder {
            responder.links_changed();
        }
        self.ports.iter_mut().for_each(Ports::links_changed);
    }

    fn answer_http(&mut self, on: bool) -> anyhow::Result<()> {
        match &mut self.responder {
            Some(responder) => responder.turn(on),
            None if !on => {}
            None => {
                let lan = self.lan.as_deref().context(
                    "http_503 = true: answers are routed to the users, and a bridge need have no route to them; \
                     leave it out, or route",
                )?;
                self.responder = Some(Responder::new(lan)?);
            }
        }
        Ok(())
    }

    fn hand_over(&self) -> (Vec<BorrowedFd<'_>>, Vec<u32>) {
        let [down, up] = &self.queues;
        (self.fds().to_vec(), vec![down.number.into(), down.numbers.last, up.numbers.last])
    }

    fn hold_at_most(&mut self, packets: [u32; 2]) {
        for (queue, most) in self.queues.iter_mut().zip(packets) {
            netlink::set_max_len(&mut queue.verdicts, queue.number, most);
        }
    }

    /// Accepts all packets still held, in the order in which they came, and stops listening. Take the rules away first.
    fn close(&mut self) -> io::Result<()> {
        for queue in &mut self.queues {
            // Whatever came since the last step is newer than any packet we know of; these numbers only grow.
            let last = &mut queue.numbers.last;
            let _ = queue.batch.receive_waiting(queue.socket.as_fd(), SOCKET_BUFFER, |datagram| {
                for heard in netlink::messages(datagram) {
                    if let QueueMessage::Packet(packet) = heard {
                        *last = packet.id;
                    }
                }
            });
            netlink::verdict_up_to(&mut queue.verdicts, queue.number, queue.numbers.last, netlink::ACCEPT);
            netlink::unbind(&mut queue.verdicts, queue.number);
            queue.flush()?;
        }
        Ok(())
    }
}

/// The kernel's own account of its queues, from `/proc/net/netfilter/nfnetlink_queue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelQueue {
    /// Number of the queue.
    pub number: u16,
    /// Packets held for us now.
    pub held: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets dropped because they could not be told to us.
    pub user_dropped: u64,
}

/// All queues of this network namespace that somebody listens on.
///
/// # Errors
/// If the file cannot be read: the kernel has no NFQUEUE, or we may not.
pub fn kernel_queues() -> io::Result<Vec<KernelQueue>> {
    let mut text = Vec::new();
    match ACCOUNT.get() {
        // From the beginning, whoever has read before.
        Some(file) => {
            let mut part = [0; 4096];
            loop {
                match file.read_at(&mut part, text.len() as u64)? {
                    0 => break,
                    n => text.extend_from_slice(&part[..n]),
                }
            }
        }
        None => text = fs::read(ACCOUNT_PATH)?,
    }
    Ok(parse_kernel_queues(&String::from_utf8_lossy(&text)))
}

const ACCOUNT_PATH: &str = "/proc/thread-self/net/netfilter/nfnetlink_queue";
/// The open file of the account, which only root may open.
static ACCOUNT: OnceLock<fs::File> = OnceLock::new();

/// Opens the account for [`kernel_queues`] to come, which may then be called by another user, about the network
/// namespace of now.
pub fn keep_account() {
    if let Ok(file) = fs::File::open(ACCOUNT_PATH) {
        let _ = ACCOUNT.set(file);
    }
}

fn parse_kernel_queues(text: &str) -> Vec<KernelQueue> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some(KernelQueue {
            number: words.next()?.parse().ok()?,
            held: words.nth(1)?.parse().ok()?,
            dropped: words.nth(2)?.parse().ok()?,
            user_dropped: words.next()?.parse().ok()?,
        })
    };
    text.lines().filter_map(line).collect()
}

/// Two neighbouring numbers nobody listens on, from 4096 up: low numbers are what people write into rules by hand.
#[must_use]
pub fn free_pair() -> u16 {
    let used = kernel_queues().unwrap_or_default();
    (4096..60_000)
        .step_by(2)
        .find(|n| !used.iter().any(|q| q.number == *n || q.number == n + 1))
        .unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, recv, socketpair};

    #[test]
    fn verdicts_that_the_kernel_has_no_room_for_are_said_later() {
        let flags = SockFlag::SOCK_NONBLOCK;
        let (ours, kernel) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let mut queue = NfQueue::resume(7, ours, 0);
        let mut others = 0;
        while send(queue.socket.as_raw_fd(), &[0; 4096], MsgFlags::empty()).is_ok() {
            others += 1;
        }
        queue.say(1, netlink::DROP, None).unwrap();
        let said = queue.verdicts.clone();
        queue.flush().unwrap();
        assert_eq!(queue.verdicts, said);
        let mut heard = [0; 4096];
        for _ in 0..others {
            recv(kernel.as_raw_fd(), &mut heard, MsgFlags::empty()).unwrap();
        }
        queue.flush().unwrap();
        assert!(queue.verdicts.is_empty());
        let len = recv(kernel.as_raw_fd(), &mut heard, MsgFlags::empty()).unwrap();
        assert_eq!(heard[..len], said);
        // Verdicts that have gathered without memory are more than the socket takes at once, and go in whole messages.
        while send(queue.socket.as_raw_fd(), &[0; 4096], MsgFlags::empty()).is_ok() {}
        (1..=400).for_each(|id| queue.say(id, netlink::ACCEPT, Some(&[7; 1400])).unwrap());
        let gathered = queue.verdicts.len();
        assert!(gathered > 400 * 1400);
        let mut verdicts = Vec::new();
        let mut heard = vec![0; 1 << 17];
        while !queue.verdicts.is_empty() {
            while let Ok(len) = recv(kernel.as_raw_fd(), &mut heard, MsgFlags::MSG_DONTWAIT) {
                if len != 4096 {
                    assert!(len <= VERDICTS_AT_ONCE, "{len}");
                    verdicts.extend_from_slice(&heard[..len]);
                }
            }
            queue.flush().unwrap();
        }
        while let Ok(len) = recv(kernel.as_raw_fd(), &mut heard, MsgFlags::MSG_DONTWAIT) {
            verdicts.extend_from_slice(&heard[..len]);
        }
        assert_eq!(verdicts.len(), gathered);
        // An error that is not want of room is told.
        drop(kernel);
        queue.say(2, netlink::DROP, None).unwrap();
        assert!(queue.flush().is_err());
    }

    #[test]
    fn the_length_of_what_was_accepted_is_known_once() {
        let mut accepted = Accepted::new();
        accepted.note(7, Bytes(1500));
        accepted.note(8, Bytes(40));
        assert_eq!((accepted.take(7), accepted.take(7)), (Some(Bytes(1500)), None));
        accepted.note(8 + ACCEPTED as u32, Bytes(99));
        assert_eq!(accepted.take(8), None, "too long ago");
        assert_eq!(accepted.take(0), None, "there is no such number");
    }

    #[test]
    fn the_kernels_account() {
        // queue, port, held, copy mode, copy range, queue dropped, user dropped, last id, 1
        let text =
            " 4096  31337     5 2 65531     7     9      812  1\n 4097  31338 0 2 65531 0 0 0 1\nnonsense\n";
        let queues = parse_kernel_queues(text);
        assert_eq!(queues[0], KernelQueue { number: 4096, held: 5, dropped: 7, user_dropped: 9 });
        assert_eq!(queues.len(), 2);
    }
}
