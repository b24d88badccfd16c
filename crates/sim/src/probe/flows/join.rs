//! Flows of several parts as if they had been opened in one world.

use narrows_units::Instant;

use super::{Done, Flows, MOST_SHARES, Slice};

impl Flows {
    /// Begins to keep the bytes of every flow in every slice: fairness is among the flows of all parts.
    pub(in crate::probe) const fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// The flows of all parts in the order in which they were opened, and the new number of each part's flows.
    pub(in crate::probe) fn join(mut parts: Vec<Self>) -> (Self, Vec<Vec<u32>>) {
        let mut order = Vec::new();
        for (number, part) in parts.iter_mut().enumerate() {
            part.at_warmup.resize(part.flows.len(), Done::default());
            // A flow that is opened anew after others keeps its place behind them.
            let mut last = Instant::ZERO;
            for (row, flow) in part.flows.iter().enumerate() {
                last = last.max(flow.opened);
                order.push((last, number, row));
            }
        }
        order.sort_by_key(|(opened, ..)| *opened);
        let mut numbers: Vec<Vec<u32>> = parts.iter().map(|part| vec![0; part.flows.len()]).collect();
        let mut all = Self { warmup: parts[0].warmup, ..Self::default() };
        for (new, (_, part, row)) in (0..).zip(order) {
            numbers[part][row] = new;
            all.flows.push(parts[part].flows[row]);
            all.at_warmup.push(parts[part].at_warmup[row]);
        }
        let mut next = vec![0; parts.len()];
        for slice in 0..parts[0].slices.len() {
            all.join_slice(slice, &parts, &numbers, &mut next);
        }
        (all, numbers)
    }

    /// Joins slice `number`, of which the shares of each part begin at `next`.
    fn join_slice(&mut self, number: usize, parts: &[Self], numbers: &[Vec<u32>], next: &mut [usize]) {
        let mut shares = Vec::new();
        for ((part, numbers), next) in parts.iter().zip(numbers).zip(next) {
            let own = part.shares[*next..].iter().take_while(|s| s.0 as usize == number);
            let before = shares.len();
            shares.extend(own.map(|(_, row, bytes)| (numbers[*row as usize], *bytes)));
            *next += shares.len() - before;
        }
        shares.sort_unstable();
        let slice = u32::try_from(number).unwrap_or(u32::MAX);
        let kept = shares.iter().take(MOST_SHARES - self.shares.len());
        self.shares.extend(kept.map(|(row, bytes)| (slice, *row, *bytes)));
        let delivered = parts.iter().map(|part| part.slices[number].delivered).sum();
        let mut bytes: Vec<u64> = shares.into_iter().map(|(_, bytes)| bytes).collect();
        self.slices.push(Slice::of(parts[0].slices[number].start, delivered, &mut bytes));
    }
}
