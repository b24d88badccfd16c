//! Orders to the loop of a link from the thread that looks after all links.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use narrows_users::UserHosts;
use nix::sys::eventfd::EventFd;

use crate::handover::Handed;
use crate::host_names::HostNames;
use crate::settings::Settings;

/// An order.
pub enum Order {
    /// Stop for good.
    Stop,
    /// Get ready for settings with this `http_503`, and tell whether that can be.
    Prepare {
        /// Whether connections are to be answered.
        http_503: bool,
        /// Receiver of the answer.
        answer: SyncSender<anyhow::Result<()>>,
    },
    /// Adopt settings for which all links are ready.
    Adopt(Box<Settings>),
    /// Look users of IPv6 addresses up in `hosts`, and show `names` to people.
    Know {
        /// Hosts on the users' side.
        hosts: Arc<UserHosts>,
        /// Names of hosts, users' and others'.
        names: Arc<HostNames>,
    },
    /// Stop between two packets and tell all that is known; go on unless it is taken.
    HandOver {
        /// Receiver of what is told.
        answer: SyncSender<Handed>,
        /// Channel on which the loop says that the order was taken. The giver of the order alone decides: silence says
        /// no.
        taken: Receiver<()>,
    },
}

/// Orders to a loop, and the event that wakes the loop for an order.
pub struct Orders {
    orders: Receiver<Order>,
    wake: Arc<EventFd>,
}

impl Orders {
    /// Orders that come with a write to `wake`.
    pub const fn new(orders: Receiver<Order>, wake: Arc<EventFd>) -> Self {
        Self { orders, wake }
    }

    /// Descriptor that is readable when an order waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Next order, without waiting. A giver that is gone orders to stop.
    pub fn next(&self) -> Option<Order> {
        let _ = self.wake.read();
        match self.orders.try_recv() {
            Ok(order) => Some(order),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Order::Stop),
        }
    }
}
