//! Choice of a socket's congestion control.

use anyhow::Context as _;
use tokio::net::TcpSocket;

/// Pins the congestion control of a socket.
pub(super) fn congestion_control(socket: &TcpSocket, name: &str) -> anyhow::Result<()> {
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::TcpCongestion, &name.into()).with_context(
        || {
            let have = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            format!(
                "congestion_control = '{name}': this kernel has {}; try modprobe tcp_{name}, or a sender of Narrows, \
                 which the lab loads by itself: narrows_btcp, narrows_aaimd or narrows_is",
                have.unwrap_or_default().trim()
            )
        },
    )
}
