//! Nothing is lost that is not counted: what came to a link went somewhere.

use crate::network::Network;
use crate::world::World;

impl World {
    /// Whether every packet is accounted for: at each link what arrived was sent, dropped, lost, swallowed or refused, or
    /// waits; and every box that is out is on a wire or in a discipline.
    ///
    /// # Errors
    /// If not, where and by how much.
    pub(crate) fn check_conservation(&self) -> Result<(), String> {
        self.net.check_conservation()
    }
}

impl Network {
    fn check_conservation(&self) -> Result<(), String> {
        let mut boxes = 0;
        for (id, link) in self.links.iter().enumerate() {
            let k = &link.counters;
            let backlog = link.queue.as_ref().map_or(0, |q| q.discipline.backlog().packets);
            // A door keeps packets of the other direction.
            let twin = link.twin.and_then(|twin| self.links[twin as usize].queue.as_ref());
            let held = twin.map_or(0, |q| q.discipline.held());
            let gone = k.sent + k.dropped_total() + k.lost + k.swallowed + k.refused;
            let there = (backlog + held) as u64;
            if k.arrived != gone + there {
                return Err(format!(
                    "link {id}: {} arrived, but {gone} left and {there} wait: {k:?}, backlog {backlog}, held {held}",
                    k.arrived
                ));
            }
            boxes += backlog + held;
        }
        boxes += self.events.packets().count();
        if boxes != self.pool.out {
            return Err(format!("{} boxes are out, {boxes} are found", self.pool.out));
        }
        Ok(())
    }
}
