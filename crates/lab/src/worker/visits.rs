//! An open loop: users come by a Poisson process, fetch, and go, whatever became of those before them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::client::{Life, Run, pause, rng};
use super::record::VisitRecord;
use crate::scenario::Visits;

/// The addresses of a group: the next in turn that nobody has, or, if all are taken, the next in turn.
#[derive(Debug)]
struct Pool {
    first: u32,
    taken: Vec<u32>,
    turn: usize,
}

impl Pool {
    fn new(first: u32, users: u32) -> Self {
        Self { first, taken: vec![0; users as usize], turn: 0 }
    }

    fn take(&mut self) -> u32 {
        let n = self.taken.len();
        let free = (0..n).map(|i| (self.turn + i) % n).find(|at| self.taken[*at] == 0);
        let at = free.unwrap_or(self.turn);
        self.turn = (at + 1) % n;
        self.taken[at] += 1;
        self.first + at as u32
    }

    fn give_back(&mut self, user: u32) {
        self.taken[(user - self.first) as usize] -= 1;
    }
}

/// Who comes, and what they are told to do.
pub(super) struct Open {
    /// The group's first address.
    pub(super) first: u32,
    /// How many addresses it has.
    pub(super) users: u32,
    pub(super) visits: Visits,
}

/// A user who came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    /// The address.
    pub(super) user: u32,
    /// Who it is among all users of the run.
    pub(super) person: u32,
}

/// Lets users come until the end of the run, each with the lives that `live` starts, and waits for all.
pub(super) async fn come<F>(run: Arc<Run>, open: Open, live: F) -> Vec<Life>
where
    F: Fn(&mut JoinSet<Vec<Life>>, &Arc<Run>, Visitor, u64),
{
    let pool = Arc::new(Mutex::new(Pool::new(open.first, open.users)));
    let mut draws = rng(run.spec.seed, open.first, u32::MAX);
    let (mut here, mut all) = (JoinSet::new(), Vec::new());
    let mut came = 0;
    while open.visits.most.is_none_or(|most| came < most) {
        pause(&run, -(1.0 - draws.f64()).ln() / open.visits.arrivals).await;
        if run.over() {
            break;
        }
        came += 1;
        let user = lock(&pool).take();
        let visitor = Visitor { user, person: run.patience.add(user) };
        let mut lives = JoinSet::new();
        live(&mut lives, &run, visitor, draws.u64(..));
        here.spawn(visit(run.clone(), visitor, lives, pool.clone()));
        while let Some(done) = here.try_join_next() {
            all.extend(finished(done));
        }
    }
    while let Some(done) = here.join_next().await {
        all.extend(finished(done));
    }
    all
}

async fn visit(
    run: Arc<Run>,
    visitor: Visitor,
    mut lives: JoinSet<Vec<Life>>,
    pool: Arc<Mutex<Pool>>,
) -> Vec<Life> {
    let Visitor { user, person } = visitor;
    let mut record = VisitRecord { user, visitor: person, start: run.now(), end: None };
    let mut all = Vec::new();
    while let Some(done) = lives.join_next().await {
        all.extend(finished(done));
    }
    if !run.over() {
        record.end = Some(run.now());
    }
    lock(&pool).give_back(user);
    all.push(Life { user, visit: Some(record), ..Life::default() });
    all
}

/// A life that panicked would be missing from the table: better none at all.
pub(super) fn finished<T>(done: Result<T, tokio::task::JoinError>) -> T {
    done.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))
}

fn lock(pool: &Mutex<Pool>) -> std::sync::MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_round_and_the_free_first() {
        let mut pool = Pool::new(10, 3);
        assert_eq!([pool.take(), pool.take(), pool.take()], [10, 11, 12]);
        pool.give_back(11);
        assert_eq!(pool.take(), 11, "the only one nobody has");
        assert_eq!([pool.take(), pool.take()], [12, 10], "all are taken: in turn");
        pool.give_back(10);
        pool.give_back(12);
        assert_eq!(pool.take(), 11, "two each at 10 and 12 before, one each now; 11 is next in turn");
    }
}
