//! Questions of ethtool(8) to an interface's driver.

use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Commands of linux/ethtool.h.
const FLAGS: u32 = 0x25;
const CHANNELS: u32 = 0x3c;
/// The driver takes VLAN tags off (ETH_FLAG_RXVLAN).
const TAGS_OFF: u32 = 1 << 8;

/// Queues of received frames; 1 where the driver does not say.
#[must_use]
pub fn receive_queues(name: &str) -> u32 {
    // Command; most of rx, tx, other, combined; and how many there are of each.
    let mut answer = [CHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    let asked = ask(name, &mut answer);
    asked.map_or(1, |()| (answer[5] + answer[8]).max(1))
}

/// Whether the interface's driver takes VLAN tags off received frames.
#[must_use]
pub fn takes_tags_off(name: &str) -> bool {
    let mut answer = [FLAGS, 0];
    ask(name, &mut answer).is_ok_and(|()| answer[1] & TAGS_OFF != 0)
}

/// The driver's name.
#[must_use]
pub fn driver(name: &str) -> Option<String> {
    // struct ethtool_drvinfo: command, driver, and 160 bytes of no interest here.
    let mut answer = [0u32; 49];
    answer[0] = 3;
    ask(name, &mut answer).ok()?;
    let bytes: Vec<u8> = answer[1..9].iter().flat_map(|w| w.to_ne_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8(bytes).ok()
}

/// Request of an ethtool ioctl (struct ifreq): name of an interface, and a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    _rest: [u64; 2],
}

#[expect(unsafe_code, reason = "nix has no such ioctl")]
fn ask(name: &str, command: &mut [u32]) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = Request { name: [0; 16], data: command.as_mut_ptr(), _rest: [0; 2] };
    // The last byte stays zero.
    for (to, from) in request.name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the kernel reads and writes the structure of this command, of which all words are there.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), 0x8946, &raw mut request) };
    Ok(Errno::result(asked).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loopback_interface_says() {
        assert_eq!(receive_queues("lo"), 1);
        assert!(!takes_tags_off("lo"));
    }
}
