//! Pools that are admitted and pools that wait, for another process that takes this one's place.

use narrows_units::Instant;
use narrows_users::User;
use serde::{Deserialize, Serialize};

use super::{Admission, Member, Past, RECENT};
use crate::Packet;
use crate::taq::pools::List;

/// The lists in the order in which a handover tells the lists' pools.
const LISTS: [List; 3] = [List::Waiting, List::Unproven, List::Proven];

#[derive(Debug, Serialize, Deserialize)]
struct KnownPool {
    user: User,
    since: Instant,
    seen: Instant,
    granted: bool,
    proven: bool,
    ticket: u64,
}

/// Knowledge of pools, without the packets that are held.
#[derive(Debug, Serialize, Deserialize)]
pub struct Known {
    pools: [Vec<KnownPool>; 3],
    past: Past,
}

impl<P: Packet> Admission<P> {
    /// Knowledge that another admission control may go on with.
    #[must_use]
    pub fn known(&self) -> Known {
        let list = |list| {
            let pools = self.pools.iter(list).map(|pool| KnownPool {
                user: pool.user,
                since: pool.since,
                seen: pool.seen,
                granted: pool.data.granted,
                proven: pool.data.proven,
                ticket: pool.data.ticket,
            });
            pools.collect()
        };
        Known { pools: LISTS.map(list), past: self.past.clone() }
    }

    /// Goes on with it, as far as there is room; for one that knows nobody yet.
    pub fn learn(&mut self, known: Known) {
        for (list, pools) in LISTS.into_iter().zip(known.pools) {
            for pool in pools {
                if self.pools.is_full() || self.pools.find(pool.user).is_some() {
                    continue;
                }
                let id = self.pools.insert(pool.since, pool.user, list);
                if let Some(record) = self.pools.get_mut(id) {
                    record.seen = pool.seen;
                    let KnownPool { granted, proven, ticket, .. } = pool;
                    record.data = Member { held: Vec::new(), granted, proven, ticket };
                }
            }
        }
        let tickets = known.past.tickets.max(self.past.tickets);
        self.past = Past { tickets, ..known.past };
        self.past.waits.truncate(RECENT);
        self.past.grants.truncate(RECENT);
    }
}
