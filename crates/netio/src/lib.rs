//! Linux's ways to packets, as a data path needs them: packet sockets, netlink, many datagrams in one call. All
//! `unsafe` of the data path is here, each block with its reason; nothing here knows what a queue is.

pub mod ethtool;
pub mod frame;
pub mod identity;
pub mod links;
pub mod merged;
pub mod mmsg;
pub mod nfqueue;
pub mod packet_socket;
pub mod priority;
pub mod rights;
pub mod tcp_socket;
pub mod xdp;
