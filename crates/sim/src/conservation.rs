//! Nothing is lost that is not counted: what came to a link went somewhere.

use crate::link::SimLink;
use crate::network::Network;

/// Whether every packet is accounted for: at each link what arrived was sent, dropped, lost, suppressed or refused, or
/// waits in its discipline or is kept by a reverse path; and every box that is out is on a wire or in a discipline.
///
/// # Errors
/// If not, where and by how much.
pub(crate) fn check_conservation(net: &Network) -> Result<(), String> {
    let mut boxes = 0;
    for (id, link) in net.links.iter().enumerate() {
        let pair = [Some(link), link.reverse.map(|other| &net.links[other.index()])];
        // A reverse path keeps packets of either direction: how many of which, it does not tell.
        let held: usize = pair.into_iter().flatten().map(SimLink::held).sum();
        let missing: i128 = pair.into_iter().flatten().map(SimLink::missing).sum();
        if missing != held as i128 || link.missing() < 0 {
            return Err(format!(
                "link {id} and the way back: {missing} neither left nor wait, {held} are held: {:?}",
                link.counters
            ));
        }
        // What waits in a drop-tail queue is on its wire already.
        boxes += link.discipline().map_or(0, |_| link.backlog().packets) + link.held();
    }
    boxes += net.events.packets().count();
    if boxes != net.pool.out() {
        return Err(format!("{} boxes are out, {boxes} are found", net.pool.out()));
    }
    Ok(())
}

impl SimLink {
    fn held(&self) -> usize {
        self.discipline().and_then(|q| q.discipline.reverse_path()).map_or(0, |path| path.held())
    }

    /// Packets that arrived, did not go and do not wait in the discipline.
    fn missing(&self) -> i128 {
        let k = &self.counters;
        let gone = k.sent + k.dropped_total() + k.lost + k.suppressed + k.refused;
        i128::from(k.arrived) - i128::from(gone) - self.backlog().packets as i128
    }
}
