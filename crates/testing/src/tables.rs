//! Tables that more than one implementation must meet: models, the TCP end alone, and whole simulations.

/// Burst TCP's windows by round trip, for a threshold of 32: the packet-level rule, the whole part of cwnd, by f. With
/// f = 13 it is 8.996 in the seventh, also in exact fractions.
#[rustfmt::skip]
pub const BURST_WINDOWS: [(u32, &[u32]); 15] = [
    (2, &[1, 16, 21, 24, 27, 28, 29, 30, 31]),
    (3, &[1, 11, 15, 19, 22, 24, 26, 27, 28, 29, 30, 31]),
    (4, &[1, 8, 12, 15, 18, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 34]),
    (5, &[1, 7, 10, 13, 16, 18, 20, 22, 23, 24, 25, 25, 26, 27]),
    (6, &[1, 6, 9, 11, 14, 16, 17, 19, 20, 21, 22, 23, 24, 25]),
    (7, &[1, 5, 7, 9, 11, 13, 15, 17, 18, 19, 20, 21, 22, 23]),
    (8, &[1, 4, 6, 8, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21]),
    (9, &[1, 4, 6, 7, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20]),
    (10, &[1, 4, 5, 7, 9, 10, 12, 13]),
    (11, &[1, 3, 4, 6, 7, 9, 10, 11]),
    (12, &[1, 3, 4, 6, 7, 8, 9, 10]),
    (13, &[1, 3, 4, 6, 7, 8, 8, 9]),
    (14, &[1, 3, 4, 5, 6, 7, 8, 8]),
    (15, &[1, 3, 3, 4, 5, 6, 7, 8]),
    (16, &[1, 2, 2, 3, 4, 5, 6, 7]),
];

/// Table II of Burst TCP, decoded, with slow start: packets of a file, and the time until the ACK of its last packet,
/// in microseconds. Side links have 10 Mbit/s and 5 ms, the link between them 1.5 Mbit/s and 35 ms. Data take 1064 B
/// and ACKs 40 B on the wire, a SYN of 40 B is packet 0.
pub const DUMBBELL_TIMES: [(u32, u32); 10] = [
    (4, 285_863),
    (5, 291_538),
    (6, 297_213),
    (7, 302_887),
    (8, 383_518),
    (9, 389_193),
    (12, 406_217),
    (16, 481_172),
    (24, 526_570),
    (32, 578_827),
];
