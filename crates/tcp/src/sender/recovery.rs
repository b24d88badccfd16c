//! How losses are found and repaired: by duplicate ACKs, by time, and by timers that expire.
//!
//! RFC 5681 (Reno; Tahoe is its slow start after a fast retransmit), RFC 6582 (NewReno), RFC 6675 (SACK), RFC 9937
//! (proportional rate reduction), RFC 3168 (ECN). Where we differ: the inflation of the window by duplicate ACKs is
//! kept apart from cwnd. Without SACK, the ACK that ends a recovery opens the window like any other, as in 4.4BSD and
//! ns-2. RFC 6675's rescue retransmission is not sent for a segment whose second copy is still outstanding.
//!
//! RFC 8985: losses known by time (RACK) and probes for lost tails (TLP). A segment is lost if one that was sent after
//! it has arrived, and it has not within a round trip and a reordering window. The RFC keeps segments in the order in
//! which they were sent. Here, those sent once are in that order anyway, and copies wait in a queue of their own, so no
//! ACK walks over the window. Where we differ: of the segments that one ACK reports, only the one sent last is looked
//! at, even if it is a copy that proves unneeded; whether the original of a copy has arrived instead is told by its age
//! alone, because behind a hole timestamps are old (as in Linux); min_RTT is that of the whole connection; the
//! reordering timer expires for each segment in turn, not once for all. What the RFC leaves open, RACK.rtt of an ACK
//! that reports several segments and how exact timers are, we do as Linux does.
//!
//! RFC 6298, section 5: the retransmission timer, which also sends SYNs again and probes a closed window. Linux has a
//! single timer for retransmission, reordering and probes ([`RestartTimer::Linux`]), so where another one ran or was to
//! run, it counts from when the first segment was last sent. Whether a time-out was needed is told by F-RTO with SACK
//! (RFC 5682, section 3) and Eifel (RFC 3522), as Linux has them ([`RtoRecovery::Frto`]); if not, what it did to the
//! window is undone.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::extras::with_cc;
use super::loss::Prr;
use super::output::Room;
use super::scoreboard::{Delivered, FIN, Newest, RETRANS, RackDelivered};
use super::{Context, LossPhase, Sender, Timer};
use crate::cc::{CongestionControl, Window};
use crate::receiver::timestamp;
use crate::startup::Startup;
use crate::{Config, Handshake, Io, PrrBound, Recovery, ReduceFrom, RestartTimer, RtoRecovery, TcpEvent};

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
    /// Time and end of the segment sent last of those that have arrived (`RACK.xmit_ts`, `RACK.end_seq`).
    newest: Newest,
    rtt: Duration,
    min_rtt: Duration,
    /// The highest end of what has arrived.
    fack: u64,
    reordering_seen: bool,
    /// Bytes by which the most reordered segment came too late.
    extent: u32,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// Duplicates that are reported before this offset is acknowledged belong to one round; 0 for none.
    dsack_round: u64,
    /// Whether the last ACK came during fast recovery.
    recovering: bool,
    /// Copies in the order in which they were sent. Some may not matter any more. Made when it is needed.
    copies: Option<Box<Copies>>,
    /// snd_una and snd_max when the probe's timer was set.
    probe_for: (u64, u64),
    /// `TLP.end_seq`; 0 for none.
    probe_end: u64,
    /// `TLP.is_retrans`.
    probe_is_copy: bool,
    /// Whether an RTT sample came since the last probe.
    sampled: bool,
    /// Whether the last look has found a repair that is lost too.
    pub(super) lost_copy: bool,
    /// State that F-RTO may restore.
    pub(super) before: Option<Before>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: Newest { sent: Instant::ZERO, end: 0 },
            rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            fack: 0,
            reordering_seen: false,
            extent: 0,
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
    /// Bytes by which the most reordered segment came too late; 0 if none did.
    pub(super) const fn extent(&self) -> u32 {
        self.extent
    }

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
            let extent = u32::try_from(self.fack - delivered.lowest_begin).unwrap_or(u32::MAX);
            self.extent = self.extent.max(extent);
        }
        self.fack = self.fack.max(delivered.highest);
        let Some(newest) = delivered.newest else { return };
        let rtt = now.since(newest.sent);
        if delivered.newest_again && rtt < self.min_rtt {
            // The original has arrived instead.
            return;
        }
        self.sampled = true;
        self.min_rtt = self.min_rtt.min(rtt);
        // Linux looks at SACKed segments first, then at those acknowledged cumulatively, and each sets the RTT. So it
        // is that of a segment whose acknowledgment was delayed, if there is one.
        self.rtt = delivered.last_cumulative.map_or(rtt, |sent| now.since(sent));
        self.newest = self.newest.max(newest);
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

/// State before a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    window: Window,
    /// Time at which the first retransmission of the recovery left.
    at: Instant,
    /// Whether no answer has shown yet if the time-out was needed.
    open: bool,
    /// Whether new data may leave before what counts as lost (step 2b).
    new_first: bool,
}

/// An acknowledgment after a time-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    pub(super) tcp: &'a TcpHeader,
    /// Whether the ACK acknowledges new data cumulatively.
    pub(super) advances: bool,
    /// Whether the ACK SACKs new data.
    pub(super) sacks: bool,
}

/// Answers to duplicate ACKs, partial ACKs and echoes of congestion.
impl Sender {
    /// A duplicate ACK came.
    pub(super) fn on_duplicate<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let sack = cx.recovery() == Recovery::Sack;
        match self.loss.phase {
            // After a time-out duplicate ACKs come from copies, not from losses (RFC 6582, section 4). A sender that
            // goes back counts them for limited transmit; ns-2's Sack1 does so only from the first new ACK on.
            LossPhase::Loss => {
                let go_back = cx.config.rto_recovery == RtoRecovery::GoBackN;
                let counts = go_back && !(sack && self.rto.retries() > 0);
                self.loss.dupacks = self.loss.dupacks.saturating_add(u16::from(counts));
            }
            LossPhase::Open => {
                self.loss.dupacks = self.loss.dupacks.saturating_add(1);
                let enough = u32::from(self.loss.dupacks) >= cx.config.dupthresh;
                if !sack && enough && self.loss.may_begin(cx.recovery(), self.board.una()) {
                    self.begin_recovery(cx);
                }
            }
            // With SACK the pipe says the same more exactly.
            LossPhase::Recovery if sack => {}
            LossPhase::Recovery => self.set_inflation(self.inflation() + 1),
        }
    }

    /// Takes `delivered` segments as delivered, with SACK. A loss may be known now, or fewer segments be in the
    /// network. For `safe` see [`Prr::on_delivered`].
    #[inline(always)]
    pub(super) fn on_delivered<I: Io>(&mut self, cx: &mut Context<'_, I>, delivered: u32, safe: bool) {
        // DupAcks >= DupThresh or IsLost(HighACK + 1) (RFC 6675, section 5).
        let enough = u32::from(self.loss.dupacks) >= cx.config.dupthresh && !cx.has_rack_tlp();
        if self.board.pending() > 0 || enough && !self.board.is_empty() {
            let opens = self.loss.is_open() && self.loss.may_begin(cx.recovery(), self.board.una());
            if opens || self.reopens(cx) {
                self.begin_recovery(cx);
            }
        }
        if self.loss.is_recovering()
            && cx.prr().is_on()
            && let Some(extras) = &mut self.extras
        {
            let ssthresh = self.window.ssthresh as u32;
            let cwnd = extras.prr.on_delivered(delivered, self.board.pipe(), ssthresh, safe);
            self.window.cwnd = f64::from(cwnd.max(1));
        }
    }

    /// The number of segments from which ssthresh is computed.
    pub(super) fn reduction_base(&self, config: &Config) -> f64 {
        match config.reduce_from {
            // Segments sent by limited transmit do not count (RFC 3042; RFC 5681, section 3.2).
            ReduceFrom::FlightSize => {
                f64::from(self.board.outstanding().saturating_sub(u32::from(self.loss.limited_sent)))
            }
            ReduceFrom::Cwnd => self.window.cwnd.min(f64::from(self.peer.window / u32::from(self.peer.mss))),
        }
    }

    /// Rounds the ssthresh that congestion control has set down to whole segments, at least 2 (RFC 5681, equation 4).
    /// Returns the cwnd that goes with it: 4.4BSD and its descendants halve cwnd itself, which may fall to one
    /// segment.
    pub(super) fn round_ssthresh(&mut self, config: &Config) -> f64 {
        let share = self.window.ssthresh;
        self.window.ssthresh = f64::max((share as u64) as f64, 2.0);
        match config.reduce_from {
            ReduceFrom::Cwnd if !config.prr.is_on() => share.max(1.0),
            _ => self.window.ssthresh,
        }
    }

    /// Fast retransmit.
    #[cold]
    fn begin_recovery<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let flight_size = self.board.outstanding();
        let base = self.reduction_base(cx.config);
        self.remember(cx);
        with_cc(&mut self.extras, |cc| cc.on_loss(&mut self.window, cx.config, cx.now, base));
        self.tell_loss();
        let cwnd = self.round_ssthresh(cx.config);
        self.loss.begin(self.board.max());
        self.timed.stop();
        cx.counters.fast_retransmits += 1;
        cx.io.event(TcpEvent::FastRetransmit);
        if cx.config.restart_timer == RestartTimer::On {
            self.restart_rto(cx);
        }
        if cx.config.recovery == Recovery::Tahoe {
            self.window.cwnd = 1.0;
            self.loss.phase = LossPhase::Loss;
            self.board.go_back();
            return;
        }
        self.loss.phase = LossPhase::Recovery;
        self.window.cwnd = cwnd;
        if cx.config.recovery == Recovery::Sack {
            if let Some(extras) = &mut self.extras {
                extras.prr = Prr::new(flight_size);
            }
            self.board.reset_high_rxt();
            if self.board.pending() == 0 {
                self.board.mark_first_lost();
            }
            if !cx.prr().is_on() {
                self.resend_next(cx);
            }
        } else {
            self.set_inflation(cx.config.dupthresh);
            self.resend_first(cx);
        }
    }

    /// Everything below `ack`, `acked` segments more, was acknowledged during fast recovery. Returns whether that
    /// ends it.
    pub(super) fn on_recovery_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, ack: u64, acked: u32) -> bool {
        if ack >= self.loss.recover || cx.recovery() == Recovery::Reno {
            self.finish_recovery(cx);
            return true;
        }
        self.loss.partial_seen = true;
        if cx.recovery() == Recovery::NewReno {
            let rest = self.extras.as_mut().map_or(0, |extras| extras.deflate(acked));
            self.window.cwnd = (self.window.cwnd - f64::from(rest)).max(1.0);
            self.resend_first(cx);
        } else if cx.recovery() == Recovery::Sack && cx.config.rto_recovery == RtoRecovery::GoBackN {
            self.answer_partial_ack(cx);
        }
        false
    }

    /// ns-2's Sack1 (`partial_ack_`): two segments answer a partial ACK whatever the pipe says, so that it never does
    /// worse than slow start, and the back-off ends.
    fn answer_partial_ack<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.rto.end_backoff();
        let mut due = 2;
        if !self.board.has(0, RETRANS) {
            self.resend_first(cx);
            due -= 1;
        }
        for _ in 0..due {
            // Below the next hole everything is SACKed or sent again.
            match self.board.next_hole() {
                Some(at) => self.resend(cx, at),
                None => self.output_new(cx, Room { flight: 0, allowed: 1, limited: 0 }),
            };
        }
    }

    fn finish_recovery<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.loss.finish(cx.recovery());
        self.set_inflation(0);
        self.forget_before();
        let sack = cx.recovery() == Recovery::Sack;
        match cx.config.reduce_from {
            _ if sack && cx.config.prr.is_on() => self.window.cwnd = self.window.ssthresh,
            // RFC 6582, section 3.2, step 3, option 1: no burst if little is outstanding. RFC 5681, section 3.2, step 6
            // has no such rule.
            ReduceFrom::FlightSize if cx.recovery() == Recovery::NewReno => {
                let flight = f64::from(self.board.outstanding());
                self.window.cwnd = self.window.ssthresh.min(flight.max(1.0) + 1.0);
            }
            _ => {}
        }
        cx.io.event(TcpEvent::Recovered);
    }

    /// The peer echoes a mark (RFC 3168, section 6.1.2). The echo is answered once per window of data, and not during a
    /// recovery.
    pub(super) fn on_ecn_echo<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        if !self.loss.is_open() {
            return;
        }
        let (una, max) = (self.seq(self.board.una()), self.seq(self.board.max()));
        let base = self.reduction_base(cx.config);
        let Some(extras) = self.extras.as_mut().filter(|extras| !extras.ecn.is_answered(una)) else { return };
        extras.cc.on_ecn(&mut self.window, cx.config, cx.now, base);
        extras.startup.on_loss();
        extras.ecn.answer(max);
        self.window.cwnd = self.round_ssthresh(cx.config);
        cx.io.event(TcpEvent::EcnReduced);
    }
}

/// Losses by time, and tail probes (RFC 8985).
impl Sender {
    /// Marks segments as lost after an ACK; snd_una was `una` before the ACK.
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
            // Segments outstanding before this ACK count.
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

    /// Time for which a segment is waited for after it was sent; `None` without RACK.
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
            if (Newest { sent, end }) >= rack.newest {
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
        // A whole RTO from now on, whatever timer ran instead (section 7.3).
        self.set_timer(Timer::Retransmit, cx.now + self.rto.timeout(&cx.config.rto));
    }

    /// Section 7.2: the probe's timer starts anew whenever something was sent or acknowledged and nothing hints at a
    /// loss.
    pub(super) fn schedule_probe<I: Io>(&mut self, cx: &Context<'_, I>) {
        let flight = self.board.outstanding();
        let span = (self.board.una(), self.board.max());
        let idle = !self.is_calm() || flight == 0 || span.0 == 0 || !self.is_timer_set(Timer::Retransmit);
        let is_loss = self.loss.phase == LossPhase::Loss;
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

/// Expiry of the retransmission timer (RFC 6298, section 5; RFC 5681, section 3.1).
impl Sender {
    /// The retransmission or the persist timer has expired. `false` if the connection is given up.
    pub(crate) fn on_retransmit_timer<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        self.stop_timer(Timer::Retransmit);
        if self.board.is_empty() {
            self.probe_window(cx);
            true
        } else if !self.is_synchronized() && cx.config.handshake == Handshake::ThreeWay {
            self.retry_syn(cx)
        } else {
            self.on_timeout(cx)
        }
    }

    /// Sends the SYN or SYN-ACK again and waits twice as long as the last time.
    fn retry_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.rto.retries() >= cx.config.syn_retries {
            return false;
        }
        self.rto.count_retry();
        cx.counters.count_syn_retry();
        self.timed.stop();
        self.resend_first(cx);
        self.start_syn_timer(cx);
        true
    }

    pub(super) fn start_syn_timer<I: Io>(&mut self, cx: &Context<'_, I>) {
        let timeout = cx.config.syn_timeout * (1 << self.rto.retries().min(16));
        self.set_timer(Timer::Retransmit, cx.now + timeout);
    }

    /// RFC 6298, sections 5.4 to 5.6; RFC 5681, section 3.1.
    fn on_timeout<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.rto.retries() >= cx.config.rto.retries {
            return false;
        }
        self.rto.count_retry();
        cx.counters.timeouts += 1;
        self.rto.back_off(&cx.config.rto);
        cx.counters.note_backoff(self.rto.backoff());
        cx.io.event(TcpEvent::Timeout { backoff: self.rto.backoff() });
        let go_back = cx.config.rto_recovery == RtoRecovery::GoBackN;
        let frto = cx.config.rto_recovery == RtoRecovery::Frto;
        let repeated = self.loss.phase == LossPhase::Loss && self.rto.retries() > 1;
        // Linux has reduced for what was outstanding when the recovery began.
        let reduced = frto && self.loss.is_recovering() && self.board.una() < self.loss.recover;
        // RFC 5682, section 3: not during another recovery, unless the timer has expired for the same data before.
        let doubted = self.loss.is_open() || self.rto.retries() > 1;
        if go_back || !(repeated || reduced) {
            self.remember(cx);
            let base = self.reduction_base(cx.config);
            with_cc(&mut self.extras, |cc| cc.on_rto(&mut self.window, cx.config, cx.now, base));
            self.round_ssthresh(cx.config);
        }
        self.tell_loss();
        self.window.cwnd = 1.0;
        self.timed.stop();
        self.loss.begin_loss(self.board.max());
        self.set_inflation(0);
        self.stop_timer(Timer::Reorder);
        if go_back || cx.config.recovery != Recovery::Sack {
            self.board.go_back();
        } else {
            let (now, patience) = (cx.now, self.rack_patience(cx.config));
            self.board.mark_all_lost(|sent| patience.is_some_and(|patience| sent + patience > now));
            if frto {
                // Segments that RACK still waits for stay in the pipe.
                self.window.cwnd = f64::from(self.board.pipe() + 1);
                self.doubt_timeout(doubted);
            }
            if patience.is_some() {
                // RACK may still wait for it, but the time-out is for the first segment.
                self.resend_first(cx);
            }
        }
        self.restart_rto(cx);
        true
    }

    /// Sends what the peer's window has room for, when nothing is outstanding and the next segment does not fit. If the
    /// window is closed, a byte that the peer has already makes it announce its window again. The interval doubles like
    /// the RTO, and the sender never gives up (RFC 9293, section 3.8.6.1).
    fn probe_window<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let fits = self.usable().min(self.unsent()).min(self.peer.mss.into());
        if fits > 0 {
            return self.send_new(cx, fits as u16, 0);
        }
        self.emit_window_probe(cx);
        self.rto.back_off(&cx.config.rto);
        self.restart_rto(cx);
    }
}

/// Doubts whether a time-out was needed (RFC 5682, section 3; RFC 3522).
impl Sender {
    /// A recovery begins now and reduces the window.
    pub(super) fn remember<I: Io>(&mut self, cx: &Context<'_, I>) {
        let window = self.window;
        if let Some(rack) = self.rack_mut().filter(|_| cx.config.rto_recovery == RtoRecovery::Frto) {
            let at = rack.before.map_or(cx.now, |before| before.at);
            rack.before = Some(Before { window, at, open: false, new_first: false });
        }
    }

    /// The timer has expired, and if `open`, the next answers show whether it should have.
    pub(super) fn doubt_timeout(&mut self, open: bool) {
        if let Some(before) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            (before.open, before.new_first) = (open, false);
        }
    }

    /// Forgets what F-RTO might restore: no doubt is left.
    pub(super) fn forget_before(&mut self) {
        if let Some(rack) = self.rack_mut() {
            rack.before = None;
        }
    }

    /// An acknowledgment came after a time-out and was entered into the scoreboard.
    pub(super) fn judge_timeout(&mut self, answer: Answer<'_>, delivered: &Delivered) {
        let Some(mut before) = self.rack().and_then(|rack| rack.before) else { return };
        if self.loss.phase != LossPhase::Loss {
            return;
        }
        // RFC 3522: the acknowledged segment left before the retransmission did.
        let echo = answer.tcp.timestamps.map(|(_, echo)| SeqNum(echo));
        let early = answer.advances && echo.is_some_and(|echo| echo.before(SeqNum(timestamp(before.at))));
        // Step 3b: something sent once and before the time-out has arrived.
        let original = before.open
            && delivered
                .rack
                .and_then(|rack| rack.lowest_sent_once)
                .is_some_and(|end| end <= self.loss.recover);
        if early || original {
            return self.undo_timeout(&before);
        }
        if before.open && self.board.max() > self.loss.recover {
            // Step 3a: only new data has arrived.
            before.open = !answer.sacks;
        } else if before.open && answer.advances && self.board.una() < self.loss.recover {
            // Step 2b, where there is new data and room for it; else nothing will tell.
            let room = self.board.bytes() < u64::from(self.peer.window);
            before.new_first = self.unsent() > 0 && room;
            before.open = before.new_first;
        }
        if let Some(kept) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            *kept = before;
        }
    }

    fn undo_timeout(&mut self, before: &Before) {
        self.board.unmark_lost();
        self.window.cwnd = self.window.cwnd.max(before.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(before.window.ssthresh);
        self.loss.undo();
        self.rto.reset_retries();
        self.forget_before();
    }

    /// Whether new data may leave before what counts as lost.
    pub(super) fn tries_new_data(&self) -> bool {
        self.rack().and_then(|rack| rack.before.as_ref()).is_some_and(|before| before.new_first)
    }

    /// Ends the trial of new data: all that may leave because of an acknowledgment has left.
    pub(super) fn end_trial(&mut self) {
        let sent = self.board.max() > self.loss.recover;
        if let Some(before) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            before.open &= sent;
            before.new_first = false;
        }
    }

    /// Whether a repair that is lost begins another fast recovery.
    pub(super) fn reopens<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        self.loss.phase == LossPhase::Loss
            && self.has_rack
            && cx.config.rto_recovery == RtoRecovery::Frto
            && self.rack().is_some_and(|rack| rack.lost_copy)
    }
}

/// Duration of the retransmission timer.
impl Sender {
    /// Starts the retransmission timer anew (RFC 6298, section 5); with nothing outstanding, the persist timer.
    #[inline(always)]
    pub(super) fn restart_rto<I: Io>(&mut self, cx: &Context<'_, I>) {
        let at = cx.now + self.rto.timeout(&cx.config.rto);
        if cx.has_linux_timer() {
            return self.restart_linux_timer(cx, at);
        }
        self.set_timer(Timer::Retransmit, at);
    }

    /// Starts the retransmission timer anew, as Linux does; other senders' would expire at `at`.
    fn restart_linux_timer<I: Io>(&mut self, cx: &Context<'_, I>, mut at: Instant) {
        if self.is_timer_set(Timer::Reorder) {
            return self.count_rto_from_first(cx);
        }
        if self.rack().is_some_and(|rack| rack.is_probed()) && self.is_calm() {
            // Another probe is scheduled and does not leave; only then the timer is set.
            let pto = self.probe_timeout(cx.config, self.board.outstanding());
            at = at.min(cx.now + pto).max(self.rto_of_first(cx));
        }
        self.set_timer(Timer::Retransmit, at);
    }

    /// The first segment is sent again.
    pub(super) fn on_first_resent<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.has_linux_timer() && self.is_synchronized() {
            self.set_timer(Timer::Retransmit, cx.now + self.rto.timeout(&cx.config.rto));
        }
    }

    /// An ACK only SACKs, and gives a sample by a segment sent then. The ACK restarts the timer unless the first
    /// segment was sent again since: else a first segment that is lost again would never be missed.
    pub(super) fn on_sacked<I: Io>(&mut self, cx: &Context<'_, I>, sent: Instant) {
        if cx.has_linux_timer() && self.board.first_sent().is_some_and(|first| sent < first) {
            self.restart_rto(cx);
        }
    }

    /// A timer that ran instead of this one was set, has expired or is not needed any more.
    pub(super) fn count_rto_from_first<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.has_linux_timer() && !self.board.is_empty() {
            let reorder = Some(self.timer_at(Timer::Reorder)).filter(|&at| at != Instant::FAR_FUTURE);
            let least = reorder.unwrap_or(cx.now);
            self.set_timer(Timer::Retransmit, self.rto_of_first(cx).max(least));
        }
    }

    /// Time at which the timer expires if it counts from when the first segment was last sent.
    pub(super) fn rto_of_first<I: Io>(&self, cx: &Context<'_, I>) -> Instant {
        self.board.first_sent().unwrap_or(cx.now) + self.rto.timeout(&cx.config.rto)
    }

    /// Tells whether nothing hints at a loss.
    pub(super) fn is_calm(&self) -> bool {
        self.loss.is_open() && self.board.sacked() == 0
    }

    /// Time at which the probe is due whose time-out is `pto`: no later than the retransmission timer, which counts
    /// from the first segment when new data leaves.
    pub(super) fn probe_at<I: Io>(&self, cx: &Context<'_, I>, pto: Duration) -> Instant {
        let at = (cx.now + pto).min(self.timer_at(Timer::Retransmit));
        let by_first = cx.has_linux_timer() && cx.new_segments > 0;
        match self.rto_of_first(cx) {
            first if by_first && first > cx.now => at.min(first),
            _ => at,
        }
    }
}
