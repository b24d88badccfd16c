//! Network interfaces: what they are, and when they come and go (rtnetlink, RFC 3549 and linux/rtnetlink.h).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

/// Multicast group of `RTM_NEWLINK` and `RTM_DELLINK`.
const LINK_EVENTS: u32 = libc::RTMGRP_LINK as u32;

/// News of interfaces that are read at once: a thread that waits for them has packets to handle.
const NEWS: usize = 256;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Number of the interface in the network namespace.
    pub index: u32,
    /// Whether the interface is switched on.
    pub up: bool,
    /// The largest IP packet.
    pub mtu: u32,
    /// Number of the bridge that has the interface as a port; `None` for no port.
    pub bridge: Option<u32>,
    /// Whether the interface is a line with one other end (IFF_POINTOPOINT).
    pub point_to_point: bool,
    /// Ethernet address of the interface; zeros for an interface without one.
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
        // An interface that has gone since it was listed is left out.
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
        point_to_point: u32_at(message, 24)? & libc::IFF_POINTOPOINT as u32 != 0,
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

/// A neighbour of this machine: who has this address behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Number of the interface.
    pub interface: u32,
    /// Address of the neighbour.
    pub address: IpAddr,
    /// Ethernet address of the neighbour.
    pub mac: [u8; 6],
}

impl Neighbour {
    /// All neighbours that the kernel knows by their Ethernet address, at most `most`.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn all(most: usize) -> io::Result<Vec<Self>> {
        let socket = route_socket(0)?;
        let mut request = Vec::new();
        request.extend(28u32.to_ne_bytes());
        request.extend(libc::RTM_GETNEIGH.to_ne_bytes());
        request.extend((libc::NLM_F_REQUEST as u16 | libc::NLM_F_DUMP as u16).to_ne_bytes());
        request.extend([0; 8]);
        // struct ndmsg: family, padding, interface, state, flags, type.
        request.extend([0; 12]);
        send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
        let (mut all, mut reply) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            // The kernel goes on within the call that reads.
            let len = recv(socket.as_raw_fd(), &mut reply, MsgFlags::MSG_DONTWAIT)?;
            let mut rest = &reply[..len];
            while let Some(message) = u32_at(rest, 0).and_then(|len| rest.get(..len as usize)) {
                let kind = i32::from(u16_at(message, 4).unwrap_or_default());
                if kind == libc::NLMSG_DONE || kind == libc::NLMSG_ERROR || all.len() >= most {
                    return Ok(all);
                }
                all.extend(neighbour(message));
                rest = rest.get(message.len().max(4).next_multiple_of(4)..).unwrap_or(&[]);
            }
            if len == 0 {
                return Ok(all);
            }
        }
    }
}

fn neighbour(message: &[u8]) -> Option<Neighbour> {
    /// States in which the Ethernet address is known (linux/neighbour.h): reachable, stale, delay, probe, permanent.
    const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
    /// Attributes (linux/neighbour.h).
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    if u16_at(message, 4)? != libc::RTM_NEWNEIGH || u16_at(message, 24)? & KNOWN == 0 {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for (attribute, value) in attributes(message.get(28..)?) {
        match attribute {
            NDA_DST => {
                let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from).ok();
                address = v4.or_else(|| <[u8; 16]>::try_from(value).map(IpAddr::from).ok());
            }
            NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    Some(Neighbour { interface: u32_at(message, 20)?, address: address?, mac: mac? })
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

    /// Whether something may have changed since the last call. News that come faster than they are read are left for
    /// the next.
    #[must_use]
    pub fn changed(&self) -> bool {
        let mut ignored = [0; 64];
        // An overrun (ENOBUFS) is news as well.
        let mut news = || {
            !matches!(
                recv(self.socket.as_raw_fd(), &mut ignored, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC),
                Err(nix::errno::Errno::EAGAIN)
            )
        };
        (0..NEWS).take_while(|_| news()).count() > 0
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

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut a = Vec::new();
        a.extend((4 + value.len() as u16).to_ne_bytes());
        a.extend(kind.to_ne_bytes());
        a.extend(value);
        a.resize(a.len().next_multiple_of(4), 0);
        a
    }

    #[test]
    fn neighbours_with_both_addresses() {
        assert!(Neighbour::all(1000).is_ok());
        let message = |state: u16, address: &[u8]| {
            let mut m = vec![0; 28];
            m[4..6].copy_from_slice(&libc::RTM_NEWNEIGH.to_ne_bytes());
            m[20] = 7;
            m[24..26].copy_from_slice(&state.to_ne_bytes());
            m.extend(attribute(1, address));
            m.extend(attribute(2, &[2, 0, 0, 0, 0, 9]));
            m
        };
        let v6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for (address, text) in [(&[10, 0, 0, 1][..], "10.0.0.1"), (&v6, "fd00::1")] {
            // NUD_STALE, and NUD_FAILED.
            let stale = message(4, address);
            let found = neighbour(&stale).unwrap();
            assert_eq!((found.interface, found.mac), (7, [2, 0, 0, 0, 0, 9]));
            assert_eq!(found.address.to_string(), text);
            assert_eq!(neighbour(&message(0x20, address)), None);
            for n in 0..stale.len() {
                let _ = neighbour(&stale[..n]);
            }
        }
    }

    #[test]
    fn a_port_of_a_bridge() {
        let mut m = vec![0; 32];
        m[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        m[20] = 7;
        m[24] = libc::IFF_UP as u8;
        m.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        m.extend(attribute(libc::IFLA_MASTER, &3u32.to_ne_bytes()));
        m.extend(attribute(libc::IFLA_LINKINFO, &attribute(libc::IFLA_INFO_SLAVE_KIND, b"bridge\0")));
        m.extend(attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]));
        let address = [2, 0, 0, 0, 0, 9];
        let expected =
            Interface { index: 7, up: true, mtu: 1500, bridge: Some(3), point_to_point: false, address };
        assert_eq!(parse(&m), Some(expected));
        for n in 0..m.len() {
            let _ = parse(&m[..n]);
        }
    }
}
