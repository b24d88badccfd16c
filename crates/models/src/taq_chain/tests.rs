use super::*;

mod process;

const LOSSES: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.3];

fn close(name: &str, got: f64, printed: f64, half_a_digit: f64) {
    assert!((got - printed).abs() <= half_a_digit * 1.0001, "{name}: {got}, printed {printed}");
}

fn paper(back: Back, loss: f64) -> Stationary {
    stationary(back, Settings::default(), loss).unwrap()
}

/// Notes, section 3.1: the states of the partial chain.
#[test]
fn partial_chain() {
    let table: [[f64; 10]; 5] = [
        [0.0018, 0.0019, 0.0036, 0.0080, 0.0546, 0.0529, 0.0508, 0.8263, 0.0037, 0.0073],
        [0.0224, 0.0411, 0.0594, 0.1027, 0.1685, 0.1445, 0.1177, 0.3437, 0.0635, 0.1229],
        [0.0377, 0.1233, 0.1363, 0.1841, 0.1846, 0.1345, 0.0883, 0.1112, 0.1610, 0.2973],
        [0.0331, 0.3035, 0.2152, 0.2040, 0.1345, 0.0689, 0.0282, 0.0125, 0.3367, 0.5519],
        [0.0173, 0.4944, 0.2151, 0.1599, 0.0786, 0.0270, 0.0065, 0.0012, 0.5117, 0.7267],
    ];
    let packets = [5.607, 3.999, 2.705, 1.518, 0.919];
    for ((loss, row), packets) in LOSSES.into_iter().zip(table).zip(packets) {
        let chain = paper(Back::Partial, loss);
        let idle = [chain.stages()[0].idle, chain.stages()[1].idle];
        let all = idle.into_iter().chain(chain.sent()[1..].iter().copied());
        for (i, (got, printed)) in all.chain([chain.silent(), chain.silent_or_first()]).zip(row).enumerate() {
            close(&format!("p = {loss}, column {i}"), got, printed, 5e-5);
        }
        close(&format!("p = {loss}, packets"), chain.packets_per_epoch(), packets, 5e-4);
    }
}

/// Notes, section 3.2: epochs by packets sent.
#[test]
fn full_chain() {
    let f3 = [
        [0.0041, 0.0036, 0.0080, 0.0545, 0.0529, 0.0508, 0.8260, 0.0077, 5.605],
        [0.1114, 0.0564, 0.0975, 0.1599, 0.1371, 0.1117, 0.3262, 0.1677, 3.795],
        [0.3845, 0.1000, 0.1350, 0.1354, 0.0987, 0.0648, 0.0816, 0.4845, 1.985],
        [0.7646, 0.0764, 0.0724, 0.0477, 0.0244, 0.0100, 0.0044, 0.8410, 0.539],
        [0.8963, 0.0457, 0.0340, 0.0167, 0.0057, 0.0014, 0.0003, 0.9419, 0.195],
    ];
    let f64_ = [
        [0.0041, 0.0036, 0.0080, 0.0545, 0.0529, 0.0508, 0.8260, 0.0077, 5.605],
        [0.1176, 0.0560, 0.0968, 0.1588, 0.1361, 0.1109, 0.3239, 0.1736, 3.768],
        [0.4856, 0.0836, 0.1129, 0.1132, 0.0825, 0.0541, 0.0682, 0.5692, 1.659],
        [0.9067, 0.0303, 0.0287, 0.0189, 0.0097, 0.0040, 0.0018, 0.9369, 0.214],
        [0.9679, 0.0142, 0.0105, 0.0052, 0.0018, 0.0004, 0.0001, 0.9820, 0.060],
    ];
    for (back, table) in [(Back::Open(3), f3), (Back::Capped(6), f64_)] {
        for (loss, row) in LOSSES.into_iter().zip(table) {
            let chain = paper(back, loss);
            let all = chain.sent().iter().copied().chain([chain.silent_or_first()]);
            for (i, (got, printed)) in all.zip(row).enumerate() {
                close(&format!("{back:?}, p = {loss}, column {i}"), got, printed, 5e-5);
            }
            close(&format!("{back:?}, p = {loss}, packets"), chain.packets_per_epoch(), row[8], 5e-4);
        }
    }
}

/// Notes, section 3.2, below the table: memory only through S2, and three stages capped at 8 T0.
#[test]
fn other_readings() {
    let silent = [0.0038, 0.0815, 0.2592, 0.6789, 0.8899];
    let one = [0.0036, 0.0583, 0.1204, 0.1042, 0.0485];
    let capped_at_8 = [0.0041, 0.1105, 0.3715, 0.7185, 0.8336];
    for (i, loss) in LOSSES.into_iter().enumerate() {
        let settings = Settings { backoff_ends: BackoffUntil::S2, ..Settings::default() };
        let chain = stationary(Back::Capped(6), settings, loss).unwrap();
        close(&format!("S2, p = {loss}, silent"), chain.silent(), silent[i], 5e-5);
        close(&format!("S2, p = {loss}, one"), chain.sent()[1], one[i], 5e-5);
        close(&format!("8 T0, p = {loss}"), paper(Back::Capped(3), loss).silent(), capped_at_8[i], 5e-5);
    }
}

/// Notes, section 3.2: P(idle or S1), partial / F3 / F64. F3 at 0.1 and
/// F64 at 0.15 are printed .485 and .842, rounded twice; they are .48446 and .84149.
#[test]
fn breakdown() {
    for (loss, row) in [
        (0.02, [0.027, 0.030, 0.030]),
        (0.05, [0.123, 0.168, 0.174]),
        (0.07, [0.195, 0.294, 0.321]),
        (0.08, [0.231, 0.359, 0.404]),
        (0.10, [0.297, 0.484, 0.569]),
        (0.12, [0.358, 0.593, 0.707]),
        (0.15, [0.439, 0.717, 0.841]),
        (0.20, [0.552, 0.841, 0.937]),
        (0.25, [0.646, 0.906, 0.969]),
    ] {
        for (back, printed) in [Back::Partial, Back::Open(3), Back::Capped(6)].into_iter().zip(row) {
            close(&format!("{back:?}, p = {loss}"), paper(back, loss).silent_or_first(), printed, 5e-4);
        }
    }
}

/// Notes, section 3.2: the states of F3 at p = 0.1.
#[test]
fn stages() {
    let chain = paper(Back::Open(3), 0.1);
    let idle = [0.0532, 0.0747, 0.0817, 0.1749];
    let first = [0.0532, 0.0249, 0.0117, 0.0103];
    let second = [0.0478, 0.0224, 0.0105, 0.0093];
    let third = [0.0387, 0.0182, 0.0085, 0.0075];
    for (k, stage) in chain.stages().iter().enumerate() {
        close(&format!("b{k}"), stage.idle, idle[k], 5e-5);
        close(&format!("S1_{k}"), stage.first, first[k], 5e-5);
        close(&format!("S2_{k}"), stage.second, second[k], 5e-5);
        close(&format!("S3_{k}"), stage.third, third[k], 5e-5);
    }
    let memory = |of: fn(&Stage) -> f64| chain.stages().iter().map(of).sum::<f64>();
    close("S2 without memory", chain.sent()[2] - memory(|s| s.second), 0.0450, 5e-5);
    close("S3 without memory", chain.sent()[3] - memory(|s| s.third), 0.0625, 5e-5);
    // 16 q / (1 - 2p) - 1.
    close("mean idle of the last", chain.stages()[3].mean_idle_epochs, 17.0, 1e-9);
}

/// Section 3.1 of the notes and equation (8): the mean wait in b* is 1 / (1 - 2p) at T0 = 2.
#[test]
fn wait_of_the_partial_chain() {
    for loss in LOSSES {
        let chain = paper(Back::Partial, loss);
        close("b*", chain.stages()[1].mean_idle_epochs, 1.0 / (1.0 - 2.0 * loss), 1e-9);
        close("b0", chain.stages()[0].mean_idle_epochs, 1.0, 1e-12);
    }
}

/// Section 3.2: 1 - 2^(-1/6), 1 - 2^(-1/3), and the roots of the chain.
#[test]
fn tipping_points() {
    for (backoff_ends, packets, printed) in
        [(BackoffUntil::S3, 6, 0.1091), (BackoffUntil::S2, 3, 0.2063), (BackoffUntil::NewAck, 1, 0.5)]
    {
        let closed = tipping_point_closed(packets).unwrap();
        close("closed form", closed, printed, 5e-5);
        close("chain", tipping_point(backoff_ends), closed, 1e-12);
        // The mean wait without a cap grows without bound towards it.
        assert!(mean_idle_uncapped(backoff_ends, 2.0, closed - 1e-6).unwrap() > 1e4);
        assert!(mean_idle_uncapped(backoff_ends, 2.0, closed + 1e-6).unwrap().is_infinite());
        for loss in [0.01, 0.3] {
            let expected = 1.0 - (1.0_f64 - loss).powf(f64::from(packets));
            close("stage ratio", stage_ratio(backoff_ends, loss).unwrap(), expected, 1e-12);
        }
    }
    let sample = tipping_point(BackoffUntil::NewSample);
    assert!(
        sample > tipping_point(BackoffUntil::S2) && sample < tipping_point(BackoffUntil::NewAck),
        "{sample}"
    );
    assert!(tipping_point_closed(0).is_err());
}

fn every_chain() -> impl Iterator<Item = (Back, Settings)> {
    let backs =
        [Back::Partial, Back::Open(0), Back::Open(3), Back::Capped(0), Back::Capped(1), Back::Capped(16)];
    backs.into_iter().flat_map(|back| {
        [BackoffUntil::NewAck, BackoffUntil::NewSample, BackoffUntil::S2, BackoffUntil::S3]
            .into_iter()
            .flat_map(move |backoff_ends| {
                [FastRetransmit::One, FastRetransmit::Sack].into_iter().flat_map(move |repair| {
                    [
                        (4, 1.0, None),
                        (6, 2.0, Some(1.0)),
                        (7, 2.4, Some(2.0)),
                        (50, 1.3, None),
                        (3000, 7.0, None),
                    ]
                    .map(move |(wmax, t0_epochs, probe_epochs)| {
                        (back, Settings { wmax, t0_epochs, probe_epochs, backoff_ends, repair })
                    })
                })
            })
    })
}

/// Shares are shares and sum to one, what is silent grows with the loss, and what is sent falls.
#[test]
fn distributions() {
    let losses = [0.0, 1e-15, 1e-9, 1e-4, 0.01, 0.1, 0.3, 0.49, 0.4999, 0.7, 0.99, 1.0 - 1e-15];
    for (back, settings) in every_chain() {
        let (mut silent, mut packets) = (-1.0, f64::INFINITY);
        for loss in losses {
            let Ok(chain) = stationary(back, settings, loss) else {
                assert!(loss >= 0.5 && !matches!(back, Back::Capped(_)), "{back:?} {settings:?} {loss}");
                continue;
            };
            let what = format!("{back:?} {settings:?} at {loss}: {:?}", chain.stages());
            assert_eq!(chain.sent().len(), settings.wmax as usize + 1);
            assert!(chain.sent().iter().all(|s| (0.0..=1.0 + 1e-12).contains(s)), "{what}");
            assert!((chain.sent().iter().sum::<f64>() - 1.0).abs() < 1e-12, "{what}");
            let stages = chain.stages();
            assert!((stages.iter().map(|s| s.first).sum::<f64>() - chain.sent()[1]).abs() < 1e-12, "{what}");
            assert!(
                chain.silent() >= silent - 1e-12 && chain.packets_per_epoch() <= packets + 1e-9,
                "{what}"
            );
            (silent, packets) = (chain.silent(), chain.packets_per_epoch());
            // The silent share is the sum of the waits, and of the waits that are one longer than none.
            assert!((chain.silent_in_a_row(1) - silent).abs() < 1e-9, "{what}: {}", chain.silent_in_a_row(1));
            assert!(chain.silent_in_a_row(2) <= silent + 1e-12 && chain.silent_in_a_row(0) == 1.0, "{what}");
            let (by_count, by_time) = (chain.idle_quantile(0.9), chain.idle_quantile_by_time(0.9));
            assert!(by_count <= by_time && by_time.is_finite(), "{what}: {by_count} {by_time}");
            let Some(silences) = chain.silences() else { continue };
            let in_silence = silences.per_epoch() * silences.mean_epochs();
            assert!(
                (silences.longer_than(0.0) - in_silence).abs() < 1e-9 && in_silence < 1.0 + 1e-9,
                "{what}"
            );
            // A silence is its idle epochs and its retransmissions.
            assert!((in_silence - chain.silent() - chain.sent()[1]).abs() < 1e-9, "{what}: {in_silence}");
        }
    }
    let chain = paper(Back::Capped(6), 0.0);
    assert!(chain.sent()[6] == 1.0 && chain.silent() == 0.0 && chain.idle_quantile(0.5) == 0.0);
}

#[test]
fn outside_the_domain() {
    let domain = |back, settings, loss| stationary(back, settings, loss).unwrap_err().to_string();
    let paper = Settings::default();
    assert!(domain(Back::Partial, paper, 0.5).contains("loss = 0.5: expected 0 <= loss < 0.5"));
    assert!(domain(Back::Open(3), paper, 0.5).contains("expected 0 <= loss < 0.5"));
    assert!(domain(Back::Capped(6), paper, 1.0).contains("expected 0 <= loss < 1"));
    for loss in [-0.1, f64::NAN, f64::INFINITY] {
        for back in [Back::Partial, Back::Open(3), Back::Capped(6)] {
            assert!(domain(back, paper, loss).contains("expected 0 <= loss"));
        }
    }
    assert!(domain(Back::Capped(17), paper, 0.1).contains("0 <= stages <= 16"));
    for wmax in [0, 3, WMAX + 1] {
        assert!(domain(Back::Capped(6), Settings { wmax, ..paper }, 0.1).contains("4 <= wmax <= 10000"));
    }
    for t0_epochs in [0.99, f64::NAN, f64::INFINITY] {
        assert!(domain(Back::Capped(6), Settings { t0_epochs, ..paper }, 0.1).contains("1 <= t0"));
    }
    let probe_epochs = Some(f64::NAN);
    assert!(domain(Back::Capped(6), Settings { probe_epochs, ..paper }, 0.1).contains("1 <= probe"));
    assert!(
        mean_idle_uncapped(BackoffUntil::S3, 0.0, 0.1).is_err()
            && stage_ratio(BackoffUntil::S3, 0.0).is_err()
    );
}

/// By hand: windows of up to 4, T0 = 2, one stage, any ACK ends the back-off. Silences are 2, 4, 6, .. epochs, each
/// half as often as the one before at p = 1/2: p50 is 2, p75 is 4, the mean 4. By time the shares are 2/8, 4/16, 6/32,
/// ..: 1/4, 1/2, 11/16.
#[test]
fn silences_by_hand() {
    let settings = Settings { wmax: 4, backoff_ends: BackoffUntil::NewAck, ..Settings::default() };
    let silences = stationary(Back::Capped(0), settings, 0.5).unwrap().silences().unwrap();
    let rate = silences.per_epoch();
    close("mean", silences.mean_epochs(), 4.0, 1e-9);
    for (quantile, epochs) in [(0.1, 2.0), (0.5, 2.0), (0.6, 4.0), (0.75, 4.0), (0.76, 6.0)] {
        close("quantile", silences.quantile(quantile), epochs, 1e-9);
    }
    for (quantile, epochs) in [(0.2, 2.0), (0.3, 4.0), (0.49, 4.0), (0.51, 6.0), (0.68, 6.0), (0.69, 8.0)] {
        close("quantile by time", silences.quantile_by_time(quantile), epochs, 1e-9);
    }
    // The mean beyond 2 epochs, over all lengths but the first, which begin half as often, is 4 epochs.
    close("longer than 2", silences.longer_than(2.0), rate / 2.0 * 4.0, 1e-12);
    close("longer than 3", silences.longer_than(3.0), rate / 2.0 * 3.0, 1e-12);
}
