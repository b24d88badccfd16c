//! Network interfaces: what they are, and when they come and go (rtnetlink, RFC 3549 and linux/rtnetlink.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

/// Multicast group of `RTM_NEWLINK` and `RTM_DELLINK`.
const LINK_EVENTS: u32 = libc::RTMGRP_LINK as u32;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number in this network namespace.
    pub index: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// The largest IP packet.
    pub mtu: u32,
    /// The bridge it is a port of.
    pub bridge: Option<u32>,
    /// Its Ethernet address; zeros where it has none.
    pub address: [u8; 6],
}

fn route_socket(groups: u32) -> io::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        Some(SockProtocol::NetlinkRoute),
    )?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

impl Interface {
    /// The interface called `name`.
    ///
    /// # Errors
    /// If there is none, or the kernel cannot be asked.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        match Self::ask(name).with_context(|| format!("cannot ask the kernel about interface {name}"))? {
            Some(link) => Ok(link),
            None => bail!("no network interface is called '{name}': see `ip link`"),
        }
    }

    /// All interfaces, with their names, as the kernel numbers them.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn all() -> anyhow::Result<Vec<(String, Self)>> {
        let names = nix::net::if_::if_nameindex().context("cannot ask the kernel for its interfaces")?;
        let named = names.iter().filter_map(|name| name.name().to_str().ok());
        // One that has gone since is none.
        Ok(named.filter_map(|name| Some((name.to_owned(), Self::ask(name).ok()??))).collect())
    }

    fn ask(name: &str) -> io::Result<Option<Self>> {
        let Ok(index) = nix::net::if_::if_nametoindex(name) else { return Ok(None) };
        let socket = route_socket(0)?;
        let mut request = Vec::new();
        request.extend(32u32.to_ne_bytes());
        request.extend(libc::RTM_GETLINK.to_ne_bytes());
        request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
        request.extend([0; 8]);
        // struct ifinfomsg: family, pad, type, index, flags, change.
        request.extend([0; 4]);
        request.extend(index.to_ne_bytes());
        request.extend([0; 8]);
        send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
        let mut reply = vec![0; 32 << 10];
        // The kernel answers within the call that asks.
        let len = recv(socket.as_raw_fd(), &mut reply, MsgFlags::MSG_DONTWAIT)?;
        Ok(parse(&reply[..len]))
    }
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// The attributes of a message: kind and value.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..len)?;
        let kind = u16_at(rest, 2)? & 0x3fff;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn parse(message: &[u8]) -> Option<Interface> {
    if u16_at(message, 4)? != libc::RTM_NEWLINK {
        return None;
    }
    let mut link = Interface {
        index: u32_at(message, 20)?,
        up: u32_at(message, 24)? & libc::IFF_UP as u32 != 0,
        ..Interface::default()
    };
    let (mut master, mut kind) = (None, &[][..]);
    for (attribute, value) in attributes(message.get(32..)?) {
        match attribute {
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_MASTER => master = u32_at(value, 0),
            libc::IFLA_ADDRESS => link.address = value.try_into().unwrap_or_default(),
            libc::IFLA_LINKINFO => {
                let slave_kind = attributes(value).find(|a| a.0 == libc::IFLA_INFO_SLAVE_KIND);
                kind = slave_kind.map_or(&[][..], |a| a.1);
            }
            _ => {}
        }
    }
    link.bridge = master.filter(|_| kind.starts_with(b"bridge"));
    Some(link)
}

/// Tells when interfaces come, go or change.
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
}

impl Monitor {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the kernel gives no route socket.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            socket: route_socket(LINK_EVENTS).context("cannot listen for interface changes (rtnetlink)")?,
        })
    }

    /// Readable when something changed.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether something may have changed since the last call.
    #[must_use]
    pub fn changed(&self) -> bool {
        let mut any = false;
        let mut ignored = [0; 64];
        // An overrun (ENOBUFS) is news as well.
        while !matches!(
            recv(self.socket.as_raw_fd(), &mut ignored, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC),
            Err(nix::errno::Errno::EAGAIN)
        ) {
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.index > 0 && lo.mtu >= 1280 && lo.bridge.is_none(), "{lo:?}");
        let error = Interface::find("no-such-if").unwrap_err().to_string();
        assert!(error.contains("'no-such-if'"), "{error}");
    }

    #[test]
    fn a_port_of_a_bridge() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut a = Vec::new();
            a.extend((4 + value.len() as u16).to_ne_bytes());
            a.extend(kind.to_ne_bytes());
            a.extend(value);
            a.resize(a.len().next_multiple_of(4), 0);
            a
        };
        let mut m = vec![0; 32];
        m[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        m[20] = 7;
        m[24] = libc::IFF_UP as u8;
        m.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        m.extend(attribute(libc::IFLA_MASTER, &3u32.to_ne_bytes()));
        m.extend(attribute(libc::IFLA_LINKINFO, &attribute(libc::IFLA_INFO_SLAVE_KIND, b"bridge\0")));
        m.extend(attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]));
        let address = [2, 0, 0, 0, 0, 9];
        assert_eq!(parse(&m), Some(Interface { index: 7, up: true, mtu: 1500, bridge: Some(3), address }));
        for n in 0..m.len() {
            let _ = parse(&m[..n]);
        }
    }
}
