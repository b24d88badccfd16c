//! Section 4 of the paper, and 3.3 on which it rests, sentence by sentence: what each asks for in few words, and where
//! that is. Sentences are counted within their section; those that explain, repeat or report are left out. The tests
//! below `tests` are named by section.
//!
//! # 3.3, an approximate model
//!
//! - s3 an epoch is the round trip as the box perceives it; s4 from both directions, if it sees them:
//!   `TrackerConfig::epoch_includes_queue`, `narrows_flow`'s `epoch.rs`.
//! - s5 else first the time from SYN to first data, s6 then from burst to burst, as a moving average: the same.
//! - s7 the epoch and the loss rate foretell timeouts: `predict`. The loss rate is the same for all and orders nobody.
//! - s8 new packets, highest number, retransmissions, drops of the last epoch are kept for each epoch; s9 progress:
//!   `narrows_flow::Flow`.
//! - s10 and Fig. 7, six states and a dummy one: `narrows_flow::Phase`.
//!
//! # 4, queue management
//!
//! - s1, s2 drops are chosen by the state they would lead to: a timeout, or a repetitive one: `predict::NextState`,
//!   `limits::victim`.
//! - s4 new packets in an epoch are a rough measure of the window: `Flow::window_pkts`.
//! - s5 drops to be repaired are remembered in recovery: `Flow::unrepaired`.
//! - s6 silences remember the state before: `Flow::previous_phase`.
//!
//! # 4.1, predicting the next state
//!
//! - s3 losses elsewhere change the state: a retransmission of what was not dropped here, `Phase::after_data`.
//! - s5 without losses a flow stays in normal or slow start; s6 from recovery it returns to normal once all known drops
//!   are sent again; s7 from timeout recovery to slow start: `Phase::after_epoch`, `Phase::after_departure`.
//! - s8 to s10 a lost new packet leads to fast retransmit or recovery; one is repaired, several hardly: `NextState`.
//! - s11 drops and the progress of their repair are known: `Flow::unrepaired`.
//! - s12 who lost in this epoch or the last has priority for retransmissions (the recovery queue), and for packets in
//!   the window: never level 3 (`class`), and lost after the others (`NextState::SecondLoss`).
//! - s13 the loss of a retransmission is a timeout, s14 so they have priority: the recovery queue, lost last.
//! - s15 if one must be lost the states before are kept: `Flow::previous_phase`, `last_silence`, `unrepaired`.
//! - s16, s17 out of an extended silence before out of a silence before a first; by the length of the silence and the
//!   last normal transmission: `class::recovery_key`.
//!
//! # 4.2, multi-class priority queuing
//!
//! - s2 equal shares, or in proportion to 1 / round trip: `shares`.
//! - s3 queues are of packets; s4 recovery has retransmissions only, s5 the longer silence first; s6 new flows in slow
//!   start; s7 several drops in the past and current epochs together (two or more); s8, s9 the transmit rate below or
//!   above the fair share: `class`.
//! - s11 level 1 is strict priority, s12 limited in capacity, s22 and in its rate: `scheduler`, `limits::enforce_cap`.
//! - s13 level 2 has three equal queues, s14 FIFOs, s15 of which the new is limited, s17 and the other two served by
//!   demand; s18 level 3 comes after: `scheduler`.
//! - s19 more than two drops in one epoch assign the flow to the over-penalised: `store::over_penalise`.
//!
//! # 4.3, admission
//!
//! - s2 the drop rate decides: `LossWindow`. s8 a pool is what one source opens within a few seconds: `t_pool`.
//! - s11 admitted is (a) who belongs to a pool that is in, (b) a new pool while less than a little below 0.1 is lost:
//!   `Rule::Paper`. Nobody is for having waited.
//! - s13, s14 pools may share instead of flows, and only the fair share changes: `share=user`.
//! - s15 to s17 who is not admitted may be told: `narrows run --http-503`.
//! - s18, s19 where clients are told, a pool is admitted after `t_wait` at the latest: off unless it is set.
//!
//! # Where the text is silent
//!
//! What was measured with the other choice is in docs/explanation/taq.md.
//!
//! - Which queue loses when the buffer is full: the cheapest consequence decides first, the queue after it. The queues
//!   with limits of their own lose at those; new flows lose after the other data, retransmissions last.
//! - Of equal consequences the fastest for its share loses, of equals the newest packet.
//! - What "immediately follows" a retransmission (3.2) is what comes before slow start ends or another loss.
//! - One drop lifts a flow out of level 3 into below_fair_share; two put it among the over-penalised.
//! - s19 moves what waits above fair share, and nothing else that waits.
//! - A flow is new for five epochs and twenty packets, and until its first loss. SYNs are new.
//! - Pure acknowledgments and what is not TCP stand by their rate. Their loss has no consequence.
//! - New flows have a third of level 2, and a quarter of the buffer; retransmissions seven tenths of the link, three
//!   quarters of the buffer. The bucket of the cap is 100 ms or two MTU deep.
//! - A packet whose flow cannot be followed, because the table is full, goes above fair share.
//!
//! # What we add
//!
//! - Retransmissions beyond their cap go out if nothing else waits: else the link would rest.
//! - A packet that can bear a mark is marked where it would be dropped, up to a quarter beyond the limit.
