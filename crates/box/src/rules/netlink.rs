//! Conversations with nf_tables (linux/netfilter/nf_tables.h): changes that are made all together or not at all, and
//! lists.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily as Family,
};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

/// Bytes of a buffer for any datagram of the kernel's: it fills at most 32 kB.
const DATAGRAM: usize = 64 << 10;
/// A list that others change while it is made is asked for again, this often.
const PATIENCE: usize = 20;

/// Request for a change, or a question.
#[derive(Clone, Debug)]
pub struct Request {
    /// Family of the table.
    pub family: Family,
    /// Message with the change or question.
    pub message: NfTablesMessage,
    /// `NLM_F_CREATE` and the like.
    pub flags: u16,
}

/// Fate of changes that the kernel has found good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Changes are made.
    Commit,
    /// Drop the changes, which were a trial.
    Forget,
}

/// A socket to nf_tables of this network namespace.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens a netlink socket to nf_tables.
    ///
    /// # Errors
    /// If this kernel has no nfnetlink.
    pub fn open() -> io::Result<Self> {
        narrows_netio::nfqueue::socket().map(Self)
    }

    /// Makes all changes in one transaction. The kernel does so within the call that asks for it, and forgets a batch
    /// that has no end (nfnetlink_rcv_batch).
    ///
    /// # Errors
    /// What the kernel says of the first it refuses; none is made then.
    pub fn transact(&self, changes: Vec<Request>, then: Then) -> io::Result<()> {
        let control = |which| {
            let subsystem = libc::NFNL_SUBSYS_NFTABLES as u16;
            NetfilterMessage::new(NetfilterHeader::new(Family::Unspec, 0, subsystem), which)
        };
        let mut batch = Vec::new();
        append(&mut batch, control(ControlMessage::BatchBegin), NLM_F_REQUEST);
        for Request { family, message, flags } in changes {
            let message = NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), message);
            append(&mut batch, message, NLM_F_REQUEST | NLM_F_ACK | flags);
        }
        if then == Then::Commit {
            append(&mut batch, control(ControlMessage::BatchEnd), NLM_F_REQUEST);
        }
        send(self.0.as_raw_fd(), &batch, MsgFlags::empty())?;
        let mut buffer = vec![0; DATAGRAM];
        let mut refused = Ok(());
        while let Some(datagram) = self.receive(&mut buffer)? {
            for message in messages(datagram) {
                if let NetlinkPayload::Error(error) = message?.payload
                    && error.code.is_some()
                {
                    refused = refused.and(Err(error.to_io()));
                }
            }
        }
        refused
    }

    /// Everything of a kind: `question` is a Get with what narrows it down.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn list(&self, question: &Request) -> io::Result<Vec<(Family, NfTablesMessage)>> {
        for _ in 0..PATIENCE {
            if let Some(found) = self.list_once(question)? {
                return Ok(found);
            }
        }
        Err(io::Error::other("nf_tables is changed all the time"))
    }

    /// Lists once; `None` if the tables were changed meanwhile.
    fn list_once(&self, question: &Request) -> io::Result<Option<Vec<(Family, NfTablesMessage)>>> {
        let mut request = Vec::new();
        let message =
            NetfilterMessage::new(NetfilterHeader::new(question.family, 0, 0), question.message.clone());
        append(&mut request, message, NLM_F_REQUEST | NLM_F_DUMP | question.flags);
        send(self.0.as_raw_fd(), &request, MsgFlags::empty())?;
        let (mut found, mut whole) = (Vec::new(), true);
        let mut buffer = vec![0; DATAGRAM];
        while let Some(datagram) = self.receive(&mut buffer)? {
            for message in messages(datagram) {
                let message = message?;
                whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(message) => {
                        if let NetfilterMessageInner::NfTables(inner) = message.inner {
                            found.push((message.header.family, inner));
                        }
                    }
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(whole.then_some(found)),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// Next answer of the kernel; `None` if that was all.
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        loop {
            match recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => return Ok(Some(&buffer[..len])),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn append(batch: &mut Vec<u8>, message: NetfilterMessage, flags: u16) {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.finalize();
    let start = batch.len();
    batch.resize((start + message.buffer_len()).next_multiple_of(4), 0);
    message.serialize(&mut batch[start..]);
}

/// The messages of one datagram.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = io::Result<NetlinkMessage<NetfilterMessage>>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = NetlinkMessage::deserialize(rest);
        let len = message.as_ref().map_or(0, |m| m.header.length as usize).next_multiple_of(4);
        rest = rest.get(len..).filter(|_| len > 0).unwrap_or_default();
        Some(message.map_err(|e| io::Error::other(format!("nf_tables answered strangely: {e}"))))
    })
}
