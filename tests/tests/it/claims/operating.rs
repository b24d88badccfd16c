//! The operating point's loss against the simulated one, for links drawn at random from those Narrows is for.

use narrows_models::operating::{Bottleneck, Stack, operating_point};
use narrows_models::taq_chain::BackoffUntil;
use narrows_scenario::{Experiment, Run};
use narrows_units::{Bytes, Duration, Rate};

use super::simulate;

/// The bound of the comparison.
const BOUND: f64 = 0.03;

/// A link: 128 kbit/s to 5 Mbit/s, 50 to 600 ms, a buffer of half to two bandwidth-delay products, and as many flows as
/// leave each 0.5 to 12 packets a round trip with a full queue.
fn draw(rng: &mut fastrand::Rng) -> Bottleneck {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let (rate, rtt) = (between(128e3, 5e6), between(0.05, 0.6));
    let packet = [500.0, 1000.0, 1500.0][between(1.0, 4.0).min(3.9) as usize - 1];
    let bdp = rate * rtt / (8.0 * packet);
    let buffer = (bdp * between(0.5, 2.0)).max(8.0).round();
    let flows = ((bdp + buffer) / between(0.5, 12.0)).clamp(4.0, 600.0).round();
    Bottleneck {
        packet: Bytes(packet as u64),
        buffer_packets: buffer as u32,
        rto_min: Duration::from_millis(200),
        window: 64,
        stack: Stack::Rfc,
        backoff_ends: BackoffUntil::NewSample,
        ..Bottleneck::new(Rate::from_bps(rate as u64), Duration::from_nanos((rtt * 1e9) as u64), flows as u32)
    }
}

/// The link's run: senders without timestamps whose back-off ends with a new sample
/// ([`BackoffUntil::NewSample`]).
fn run(link: &Bottleneck, seconds: u32) -> Run {
    let (rtt, packet) = (link.rtt.as_secs_f64() * 1e3, link.packet.get());
    let text = format!(
        r#"
name = "link"
rate = "{rate}bit"
rtt = "{low:.3}ms..{high:.3}ms"
mtu = {packet}
overhead = 0
duration = "{seconds}s"
warmup = "{warmup}s"
jitter = "10s"
dephase = "{dephase:.3}ms"
discipline = "fifo:{buffer}"
[tcp]
preset = "ns2"
recovery = "sack"
receive_window = {window}
[[traffic]]
kind = "long"
flows = {flows}
"#,
        rate = link.rate.as_bps(),
        low = rtt * 0.95,
        high = rtt * 1.05,
        warmup = seconds / 4,
        // Two packet times break phase effects.
        dephase = 16e3 * packet as f64 / link.rate.as_bps() as f64,
        buffer = link.buffer_packets,
        window = link.window * (packet as u32 - 40),
        flows = link.flows,
    );
    Experiment::parse(&text, &[]).unwrap().expand().unwrap().remove(0)
}

/// Draws links, prints what model and simulation say of each, and gives the greatest difference in loss.
fn compare(links: usize, seconds: u32) -> f64 {
    let seed = 0x5eed;
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let links: Vec<Bottleneck> = (0..links).map(|_| draw(&mut rng)).collect();
    let runs = simulate(links.iter().map(|link| run(link, seconds)).collect());
    println!("   kbit/s  rtt ms  bytes  buffer  flows   share   loss  simulated");
    let mut worst = 0.0_f64;
    for (link, simulated) in links.iter().zip(&runs) {
        let point = operating_point(link).unwrap();
        let loss = simulated.results.summary.get("loss").copied().unwrap_or(0.0);
        println!(
            "{:9.0} {:7.0} {:6} {:7} {:6} {:7.2} {:6.3} {:10.3}",
            link.rate.as_bps() as f64 / 1e3,
            link.rtt.as_secs_f64() * 1e3,
            link.packet.get(),
            link.buffer_packets,
            link.flows,
            point.share_packets_per_rtt,
            point.loss,
            loss
        );
        worst = worst.max((point.loss - loss).abs());
    }
    println!("worst: {worst:.4}");
    worst
}

#[test]
fn loss_of_random_links() {
    let worst = compare(6, 120);
    assert!(worst <= BOUND, "{worst}");
}

#[test]
#[ignore = "half a minute of one core in a release build: make claims"]
fn loss_of_twenty_random_links() {
    let worst = compare(20, 600);
    assert!(worst <= BOUND, "{worst}");
}
