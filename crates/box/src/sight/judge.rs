//! Meaning of repairs and silences, by the tables of `narrows diagnose`: this fills the same evidence. What a
//! record of constant size cannot know is `None` there.

use narrows_diagnose::Repair;
use narrows_diagnose::evidence::{
    AckEvidence, RepairEvidence, SegmentEvidence, SenderEvidence, SenderState, SilenceEvidence, TimerEvidence,
};
use narrows_diagnose::judge::{DUPTHRESH, judge_silence};
use narrows_diagnose::tolerances::{DELAYED_ACK, FIRST_RTO, LEAST_RTO};
use narrows_flow::Micros;
use narrows_units::Duration;
use narrows_wire::TcpHeader;

use super::book::Stall;
use super::cause::{Cause, Lost};
use super::record::{Gaps, Half, Half16};
use super::sender::Whose;

impl Half {
    fn rto(&self) -> Duration {
        let srtt = self.srtt();
        if srtt == Duration::ZERO { FIRST_RTO } else { srtt + (srtt / 2).max(LEAST_RTO) }
    }

    /// Evidence about what is sent again now, as far as a record of constant size has it. `hole`: the original never
    /// passed here.
    pub fn evidence(&self, now: Micros, tcp: &TcpHeader, hole: bool) -> RepairEvidence {
        let state = match () {
            () if self.flags.has(Half16::LOSS) => SenderState::Loss,
            () if self.flags.has(Half16::RECOVERY) => SenderState::Recovery,
            () => SenderState::Open,
        };
        let (waited, silent, srtt) = (now.since(self.waits_since), now.since(self.since), self.srtt());
        let react = Duration::from_micros(self.sender_us.into());
        let duplicates = u32::from(self.dupacks);
        RepairEvidence {
            state,
            segment: SegmentEvidence {
                first: tcp.seq.at_or_before(self.una),
                last: tcp.seq_end() == self.max,
                hole,
                ..SegmentEvidence::default()
            },
            timer: TimerEvidence {
                waited,
                rto: self.rto(),
                pto: Some((srtt * 2 + DELAYED_ACK).min(self.rto())),
                factor: 1 << self.backoff,
                // Without progress since, the timer was restarted by the timeout itself.
                since_timeout: (state == SenderState::Loss && self.expiries > 0).then_some(waited),
                srtt: (srtt > Duration::ZERO).then_some(srtt),
                probed: self.flags.has(Half16::PROBED),
                ..TimerEvidence::default()
            },
            acks: AckEvidence {
                duplicates,
                // The latest progress was the latest duplicate, or limited transmit that followed it (RFC 3042).
                told: (duplicates >= DUPTHRESH).then_some(silent),
                reacted: Some(silent),
                react,
                ..AckEvidence::default()
            },
            sender: SenderEvidence {
                selective: self.flags.has(Half16::SELECTIVE),
                ..SenderEvidence::default()
            },
            clock: None,
        }
    }

    /// The silence since the last progress, if it is a stall.
    pub fn stall(&self, now: Micros, (key, user, by): Whose<'_>, gaps: &Gaps, ended: bool) -> Option<Stall> {
        let unrepaired = self.gaps && !gaps.dropped.is_empty();
        let length = self.stalled(now, unrepaired)?;
        let told = judge_silence(&self.silence(unrepaired));
        let cause = Cause::Told(told.cause);
        // Of what has not been repaired yet, only our own drops are known.
        let here = if unrepaired { Lost::HERE } else { Lost::UNKNOWN };
        let lost = if self.lost == Lost::UNKNOWN { here } else { self.lost };
        Some(Stall {
            key: *key,
            user,
            by,
            length,
            cause,
            lost: if cause.is_loss() { lost } else { Lost::UNKNOWN },
            certainty: told.certainty,
            repair: self.repair,
            timeouts: self.expiries,
            backoff: self.backoff,
            outstanding: self.under_way(),
            turn_ms: self.turn_ms,
            ended,
        })
    }

    /// Evidence about the silence since the last progress.
    fn silence(&self, unrepaired: bool) -> SilenceEvidence {
        let pushed = self.flags.has(Half16::PUSHES) && self.flags.has(Half16::PUSHED);
        SilenceEvidence {
            only_fin: self.flags.has(Half16::FIN) && self.una + 1 == self.max,
            closed: self.flags.has(Half16::SHUT),
            repair: self.repair.filter(|r| *r != Repair::Unknown),
            timeouts: self.expiries.into(),
            spurious: self.flags.has(Half16::SPURIOUS),
            double: self.flags.has(Half16::DOUBLE),
            dropped: Some(unrepaired),
            told: self.told.into(),
            said_all: self.flags.has(Half16::FIN) || pushed,
            outstanding: self.under_way().into(),
            window: Some(u32::from(self.window) << self.scale),
            mss: self.mss.into(),
            live: true,
            ..SilenceEvidence::default()
        }
    }
}
