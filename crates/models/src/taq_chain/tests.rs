use super::*;

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
