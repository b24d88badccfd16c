//! Page loads, as browsers do them: the document first, because it names the others, then all others side by side: over
//! several connections with HTTP/1.1, over the one with HTTP/2 and HTTP/3. Connections are new for each page.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_scenario::Http;
use tokio::task::JoinSet;

use super::connection::{Arrivals, Ear};
use super::http::Client;
use super::load::{Life, RETRY, Run, object_end, pause};
use super::record::{ConnectRecord, PageRecord, PartRecord};
use super::visits::{Visitor, finished};
use crate::scenario::PageLaw;

/// One user who loads pages.
pub(super) struct Reader {
    pub(super) visitor: Visitor,
    pub(super) http: Http,
    /// Parallel connections of HTTP/1.1.
    pub(super) connections: u32,
    /// Mean pause between pages.
    pub(super) think: f64,
    /// Number of pages after which the user leaves; `None` for a permanent user.
    pub(super) most: Option<u32>,
}

/// One page load.
struct Load {
    run: Arc<Run>,
    visitor: Visitor,
    http: Http,
    /// Objects still to be requested: number and size.
    left: Mutex<VecDeque<(usize, u32)>>,
    page: Mutex<PageRecord>,
    life: Mutex<Life>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A user's pages, one after another.
pub(super) async fn pages(run: Arc<Run>, reader: Reader, law: PageLaw, mut rng: fastrand::Rng) -> Life {
    let Visitor { user, person } = reader.visitor;
    let mut life = Life { user, ..Life::default() };
    if reader.most.is_none() {
        pause(&run, rng.f64() * run.spec.jitter).await;
    }
    while !run.over() {
        let sizes = law.draw(&mut || rng.f64());
        let start = run.now();
        run.patience.begin(person, start);
        let load = Arc::new(Load {
            run: run.clone(),
            visitor: reader.visitor,
            http: reader.http,
            left: Mutex::new(sizes.iter().copied().enumerate().collect()),
            page: Mutex::new(PageRecord::of(reader.visitor.user, person, start, &sizes)),
            life: Mutex::new(std::mem::take(&mut life)),
        });
        let whole = tokio::time::timeout_at(run.end, load.clone().all(reader.connections)).await;
        let mut page = std::mem::take(&mut *lock(&load.page));
        life = std::mem::take(&mut *lock(&load.life));
        page.end = object_end(&run);
        let end = page.end;
        page.parts.iter_mut().filter(|part| part.done.is_none()).for_each(|part| part.hear(end));
        run.patience.end(person, page.end);
        page.broken = matches!(whole, Ok(Err(_)));
        if let Ok(Ok(())) = whole {
            page.done = Some(page.end);
        }
        life.pages.push(page);
        if reader.most.is_some_and(|most| life.pages.len() >= most as usize) {
            break;
        }
        if reader.think > 0.0 {
            pause(&run, -reader.think * (1.0 - rng.f64()).ln()).await;
        }
    }
    life
}

impl Load {
    /// Loads the whole page.
    async fn all(self: Arc<Self>, connections: u32) -> anyhow::Result<()> {
        let (at, mut client) = self.connect().await;
        self.next(at, &mut client).await?;
        let left = lock(&self.left).len();
        let mut tasks = JoinSet::new();
        if self.http == Http::One {
            for _ in 1..left.min(connections as usize) {
                let load = self.clone();
                tasks.spawn(async move {
                    let (at, mut client) = load.connect().await;
                    load.rest(at, &mut client).await
                });
            }
            self.rest(at, &mut client).await?;
        } else {
            for _ in 0..left {
                let (load, mut client) = (self.clone(), client.clone());
                tasks.spawn(async move { load.next(at, &mut client).await });
            }
        }
        while let Some(done) = tasks.join_next().await {
            finished(done)?;
        }
        Ok(())
    }

    /// Makes a connection and returns its number; tries again until a connection is established.
    async fn connect(self: &Arc<Self>) -> (usize, Client) {
        loop {
            let at = {
                let mut page = lock(&self.page);
                page.connects.push(ConnectRecord { start: self.run.now(), ..ConnectRecord::default() });
                page.connects.len() - 1
            };
            let load = self.clone();
            let ear = Arc::new(Ear::new(move |at| {
                load.run.patience.arrival(load.visitor.person, load.run.at(at));
            }));
            let arrivals = Arrivals::told_to(ear.clone());
            if let Ok(client) = Client::connect(&self.run.ways, self.visitor.user, self.http, &arrivals).await
            {
                lock(&self.page).connects[at].connected = Some(self.run.now());
                // The server's part of the handshake is no payload.
                ear.listen();
                return (at, client);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Objects one after another until none is left.
    async fn rest(&self, at: usize, client: &mut Client) -> anyhow::Result<()> {
        while !lock(&self.left).is_empty() {
            self.next(at, client).await?;
        }
        Ok(())
    }

    /// The next object, over connection number `at`.
    async fn next(&self, at: usize, client: &mut Client) -> anyhow::Result<()> {
        let Some((number, size)) = lock(&self.left).pop_front() else { return Ok(()) };
        {
            let mut page = lock(&self.page);
            // Whoever waits for the document has waited since the page began.
            let since = if number == 0 { page.start } else { self.run.now() };
            page.parts[number].start = Some(self.run.now());
            page.parts[number].waits = Some(since);
        }
        client.get(&format!("/{size}"), |n| self.came(at, number, n)).await?;
        lock(&self.page).parts[number].done = Some(self.run.now());
        self.run.objects.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn came(&self, at: usize, number: usize, n: usize) {
        let now = self.run.now();
        self.run.patience.arrival(self.visitor.person, now);
        lock(&self.life).receive(&self.run, now, n);
        let mut page = lock(&self.page);
        page.first_byte.get_or_insert(now);
        page.connects[at].got += n as u64;
        page.parts[number].hear(now);
    }
}

impl PageRecord {
    /// A page that begins.
    fn of(user: u32, visitor: u32, start: f64, sizes: &[u32]) -> Self {
        let parts = sizes.iter().map(|size| PartRecord { size: *size, ..PartRecord::default() }).collect();
        Self { user, visitor, start, parts, ..Self::default() }
    }
}
