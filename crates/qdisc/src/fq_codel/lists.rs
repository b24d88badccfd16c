//! The two lists of flows, new and old, and whose turn it is.

use narrows_lists::{Links, List, Queue};

use crate::sojourn::CodelState;

/// Which list a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    None,
    New,
    Old,
}

/// One flow's queue: one line of a cache. Its bytes are kept apart, so that the fattest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct FqCodelFlow {
    pub queue: Queue,
    pub age: Age,
    /// Bytes it may still send in this turn.
    pub deficit: i64,
    pub codel: CodelState,
}

/// The flows of the link, or of one user.
#[derive(Debug)]
pub struct FqLists {
    pub new: List,
    old: List,
}

impl FqLists {
    pub const EMPTY: Self = Self { new: List::EMPTY, old: List::EMPTY };

    /// The queue whose turn it is: the first of the new ones, else of the old. It stays in its list.
    pub fn turn(&mut self, flows: &mut [FqCodelFlow], links: &mut Vec<Links>, quantum: u32) -> Option<usize> {
        loop {
            let first = self.new.first().or_else(|| self.old.first())?;
            let flow = &mut flows[first as usize];
            if flow.deficit > 0 {
                return Some(first as usize);
            }
            flow.deficit += i64::from(quantum);
            let age = core::mem::replace(&mut flow.age, Age::Old);
            self.of(age).remove(links, first);
            self.old.push_back(links, first);
        }
    }

    const fn of(&mut self, age: Age) -> &mut List {
        match age {
            Age::New => &mut self.new,
            Age::Old | Age::None => &mut self.old,
        }
    }

    /// A new queue that is empty has to wait behind the old ones before it can be new again; else a flow that sends a
    /// packet each time would starve them (RFC 8290, section 4.2). An old one leaves.
    pub fn rest(&mut self, flows: &mut [FqCodelFlow], links: &mut Vec<Links>, at: usize) {
        let age = flows[at].age;
        self.of(age).remove(links, at as u32);
        flows[at].age = if age == Age::New { Age::Old } else { Age::None };
        if age == Age::New {
            self.old.push_back(links, at as u32);
        }
    }

    /// All leave.
    pub fn clear(&mut self, links: &mut Vec<Links>, mut left: impl FnMut(usize)) {
        for list in [&mut self.new, &mut self.old] {
            while let Some(at) = list.pop_front(links) {
                left(at as usize);
            }
        }
    }
}
