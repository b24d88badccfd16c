//! An open loop: users come by a Poisson process, fetch, and go, whatever became of those before them.

use std::sync::{Arc, Mutex, PoisonError};

use narrows_scenario::Addresses;
use tokio::task::JoinSet;

use super::load::{Life, Run, pause};
use super::record::VisitRecord;
use super::user::rng;
use crate::scenario::Visits;

/// Addresses and arrivals of a group whose users come and go.
pub(super) struct Open {
    /// The group's first address.
    pub(super) first: u32,
    /// Number of addresses of the group.
    pub(super) users: u32,
    pub(super) visits: Visits,
}

/// A user who has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    /// Number of the user's address.
    pub(super) user: u32,
    /// Number among all persons of the run.
    pub(super) person: u32,
}

/// Lets users come until the end of the run, each with the lives that `live` starts, and waits for all.
pub(super) async fn come<F>(run: Arc<Run>, open: Open, live: F) -> Vec<Life>
where
    F: Fn(&mut JoinSet<Vec<Life>>, &Arc<Run>, Visitor, u64),
{
    let addresses = Arc::new(Mutex::new(Addresses::new(open.users)));
    let mut draws = rng(run.spec.seed, open.first, u32::MAX);
    let (mut here, mut all) = (JoinSet::new(), Vec::new());
    let mut came = 0;
    while open.visits.most.is_none_or(|most| came < most) {
        pause(&run, -(1.0 - draws.f64()).ln() / open.visits.arrivals).await;
        if run.over() {
            break;
        }
        came += 1;
        let user = open.first + lock(&addresses).take();
        let visitor = Visitor { user, person: run.patience.add(user) };
        let mut lives = JoinSet::new();
        live(&mut lives, &run, visitor, draws.u64(..));
        let gone = {
            let (addresses, first) = (addresses.clone(), open.first);
            move || lock(&addresses).give_back(user - first)
        };
        here.spawn(visit(run.clone(), visitor, lives, gone));
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
    gone: impl FnOnce() + Send,
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
    gone();
    all.push(Life { user, visit: Some(record), ..Life::default() });
    all
}

/// A life that panicked would be missing from the table: better none at all.
pub(super) fn finished<T>(done: Result<T, tokio::task::JoinError>) -> T {
    done.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))
}

fn lock(addresses: &Mutex<Addresses>) -> std::sync::MutexGuard<'_, Addresses> {
    addresses.lock().unwrap_or_else(PoisonError::into_inner)
}
