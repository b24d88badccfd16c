//! Acknowledgments, losses and timers: RFC 9002, section 6 and appendix A.

use narrows_units::{Duration, Instant};

use super::{Endpoint, Role};
use crate::packet::{Ack, Frame, Space};
use crate::rtt::GRANULARITY;
use crate::{Config, Io, Probe, QuicEvent};

/// The back-off ends here, so that a timeout stays a number.
const MOST_BACKOFFS: u32 = 16;

/// Series of probe timeouts without an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeTimeouts {
    count: u32,
    /// Time at which the last of them expired, until it is known whether it had to.
    at: Option<Instant>,
}

impl ProbeTimeouts {
    /// The factor of the back-off.
    fn backoff(self) -> u32 {
        1 << self.count.min(MOST_BACKOFFS)
    }
    /// Counts a probe timeout that has expired.
    const fn expired(&mut self, now: Instant) {
        self.count += 1;
        self.at = Some(now);
    }
    /// A packet sent at `sent` was acknowledged that asked for it. Tells whether the last one need not have expired:
    /// what was sent before the probe has come through.
    fn is_spurious(&mut self, sent: Instant) -> bool {
        self.at.take().is_some_and(|at| sent < at)
    }
    /// The peer has answered.
    const fn end(&mut self) {
        self.count = 0;
    }
}

impl Endpoint {
    /// An ACK frame came (appendix A.7).
    pub(super) fn on_ack(
        &mut self,
        config: &Config,
        now: Instant,
        space: Space,
        ack: &Ack,
        io: &mut impl Io,
    ) {
        let Some(largest) = ack.ranges.last().map(|(_, end)| end - 1) else { return };
        let s = self.space(space);
        if largest >= s.next {
            // No peer of ours acknowledges what was not sent.
            return;
        }
        let new_largest = s.largest_acked.is_none_or(|n| largest > n);
        if new_largest {
            s.largest_acked = Some(largest);
            if let Some(sent) = s.sent.get(&largest) {
                s.largest_acked_at = sent.at;
            }
        }
        let mut spurious = 0;
        let mut newly = Vec::new();
        for (start, end) in &ack.ranges {
            spurious += s.lost.remove(*start, *end);
            newly.extend(s.sent.range(*start..*end).map(|(number, _)| *number));
        }
        self.counters.spurious += u32::try_from(spurious).unwrap_or(u32::MAX);
        if newly.is_empty() {
            return;
        }
        let eliciting = self.take_acked(config, now, space, &newly, io);
        if new_largest && eliciting {
            self.on_rtt(config, now, space, ack.delay, io);
        }
        self.detect_losses(config, now, space, true, io);
        if self.peer_has_validated() {
            self.probe_timeouts.end();
        }
        if new_largest && let Some(ecn) = ack.ecn {
            let s = self.space(space);
            let (more, sent) = (ecn.ce > s.ce, s.largest_acked_at);
            s.ce = s.ce.max(ecn.ce);
            if more && self.flight.on_congestion(now, sent, false) {
                self.counters.congestion_events += 1;
                io.event(QuicEvent::CongestionEvent);
            }
        }
        self.set_loss_timer(config, now);
    }

    /// Takes acknowledged packets out of flight. Returns whether one of the packets had asked for an acknowledgment.
    fn take_acked(
        &mut self,
        config: &Config,
        now: Instant,
        space: Space,
        numbers: &[u64],
        io: &mut impl Io,
    ) -> bool {
        let (mut eliciting, mut bytes) = (false, 0);
        for &number in numbers {
            let Some(sent) = self.space(space).sent.remove(&number) else { continue };
            if let Some(largest) = sent.largest_acked {
                self.space(space).acks.confirmed(largest);
            }
            eliciting |= sent.eliciting;
            if space == Space::Data && self.path.is_probe(number) {
                self.flight.on_datagram(self.path.probe_passed(), config);
            }
            self.flight.settle(&sent);
            if sent.eliciting {
                self.counters.spurious_ptos += u32::from(self.probe_timeouts.is_spurious(sent.at));
                self.flight.on_ack(now, &sent, self.rtt.smoothed());
            }
            for frame in sent.frames {
                if let Frame::Stream { offset, len, .. } = frame {
                    bytes += self.send.acked(offset, len);
                }
            }
        }
        if bytes > 0 {
            io.event(QuicEvent::Acked { bytes });
        }
        eliciting
    }

    fn on_rtt(&mut self, config: &Config, now: Instant, space: Space, delay: Duration, io: &mut impl Io) {
        // Section 5.3: Initial and Handshake packets are not delayed.
        let delay = if space == Space::Data { delay.min(config.max_ack_delay) } else { Duration::ZERO };
        let s = &self.spaces[space as usize];
        let sample = now.since(s.largest_acked_at);
        self.rtt.update(delay, sample);
        if self.first_after_rtt.is_none() {
            self.first_after_rtt = Some((space, s.next));
        }
        io.event(QuicEvent::RttSample(sample));
    }

    /// Declares packets lost (section 6.1, appendix A.10).
    fn detect_losses(&mut self, config: &Config, now: Instant, space: Space, by_ack: bool, io: &mut impl Io) {
        let wait = (self.rtt.conservative() * 9 / 8).max(GRANULARITY);
        let s = &mut self.spaces[space as usize];
        let Some(largest) = s.largest_acked else { return };
        s.loss_time = None;
        let mut lost = Vec::new();
        for (&number, sent) in s.sent.range(..largest) {
            if now.since(sent.at) >= wait || largest >= number + config.packet_threshold {
                lost.push(number);
            } else {
                let at = sent.at + wait;
                s.loss_time = Some(s.loss_time.map_or(at, |t| t.min(at)));
            }
        }
        let persistent = by_ack && self.is_persistent(config, space, &lost);
        let mut last = None;
        for number in lost {
            let Some(sent) = self.space(space).sent.remove(&number) else { continue };
            self.flight.settle(&sent);
            if space == Space::Data && self.path.is_probe(number) {
                // RFC 9000, section 14.4: this tells nothing of congestion.
                self.path.probe_failed();
                continue;
            }
            self.counters.lost += 1;
            io.event(QuicEvent::PacketLost { space, number });
            self.space(space).lost.insert(number, number + 1);
            if sent.size > 0 {
                last = Some(sent.at);
            }
            self.send_again(space, &sent.frames);
        }
        if let Some(sent) = last
            && self.flight.on_congestion(now, sent, persistent)
        {
            self.counters.congestion_events += 1;
            io.event(if persistent { QuicEvent::PersistentCongestion } else { QuicEvent::CongestionEvent });
        }
    }

    fn send_again(&mut self, space: Space, frames: &[Frame]) {
        for frame in frames {
            match *frame {
                Frame::Stream { offset, len, fin } => self.send.again(offset, len, fin),
                other => self.spaces[space as usize].again(other),
            }
        }
    }

    /// Whether two packets that asked for an ACK are lost with all between them, further apart than the duration of
    /// section 7.6.1: (smoothed_rtt + max(4 * rttvar, kGranularity) + max_ack_delay) * kPersistentCongestionThreshold.
    fn is_persistent(&self, config: &Config, space: Space, lost: &[u64]) -> bool {
        let (Some(threshold), Some(first)) = (config.persistent, self.first_after_rtt) else { return false };
        let duration = self.pto(config) * threshold;
        let mut began: Option<Instant> = None;
        let mut before = None;
        for &number in lost {
            let Some(sent) = self.spaces[space as usize].sent.get(&number) else { continue };
            if before.is_some_and(|n| n + 1 != number) {
                // One in between arrived.
                began = None;
            }
            before = Some(number);
            if !sent.eliciting || self.path.is_probe(number) {
                continue;
            }
            match began {
                Some(at) if sent.at.since(at) > duration => return true,
                Some(_) => {}
                // Section 7.6.2: what was sent before the first sample does not count.
                None => began = (first < (space, number)).then_some(sent.at),
            }
        }
        false
    }

    /// The time and space of the earliest loss by time.
    fn loss_time(&self) -> Option<(Instant, Space)> {
        Space::ALL
            .into_iter()
            .filter_map(|space| Some((self.spaces[space as usize].loss_time?, space)))
            .min_by_key(|(at, _)| *at)
    }

    /// Time at which the probe timeout expires, and for which space (appendix A.8).
    fn pto_time(&self, config: &Config, now: Instant) -> Option<(Instant, Space)> {
        let backoff = u64::from(self.probe_timeouts.backoff());
        let base = self.rtt.pto_base() * backoff;
        if !self.flight.asks() {
            // Section 6.2.2.1: a client sees to it that the server can go on.
            let space =
                if self.spaces[Space::Handshake as usize].open { Space::Handshake } else { Space::Initial };
            return Some((now + base, space));
        }
        let mut first: Option<(Instant, Space)> = None;
        for space in Space::ALL {
            let s = &self.spaces[space as usize];
            if !s.in_flight() {
                continue;
            }
            let mut duration = base;
            if space == Space::Data {
                // Section 6.2.1.
                let waits = config.confirmed_first && !self.life.is_confirmed();
                if waits || self.life.shakes_hands() {
                    break;
                }
                duration += config.max_ack_delay * backoff;
            }
            let Some(at) = s.last_eliciting.map(|at| at + duration) else { continue };
            if first.is_none_or(|(earliest, _)| at < earliest) {
                first = Some((at, space));
            }
        }
        first
    }

    /// Whether the server is known to know that the client's address is its own (appendix A.6).
    fn peer_has_validated(&self) -> bool {
        let [_, handshake, data] = &self.spaces;
        self.side == Role::Server
            || handshake.largest_acked.is_some()
            || data.largest_acked.is_some()
            || self.life.is_confirmed()
    }

    /// SetLossDetectionTimer (appendix A.8).
    pub(super) fn set_loss_timer(&mut self, config: &Config, now: Instant) {
        if self.life.is_closed() {
            return;
        }
        self.loss_timer = if let Some((at, _)) = self.loss_time() {
            Some(at)
        } else if self.path.is_blocked() || (!self.flight.asks() && self.peer_has_validated()) {
            None
        } else {
            self.pto_time(config, now).map(|(at, _)| at)
        };
    }

    /// OnLossDetectionTimeout (appendix A.9).
    pub(super) fn on_loss_timer(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if let Some((_, space)) = self.loss_time() {
            self.detect_losses(config, now, space, false, io);
        } else if let Some((_, space)) = self.pto_time(config, now) {
            let probes = if self.flight.asks() { config.probes } else { 1 };
            self.space(space).probes += probes;
            self.probe_timeouts.expired(now);
            let backoff = self.probe_timeouts.backoff();
            self.counters.ptos += 1;
            self.counters.handshake_ptos += u32::from(self.life.shakes_hands());
            self.counters.max_backoff = self.counters.max_backoff.max(backoff);
            io.event(QuicEvent::ProbeTimeout { backoff });
        }
        self.set_loss_timer(config, now);
    }

    /// Makes sure that a probe has something to carry (section 6.2.4).
    pub(super) fn queue_probe(&mut self, config: &Config, space: Space) {
        let s = &self.spaces[space as usize];
        let stream = space == Space::Data && self.send.is_pending();
        if s.probes == 0 {
            return;
        }
        let control = s.has_control();
        let ask = config.immediate_ack && space == Space::Data;
        self.space(space).immediate_ack |= ask;
        if control || (stream && config.probe == Probe::Oldest) {
            return;
        }
        let with_stream = config.probe == Probe::Oldest;
        let send = &self.send;
        // Data that was acknowledged by another copy is no reason to send this packet's frames again.
        let has = |frame: &Frame| match *frame {
            Frame::Ping | Frame::ImmediateAck => false,
            Frame::Stream { offset, len, .. } => with_stream && !send.is_acked(offset, len),
            _ => true,
        };
        let s = &mut self.spaces[space as usize];
        let Some(sent) = s.sent.values_mut().find(|sent| sent.frames.iter().any(has)) else {
            s.ping = !ask;
            return;
        };
        let mut frames = std::mem::take(&mut sent.frames);
        if with_stream {
            // Frames stay with the packet they were sent in: an ACK of the first copy still counts. Those that are
            // counted, not told apart, move on, or each loss of two copies would leave two more to send.
            let counted = |f: &&Frame| !matches!(f, Frame::NewConnectionId | Frame::RetireConnectionId);
            sent.frames = frames.iter().filter(counted).copied().collect();
        } else {
            sent.frames = frames.iter().copied().filter(|f| matches!(f, Frame::Stream { .. })).collect();
            frames.retain(|f| !matches!(f, Frame::Stream { .. }));
        }
        self.send_again(space, &frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, space::Sent};

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// An established server with one sample of 100 ms, which is PTO 100 + 4 * 50 + 25 = 325 ms (section 6.2.1), and
    /// packets sent at these milliseconds.
    fn server(sent: &[u64]) -> (Config, Endpoint) {
        let config = Config::preset(Preset::Rfc);
        let mut e = Endpoint::new(&config, Role::Server);
        e.life.establish();
        e.life.confirm();
        e.path.validate();
        e.rtt.update(Duration::ZERO, Duration::from_millis(100));
        e.first_after_rtt = Some((Space::Data, 0));
        for (number, ms) in (1..).zip(sent) {
            let packet = Sent {
                at: at(*ms),
                size: 1200,
                eliciting: true,
                largest_acked: None,
                frames: vec![Frame::Ping],
            };
            e.flight.left(packet.size, packet.eliciting);
            let s = e.space(Space::Data);
            (s.next, s.last_eliciting) = (number + 1, Some(at(*ms)));
            s.sent.insert(number, packet);
        }
        (config, e)
    }

    #[test]
    fn the_probe_timeout_by_hand() {
        let (config, mut e) = server(&[1000, 1010]);
        assert_eq!(e.pto_time(&config, at(1010)), Some((at(1335), Space::Data)));
        // 6.2.1: it doubles, max_ack_delay with it: 1010 + 2 * 325.
        e.probe_timeouts.count = 1;
        assert_eq!(e.pto_time(&config, at(1010)), Some((at(1660), Space::Data)));
    }

    #[test]
    fn a_connection_id_is_to_be_sent_once_however_many_copies_are_lost() {
        let (config, mut e) = server(&[1000]);
        let sent = e.space(Space::Data).sent.get_mut(&1).unwrap();
        sent.frames = vec![Frame::NewConnectionId, Frame::HandshakeDone];
        e.space(Space::Data).probes = 2;
        e.queue_probe(&config, Space::Data);
        let s = e.space(Space::Data);
        assert_eq!((s.new_ids, s.handshake_done), (1, true));
        // The first copy is lost after all: the other may have arrived.
        let first = s.sent[&1].frames.clone();
        e.send_again(Space::Data, &first);
        assert_eq!((e.space(Space::Data).new_ids, first), (1, vec![Frame::HandshakeDone]));
    }

    #[test]
    fn persistent_congestion_by_hand() {
        // 7.6.1: 3 * 325 = 975 ms; it has to be longer.
        for (sent, persistent) in [([1000, 1500, 1975], false), ([1000, 1500, 1976], true)] {
            let (config, e) = server(&sent);
            assert_eq!(e.is_persistent(&config, Space::Data, &[1, 2, 3]), persistent, "{sent:?}");
            // One in between arrived.
            assert!(!e.is_persistent(&config, Space::Data, &[1, 3]));
        }
        // 7.6.2: sent before the first sample.
        let (config, mut e) = server(&[1000, 1500, 1976]);
        e.first_after_rtt = Some((Space::Data, 1));
        assert!(!e.is_persistent(&config, Space::Data, &[1, 2, 3]));
    }

    struct Nobody;
    impl Io for Nobody {
        fn send(&mut self, _: crate::Datagram) {}
        fn event(&mut self, _: QuicEvent) {}
    }

    #[test]
    fn both_thresholds_by_hand() {
        // 6.1.1: of packets 1 to 5 the ACK of 4 shows 1 lost; 6.1.2: 2 and 3 are so 9/8 of 100 ms after they left.
        let (config, mut e) = server(&[1000, 1001, 1002, 1003, 1004]);
        let ack = Ack { ranges: vec![(4, 5)], ..Ack::default() };
        e.on_ack(&config, at(1103), Space::Data, &ack, &mut Nobody);
        assert_eq!(
            (e.counters.lost, e.loss_time()),
            (1, Some((Instant::from_nanos(1_113_500_000), Space::Data)))
        );
        e.on_loss_timer(&config, Instant::from_nanos(1_114_500_000), &mut Nobody);
        assert_eq!((e.counters.lost, e.counters.congestion_events, e.cwnd()), (3, 1, 6_600));
    }
}
