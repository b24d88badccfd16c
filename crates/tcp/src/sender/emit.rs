//! Builds segments and hands them out.

use narrows_units::Ecn;
use narrows_wire::{Flags, TcpHeader};

use super::scoreboard::{EVER_RETRANS, FIN, SYN};
use super::{Context, Sender};
use crate::receiver::Receiver;
use crate::{Config, Io};

impl Sender {
    /// Sends the segment at `offset`. Not in line: it is long, and several places call it.
    #[inline(never)]
    pub(super) fn emit<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, len: u16, flags: u8) {
        let (mut ecn, mut bits) = (Ecn::NotEct, Flags::default());
        // Retransmissions are not ECN-capable (RFC 3168, section 6.1.5).
        if let Some(extras) = &self.extras
            && flags & EVER_RETRANS == 0
        {
            if extras.ecn.is_on() && flags & (SYN | FIN) == 0 {
                ecn = Ecn::Ect0;
            }
            if len > 0 && extras.ecn.announces() {
                bits = bits.and(Flags::CWR);
            }
            if len > 0 && self.pushes(cx) {
                bits = bits.and(Flags::PSH);
            }
        }
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(ecn, |tcp| {
            (tcp.seq, tcp.payload, tcp.flags) = (self.seq(offset), u32::from(len), bits);
            if flags & (SYN | FIN) != 0 {
                self.fill_syn_fin(config, receiver, tcp, flags);
            }
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }

    /// Whether both ends use ECN.
    fn has_ecn(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.ecn.is_on())
    }

    /// Whether the new segment bears PSH: each `push_every`-th of a burst does, and the last of the application's data.
    fn pushes<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        let every = cx.config.push_every;
        every != u32::MAX && (self.unsent() == 0 || cx.new_segments.is_multiple_of(every))
    }

    /// Fills in what only a SYN or a FIN bears.
    #[cold]
    fn fill_syn_fin(&self, config: &Config, receiver: &Receiver, tcp: &mut TcpHeader, flags: u8) {
        if flags & FIN != 0 {
            tcp.flags = tcp.flags.and(Flags::FIN);
        }
        if flags & SYN == 0 {
            return;
        }
        tcp.flags = tcp.flags.and(Flags::SYN);
        // Options do not count (RFC 6691, section 2).
        tcp.mss = Some((config.mss + config.timestamp_bytes()).min(u32::from(u16::MAX)) as u16);
        tcp.window_scale = Some(config.window_shift());
        if !config.ecn {
            return;
        }
        // A SYN asks with ECE and CWR, a SYN-ACK agrees with ECE (RFC 3168, section 6.1.1).
        if !receiver.started() {
            tcp.flags = tcp.flags.and(Flags::ECE).and(Flags::CWR);
        } else if self.has_ecn() {
            tcp.flags = tcp.flags.and(Flags::ECE);
        }
    }

    /// Sends an acknowledgment alone.
    #[inline(always)]
    pub(crate) fn emit_ack<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.max(), 0);
    }

    /// Sends a byte that the peer has already.
    pub(super) fn emit_window_probe<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.una().saturating_sub(1), 1);
    }

    #[inline(always)]
    fn emit_bare<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, payload: u32) {
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(Ecn::NotEct, |tcp| {
            (tcp.seq, tcp.payload) = (self.seq(offset), payload);
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }
}
