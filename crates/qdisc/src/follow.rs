//! A shaper that finds the rate of its link and follows it: the box before a modem whose rate nobody knows.
//!
//! Whose idea: pacing by acknowledgments is Jacobson's (SIGCOMM 1988); a window of what the path delivers in its
//! shortest round trip is BBR's (Cardwell et al., ACM Queue 14(5), 2016), a small standing queue Vegas's (Brakmo and
//! Peterson, JSAC 1995), a cautious forecast Sprout's (Winstein, Sivaraman and Balakrishnan, NSDI 2013). Where this
//! differs: it is for all flows together, and belongs to the box. It needs no packet of its own: what tells is what the
//! users' flows acknowledge ([`echoes`]).
//!
//! Units: bytes on the link, the unit of steps is the time the link takes for 1500 B. Floats decide here, as in
//! senders' congestion controls; they are the same on all machines with IEEE 754, and `mul_add` is not used.

mod config;
mod control;
mod distances;
mod echoes;
mod link_rate;
mod phase;
#[cfg(test)]
mod tests;

use core::any::Any;
use core::marker::PhantomData;

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::FlowKey;

pub use config::{FollowConfig, Idea};
use control::Control;
use echoes::Echoes;
pub use link_rate::LinkRate;
pub use phase::FollowPhase;

use crate::{
    Ahead, Backlog, Discipline, Manage, Packet, Qdisc, Report, ReversePath, ShaperConfig, Spec, Verdicts,
};

/// The discipline is told of a rate that differs by so much, in hundredths, and no sooner than this after the last.
const DIFFERS: u64 = 10;
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// What a shaper thinks of its link, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowReport {
    /// What the link carries; bit/s.
    pub rate_bps: u64,
    /// What bounds what leaves.
    pub phase: FollowPhase,
    /// The shortest round trip behind the box, if one was seen.
    pub base: Option<Duration>,
    /// How much longer the last took.
    pub late: Duration,
    /// Bytes under way, and how many may be.
    pub in_flight: u64,
    /// Bytes that may be under way.
    pub window: u64,
    /// Packets that left again.
    pub lost: u64,
}

/// A discipline before a link whose rate is followed.
#[derive(Debug)]
pub struct Follow<P, Q> {
    link: ShaperConfig,
    spec: Spec,
    inner: Q,
    control: Control,
    echoes: Echoes,
    /// What the discipline was told of the rate, and when.
    told: Rate,
    told_at: Instant,
    packets: PhantomData<fn(P)>,
}

impl<P, Q> Follow<P, Q> {
    /// `inner`, which is one of `spec`, behind a controller. The rate of `link` is what it is told at first.
    #[must_use]
    pub fn new(config: FollowConfig, link: ShaperConfig, spec: Spec, inner: Q, seed: u64) -> Self {
        Self {
            told: link.rate,
            told_at: Instant::ZERO,
            link,
            spec,
            inner,
            control: Control::new(config),
            echoes: Echoes::new(seed),
            packets: PhantomData,
        }
    }

    /// The discipline inside.
    pub const fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }

    /// Gives the discipline back, with all that waits in it.
    #[must_use]
    pub fn into_inner(self) -> Q {
        self.inner
    }
}

impl<P: Packet, Q: Discipline<P>> Follow<P, Q> {
    /// Other settings for the controller and the discipline, and another link but for its rate. `false` if it takes
    /// another discipline: then nothing has changed.
    pub fn adopt(&mut self, now: Instant, config: FollowConfig, spec: &Spec, link: &ShaperConfig) -> bool {
        let told = self.told.clamp(config.floor(), config.ceiling());
        let link = ShaperConfig { rate: told, ..*link };
        let kept = self.inner.reconfigure(now, spec.settings(), &link);
        if kept {
            (self.link, self.told, self.spec) = (link, told, spec.clone());
            self.control.reconfigure(config);
        }
        kept
    }

    /// What it thinks.
    #[must_use]
    pub fn belief(&self, now: Instant) -> FollowReport {
        FollowReport {
            rate_bps: self.control.told_rate().as_bps(),
            phase: self.control.phase(
                now,
                self.inner.backlog().packets > 0,
                self.echoes.oldest(self.control.written_off()),
            ),
            base: self.control.base(),
            late: self.control.late(),
            in_flight: self.control.in_flight(),
            window: self.control.window(),
            lost: self.control.lost,
        }
    }

    /// Bytes of a full packet: what has to fit before anything leaves.
    fn largest(&self) -> u64 {
        self.link.largest().get()
    }

    fn ready(&self, now: Instant) -> Instant {
        self.control.ready(now, self.largest(), self.echoes.oldest(self.control.written_off()))
    }

    /// Tells the discipline of another rate.
    fn tell(&mut self, now: Instant) {
        let (rate, known) = (self.control.told_rate().as_bps(), self.told.as_bps());
        if now.since(self.told_at) < TOLD_EVERY || rate.abs_diff(known) * 100 <= known * DIFFERS {
            return;
        }
        self.told_at = now;
        self.told = Rate::from_bps(rate);
        let link = ShaperConfig { rate: self.told, ..self.link };
        let _ = self.inner.reconfigure(now, self.spec.settings(), &link);
    }
}

impl<P: Packet, Q: Discipline<P>> Qdisc<P> for Follow<P, Q> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.inner.coming(flow, ahead);
    }

    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        if self.inner.backlog().packets == 0 {
            self.control.idles(now);
        }
        self.inner.enqueue(now, packet, verdicts);
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if self.inner.backlog().packets == 0 || self.ready(now) > now {
            return None;
        }
        let oldest = self.echoes.oldest(self.control.written_off());
        let before = self.control.written_off();
        if let Some(total) = self.control.gives_up(now, self.largest(), oldest) {
            self.echoes.pass(total);
        }
        let written_off = self.control.written_off();
        if written_off != before {
            self.control.all_due(self.echoes.due(written_off));
        }
        let Some(packet) = self.inner.dequeue(now, verdicts) else {
            self.control.idles(now);
            return None;
        };
        let bytes = self.link.wire_len(packet.len()).get();
        let alone = self.control.in_flight() == 0;
        let again = self.echoes.departs(now, packet.header(), bytes, alone);
        self.control.lost += u64::from(again);
        self.control.departs(now, bytes, self.inner.backlog().packets > 0);
        if let Some(due) = self.echoes.last_due() {
            self.control.due(due);
        }
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        let inner = self.inner.next_ready(now)?;
        let at = self.ready(now);
        (at < Instant::FAR_FUTURE).then(|| at.max(inner))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

impl<P: Packet, Q: Discipline<P>> ReversePath<P> for Follow<P, Q> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        if let Some(echo) = self.echoes.returns(packet.header()) {
            self.control.echo(now, echo);
            self.control.all_due(self.echoes.due(self.control.written_off()));
            self.tell(now);
        }
        match self.inner.reverse_path_mut() {
            Some(path) => path.reverse(now, packet, verdicts),
            None => Some(packet),
        }
    }

    fn behind_others(&mut self) {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.behind_others();
        }
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        self.inner.reverse_path_mut()?.release(now, verdicts)
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        self.inner.reverse_path()?.next_release(now)
    }

    fn held(&self) -> usize {
        self.inner.reverse_path().map_or(0, ReversePath::held)
    }

    fn release_all(&mut self, now: Instant) {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.release_all(now);
        }
    }
}

impl<P: Packet, Q: Discipline<P>> Manage for Follow<P, Q> {
    fn report(&mut self, now: Instant) -> Report {
        Report { follows: Some(self.belief(now)), ..self.inner.report(now) }
    }

    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let link = ShaperConfig { rate: self.told, ..*link };
        let kept = self.inner.reconfigure(now, settings, &link);
        if kept {
            self.link = link;
        }
        kept
    }

    crate::forward!(inner: export, import, set_circuit_rates);
}

impl<P: Packet, Q: Discipline<P>> Discipline<P> for Follow<P, Q> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}
