//! Losses known by time (RACK) and probes for lost tails (TLP): RFC 8985.
//!
//! A segment is lost if one that was sent after it has arrived, and it has not within a round trip and a reordering
//! window. The RFC keeps segments in the order in which they were sent. Here, those sent once are in that order
//! anyway, and copies wait in a queue of their own, so no ACK walks over the window.
//!
//! Where we differ: of the segments that one ACK reports, only the one sent last is looked at, even if it is a copy
//! that proves unneeded; whether the original of a copy has arrived instead is told by its age alone, because behind a
//! hole timestamps are old (as in Linux); min_RTT is that of the whole connection; the reordering timer expires for
//! each segment in turn, not once for all. What the RFC leaves open, RACK.rtt of an ACK that reports several segments
//! and how exact timers are, we do as Linux does.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::extras::with_cc;
use super::frto::Before;
use super::scoreboard::{Delivered, FIN, RackDelivered};
use super::{Context, RecoveryPhase, Sender, Timer};
use crate::cc::CongestionControl;
use crate::startup::Startup;
use crate::{Config, Io, PrrBound, ReduceFrom, RestartTimer, TcpEvent};

/// Recoveries for which a widened reordering window is kept (section 6.2, step 4).
const PERSIST: u8 = 16;
/// The longest delay of an ACK that the probe of a single segment allows for (`TLP.max_ack_delay`, section 7.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// The probe time-out without an RTT sample (section 7.2).
const FIRST_PTO: Duration = Duration::from_secs(1);

/// How late the reordering timer is: timers of an operating system are coarse (`TCP_TIMEOUT_MIN` of Linux).
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// When which offset was sent again.
type Copies = VecDeque<(Instant, u64)>;

/// The state of both, with the names of sections 5.2 and 7.1.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Of the segments that have arrived, the one sent last: when, and its end (`RACK.xmit_ts`, `RACK.end_seq`).
    newest: (Instant, u64),
    rtt: Duration,
    min_rtt: Duration,
    /// The highest end of what has arrived.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// Duplicates that are reported before this offset is acknowledged belong to one round; 0 for none.
    dsack_round: u64,
    /// Whether the last ACK came during fast recovery.
    recovering: bool,
    /// What was sent again, in that order. Some of it may not matter any more. Made when it is needed.
    copies: Option<Box<Copies>>,
    /// snd_una and snd_max when the probe's timer was set.
    probe_for: (u64, u64),
    /// `TLP.end_seq`; 0 for none.
    probe_end: u64,
    /// `TLP.is_retrans`.
    probe_is_copy: bool,
    /// There was an RTT sample since the last probe.
    sampled: bool,
    /// The last look has found a repair that is lost too.
    pub(super) lost_copy: bool,
    /// What F-RTO may restore.
    pub(super) before: Option<Before>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: (Instant::ZERO, 0),
            rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            fack: 0,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: 0,
            recovering: false,
            copies: None,
            probe_for: (0, 0),
            probe_end: 0,
            probe_is_copy: false,
            sampled: false,
            lost_copy: false,
            before: None,
        }
    }
}

impl Rack {
    /// A probe is not answered yet.
    pub(super) const fn is_probed(&self) -> bool {
        self.probe_end != 0
    }

    /// The segment at `offset` is sent again.
    pub(super) fn on_copy(&mut self, now: Instant, offset: u64) {
        self.copies.get_or_insert_default().push_back((now, offset));
    }

    /// Steps 1 to 3 of section 6.2: what has arrived, and whether out of order.
    fn update(&mut self, now: Instant, delivered: &RackDelivered) {
        if delivered.lowest_sent_once.is_some_and(|end| end < self.fack) {
            self.reordering_seen = true;
        }
        self.fack = self.fack.max(delivered.highest);
        let Some((sent, end, again)) = delivered.newest else { return };
        let rtt = now.since(sent);
        if again && rtt < self.min_rtt {
            // The original has arrived instead.
            return;
        }
        self.sampled = true;
        self.min_rtt = self.min_rtt.min(rtt);
        // Linux looks at SACKed segments first, then at those acknowledged cumulatively, and each sets the RTT. So it
        // is that of a segment whose acknowledgment was delayed, if there is one.
        self.rtt = delivered.last_cumulative.map_or(rtt, |sent| now.since(sent));
        self.newest = self.newest.max((sent, end));
    }

    /// Step 4 of section 6.2: a duplicate that the receiver reports was sent too early, so the window widens for a
    /// while.
    fn adapt(&mut self, una: u64, max: u64, dsack: bool, recovering: bool) {
        if self.dsack_round != 0 && una >= self.dsack_round {
            self.dsack_round = 0;
        }
        if dsack && self.dsack_round == 0 {
            self.dsack_round = max;
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = PERSIST;
        } else if self.recovering && !recovering {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
        self.recovering = recovering;
    }

    /// Section 7.4.2: `ack` is acknowledged now, `una` was before. Returns whether a probe has repaired a loss:
    /// everything up to its end has arrived, and no duplicate was reported.
    fn take_probe_answer(&mut self, tcp: &TcpHeader, una: u64, ack: u64, of_probe: bool) -> bool {
        if self.probe_end == 0 || ack < self.probe_end {
            return false;
        }
        let repaired = self.probe_is_copy && !of_probe && ack > self.probe_end;
        let duplicate = ack == una && tcp.is_pure_ack() && tcp.sack.as_slice().is_empty();
        if !self.probe_is_copy || of_probe || duplicate || repaired {
            self.probe_end = 0;
        }
        repaired
    }

    /// The reordering window (`RACK_update_reo_wnd`). `urgent`: in recovery, or as many segments SACKed as show a loss.
    fn reo_wnd(&self, srtt: Duration, urgent: bool) -> Duration {
        if urgent && !self.reordering_seen || self.min_rtt == Duration::MAX {
            return Duration::ZERO;
        }
        (self.min_rtt * u64::from(self.reo_wnd_mult) / 4).min(srtt)
    }
}

/// The duplicate that an ACK reports: a first block below what it acknowledges, or within its second block (RFC 2883,
/// section 4).
fn dsack_of(tcp: &TcpHeader) -> Option<(SeqNum, SeqNum)> {
    let blocks = tcp.sack.as_slice();
    let &(left, right) = blocks.first()?;
    let within = blocks.get(1).is_some_and(|b| b.0.at_or_before(left) && right.at_or_before(b.1));
    (right.at_or_before(tcp.ack) || within).then_some((left, right))
}

impl Sender {
    /// An ACK came; snd_una was `una` before it. Marks what is lost by now.
    pub(super) fn rack_on_ack<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        tcp: &TcpHeader,
        una: u64,
        delivered: &Delivered,
    ) {
        let Some(mut rack) = self.extras.as_mut().and_then(|extras| extras.rack.take()) else { return };
        if let Some(delivered) = &delivered.rack {
            rack.update(cx.now, delivered);
        }
        let dsack = dsack_of(tcp);
        let of_probe = dsack.is_some_and(|d| rack.probe_end != 0 && d.1 == self.seq(rack.probe_end));
        // A probe is not sent because of reordering.
        let (ack, max) = (self.board.una(), self.board.max());
        rack.adapt(ack, max, dsack.is_some() && !of_probe, self.loss.is_recovering());
        if rack.take_probe_answer(tcp, una, ack, of_probe) && self.loss.is_open() {
            // What was outstanding before this ACK counts.
            let acked = match cx.config.reduce_from {
                ReduceFrom::FlightSize => f64::from(delivered.segments),
                ReduceFrom::Cwnd => 0.0,
            };
            let base = self.reduction_base(cx.config) + acked;
            self.reduce_once(cx, base);
        }
        self.mark_lost_by_time(cx, &mut rack);
        self.put_back(rack);
    }

    #[inline(always)]
    fn put_back(&mut self, rack: Box<Rack>) {
        if let Some(extras) = &mut self.extras {
            debug_assert!(extras.rack.is_none());
            extras.rack = Some(rack);
        }
    }

    /// For how long a segment is waited for after it was sent; `None` without RACK.
    pub(super) fn rack_patience(&self, config: &Config) -> Option<Duration> {
        self.rack().map(|rack| self.patience(config, rack))
    }

    fn patience(&self, config: &Config, rack: &Rack) -> Duration {
        let urgent = !self.loss.is_open() || self.board.sacked() >= config.dupthresh;
        rack.rtt + rack.reo_wnd(self.srtt(config), urgent)
    }

    /// Step 5 of section 6.2.
    fn mark_lost_by_time<I: Io>(&mut self, cx: &Context<'_, I>, rack: &mut Rack) {
        rack.lost_copy = false;
        let patience = self.patience(cx.config, rack);
        let mut waits = self.board.mark_lost_by_time(rack.newest, cx.now, patience);
        while let Some(copies) = &mut rack.copies
            && let Some(&(sent, offset)) = copies.front()
        {
            let Some((at, end)) = self.board.copy(offset, sent) else {
                copies.pop_front();
                continue;
            };
            if (sent, end) >= rack.newest {
                break;
            }
            if sent + patience > cx.now {
                waits = Some(waits.map_or(sent, |first| first.min(sent)));
                break;
            }
            self.board.mark_copy_lost(at);
            rack.lost_copy = true;
            copies.pop_front();
        }
        let waited = self.is_timer_set(Timer::Reorder);
        let at = waits.map_or(Instant::FAR_FUTURE, |sent| sent + patience + TIMER_SLACK);
        self.set_timer(Timer::Reorder, at);
        if waited || waits.is_some() {
            self.count_rto_from_first(cx);
        }
    }

    /// Reduces the window for a loss that is repaired already.
    fn reduce_once<I: Io>(&mut self, cx: &Context<'_, I>, base: f64) {
        with_cc(&mut self.extras, |cc| cc.on_loss(&mut self.window, cx.config, cx.now, base));
        if let Some(extras) = &mut self.extras {
            extras.startup.on_loss();
        }
        self.window.cwnd = self.round_ssthresh(cx.config);
    }

    /// The reordering timer or the probe's has expired.
    pub(crate) fn on_rack_timer<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let Some(mut rack) = self.extras.as_mut().and_then(|extras| extras.rack.take()) else { return };
        let probe = self.is_due(Timer::Probe, cx.now);
        if self.is_due(Timer::Reorder, cx.now) {
            let pending = self.board.pending();
            self.mark_lost_by_time(cx, &mut rack);
            rack.lost_copy |= self.board.pending() > pending;
        }
        self.put_back(rack);
        // In Linux the first retransmission leaves as if an ACK had delivered a segment, so the next ACK lets out
        // another one.
        let begins = (self.loss.is_open() || self.reopens(cx)) && self.board.pending() > 0;
        self.on_delivered(cx, u32::from(begins), cx.config.prr == PrrBound::SlowStart);
        if probe {
            self.send_probe(cx);
        }
    }

    /// Section 7.3: sends new data, if there is any, or else the last segment again; then the retransmission timer
    /// restarts.
    fn send_probe<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.stop_timer(Timer::Probe);
        // Linux does not ask whether the sample is newer than the last probe.
        let linux = cx.config.restart_timer == RestartTimer::Linux && self.srtt(cx.config) > Duration::ZERO;
        let sampled = linux || self.rack().is_some_and(|rack| rack.sampled);
        if !self.loss.is_open() || self.board.is_empty() || !sampled {
            return;
        }
        let unsent = self.unsent();
        let len = unsent.min(u64::from(self.peer.mss));
        let fits = self.board.max() + len <= self.board.una() + u64::from(self.peer.window);
        let copy = unsent == 0 || !fits;
        cx.io.event(TcpEvent::TailProbe);
        if copy {
            let last = self.board.len() as usize - 1;
            self.resend(cx, last);
        } else {
            self.send_new(cx, len as u16, if len == unsent && self.closing { FIN } else { 0 });
        }
        let max = self.board.max();
        if let Some(rack) = self.rack_mut() {
            rack.probe_end = max;
            rack.probe_is_copy = copy;
            rack.sampled = false;
        }
        self.restart_rto(cx);
    }

    /// Section 7.2: the probe's timer starts anew whenever something was sent or acknowledged and nothing hints at a
    /// loss.
    pub(super) fn schedule_probe<I: Io>(&mut self, cx: &Context<'_, I>) {
        let flight = self.board.outstanding();
        let span = (self.board.una(), self.board.max());
        let idle = !self.is_calm() || flight == 0 || span.0 == 0 || !self.is_timer_set(Timer::Retransmit);
        let is_loss = self.loss.phase == RecoveryPhase::Loss;
        let Some(rack) = self.rack_mut() else { return };
        if is_loss {
            rack.probe_end = 0;
        }
        if idle || rack.probe_end != 0 {
            rack.probe_for = (0, 0);
            if self.is_timer_set(Timer::Probe) {
                self.stop_timer(Timer::Probe);
                self.count_rto_from_first(cx);
            }
        } else if rack.probe_for != span {
            rack.probe_for = span;
            let pto = self.probe_timeout(cx.config, flight);
            self.set_timer(Timer::Probe, self.probe_at(cx, pto));
        }
    }

    /// `TLP_calc_PTO`.
    pub(super) fn probe_timeout(&self, config: &Config, flight: u32) -> Duration {
        let srtt = self.srtt(config);
        if srtt == Duration::ZERO {
            return FIRST_PTO;
        }
        srtt * 2 + if flight == 1 { MAX_ACK_DELAY } else { Duration::ZERO }
    }
}
