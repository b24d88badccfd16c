//! Section 4 of the paper, and 3.3 on which it rests, sentence by sentence: what each asks for in few words, and where
//! that is. Sentences are counted within their section; those that explain, repeat or report are left out. The tests
//! below `tests` are named by section.
//!
//! # 3.3, an approximate model
//!
//! - s3 an epoch is the round trip as the box perceives it; s4 from both directions, if it sees them:
//!   `TrackerConfig::epoch_includes_queue`, `narrows_flow`'s `epoch.rs`.
//! - s5 else first the time from SYN to first data, s6 then from burst to burst, as a moving average: the same.
//! - s7 the epoch and the loss rate foretell timeouts: `predict`, by the model's window of four. Its probability, which
//!   falls with the loss rate and with larger windows, is not used.
//! - s8 new packets, highest number, retransmissions, drops of the last epoch are kept for each epoch:
//!   `narrows_flow::Flow`. s9 the difference between highest numbers decides nothing in section 4, and is not computed.
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
//! - s12 who lost in this epoch or the last has priority for retransmissions (the recovery queue), and for packets that
//!   come: never level 3 (`class`), and lost after the others (`NextState::SecondLoss`).
//! - s13 the loss of a retransmission is a timeout, once an epoch has passed without data; s14 so they have priority:
//!   the recovery queue, lost last.
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
//!   s10 the limit of the new flows' queue is not what refuses: a refused SYN does not reach it.
//! - s11 admitted is (a) who belongs to a pool that is in, (b) a new pool while less than a little below 0.1 is lost:
//!   `Rule::Paper`. Nobody is for having waited.
//! - s13, s14 pools may share instead of flows, and only the fair share changes: `share=user`, by all that a user has,
//!   whenever it began.
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
//! - Between the two comes which of the queues of level 2 is most above its weight.
//! - The guards of Fig. 7, which has none: one epoch without data after a drop is a silence; slow start is growth by
//!   half and more from one epoch to the next. A packet dropped in timeout recovery makes the next retransmission one
//!   out of an extended silence, though none has passed.
//! - One drop lifts a flow out of level 3 into below_fair_share; two put it among the over-penalised.
//! - s12 moves nothing that waits; s19 what waits above fair share, and nothing else.
//! - "Past" epochs (4.1 s12, 4.2 s7) are the last one: who returns from a longer silence counts as without loss, but
//!   for the prediction (`NextState::Repeated`).
//! - A flow is new for five epochs and twenty packets from its SYN on, and until its first loss. SYNs are new, also
//!   when they are sent again.
//! - N, among whom the link is shared, are the flows that sent data within max(2 s, 4 epochs), have something waiting,
//!   or are silent because of a loss.
//! - Pure acknowledgments and what is not TCP stand by their rate whatever was dropped. Their loss brings no timeout
//!   that the paper knows, so they lose before all else, also below their fair share. The paper has TCP alone.
//! - New flows have a third of level 2, and a quarter of the buffer; retransmissions seven tenths of the link, three
//!   quarters of the buffer. The bucket of the cap is 100 ms or two MTU deep.
//! - A packet whose flow cannot be followed, because the table is full, goes above fair share.
//! - The loss rate of 4.3 is that of the last 5 s (`w_loss`); while it is low every pool that asks enters, and a few
//!   seconds are three (`t_pool`). A SYN that is sent again after those asks anew.
//!
//! # What we add
//!
//! - Retransmissions beyond their cap go out if nothing else waits: else the link would rest.
//! - A packet that can bear a mark is marked where it would be dropped, up to a quarter beyond the limit.
