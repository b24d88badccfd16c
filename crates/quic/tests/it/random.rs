//! Whatever a path does, nothing panics, no byte is delivered twice, and what was written arrives in the end.

use narrows_quic::{Config, Datagram, Endpoint, Io, Preset, QuicEvent, Role};
use narrows_units::{Duration, Ecn, Instant};

const BYTES: u64 = 60_000;

#[derive(Default)]
struct Out {
    datagrams: Vec<Datagram>,
    delivered: u64,
    acked: u64,
    failed: bool,
}

impl Io for Out {
    fn send(&mut self, datagram: Datagram) {
        let inside: u32 = datagram.packets.iter().map(|p| p.len).sum();
        assert_eq!(inside, datagram.len, "{datagram:?}");
        assert!(datagram.len <= 1472);
        self.datagrams.push(datagram);
    }
    fn event(&mut self, event: QuicEvent) {
        match event {
            QuicEvent::Delivered { bytes } => self.delivered += bytes,
            QuicEvent::Acked { bytes } => self.acked += bytes,
            QuicEvent::IdleTimeout => self.failed = true,
            _ => {}
        }
    }
}

/// A transfer over a path that loses, doubles, delays and marks; what client and server saw.
fn transfer(seed: u64, preset: Preset) -> [Out; 2] {
    let mut rng = fastrand::Rng::with_seed(seed);
    let config = Config { idle: Duration::from_secs(3_600), ..Config::preset(preset) };
    let mut ends = [Endpoint::new(&config, Role::Client), Endpoint::new(&config, Role::Server)];
    let mut outs = [Out::default(), Out::default()];
    let mut flying: Vec<(Instant, usize, Datagram, Ecn)> = Vec::new();
    let mut now = Instant::ZERO;
    let loss = rng.f64() * 0.4;
    ends[0].open(&config, now, &mut outs[0]);
    ends[0].write_all(&config, now, 100, &mut outs[0]);
    let (mut answered, mut stuck, mut woken) = (false, 0, Instant::ZERO);
    for _ in 0..200_000 {
        for (end, out) in outs.iter_mut().enumerate() {
            for datagram in out.datagrams.drain(..) {
                let copies = if rng.f64() < loss { 0 } else { 1 + usize::from(rng.f64() < 0.05) };
                for _ in 0..copies {
                    let at = now
                        + Duration::from_micros(
                            rng.u64(20_000..80_000) * (1 + 9 * u64::from(rng.u8(..) == 0)),
                        );
                    let ecn = if rng.u8(..) < 5 { Ecn::Ce } else { datagram.ecn };
                    flying.push((at, 1 - end, datagram.clone(), ecn));
                }
            }
        }
        let next = flying.iter().enumerate().min_by_key(|(_, f)| f.0).map(|(at, f)| (at, f.0));
        let wake = [0, 1].map(|end| ends[end].wake_at(&config));
        let soonest = wake[0].min(wake[1]);
        if outs[0].delivered >= BYTES || (next.is_none() && soonest == Instant::FAR_FUTURE) {
            break;
        }
        if let Some((at, _)) = next.filter(|(_, time)| *time <= soonest) {
            let (time, end, datagram, ecn) = flying.swap_remove(at);
            now = now.max(time);
            ends[end].receive(&config, now, &datagram, ecn, &mut outs[end]);
        } else {
            now = now.max(soonest);
            let end = usize::from(wake[0] != soonest);
            ends[end].wake(&config, now, &mut outs[end]);
            // A probe timeout can be due already when the last has expired; then it has doubled.
            stuck = if soonest < now || woken == now { stuck + 1 } else { 0 };
            woken = now;
            assert!(stuck < 100, "{seed}: nothing but wake-ups at {now:?}");
        }
        if outs[1].delivered == 100 && !answered {
            answered = true;
            ends[1].write_all(&config, now, BYTES, &mut outs[1]);
        }
    }
    outs
}

#[test]
fn everything_arrives_once() {
    for seed in 0..60 {
        for preset in Preset::ALL {
            let [client, server] = transfer(seed, preset);
            assert!(!client.failed && !server.failed, "{seed} {preset:?}");
            assert_eq!((client.delivered, server.delivered), (BYTES, 100), "{seed} {preset:?}");
            assert!(server.acked <= BYTES && client.acked <= 100, "{seed} {preset:?}");
        }
    }
}
