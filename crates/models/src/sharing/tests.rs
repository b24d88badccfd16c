use super::*;

const SEED: u64 = 1966;

/// A link of a byte a second: times are in bytes.
fn unit(load: f64, sizes: Sizes) -> SharedQueue {
    SharedQueue::new(Rate::from_bps(8), load, sizes).unwrap()
}

fn near(got: f64, expected: f64, relative: f64) {
    let of = expected.abs().max(1e-300);
    assert!((got - expected).abs() <= relative * of, "{got} is not {expected} to {relative} (seed {SEED})");
}

fn laws() -> Vec<Sizes> {
    vec![
        Sizes::Fixed { bytes: 7.0 },
        Sizes::List(vec![3.0, 1.0, 3.0, 40.0]),
        Sizes::Exponential { mean_bytes: 5.0 },
        Sizes::Pareto { scale_bytes: 2.0, shape: 1.2 },
        Sizes::Pareto { scale_bytes: 2.0, shape: 2.5 },
        Sizes::BoundedPareto { low_bytes: 2.0, high_bytes: 31.0, shape: 1.0 },
        Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 1e4, shape: 1.1 },
        Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 1e3, shape: 2.0 },
    ]
}

/// Sizes 1 and 3, each half, load 1/2, so lambda = 1/4. SRPT: rho(1) = 1/8. T(1) = (1/4)(1/2 + 1/2)/(2 * 7/8) + 1 =
/// 8/7; T(3) = (1/4) 5/(2 * 7/8 * 1/2) + 1 + 2/(7/8) = 10/7 + 23/7. FIFO: 2 + (1/4) 5/(2 * 1/2). PS: 2/(1/2).
#[test]
fn two_sizes_by_hand() {
    let q = unit(0.5, Sizes::List(vec![3.0, 1.0]));
    near(q.srpt_s(1.0).unwrap(), 8.0 / 7.0, 1e-14);
    near(q.srpt_s(3.0).unwrap(), 33.0 / 7.0, 1e-14);
    near(q.srpt_mean_s(), 41.0 / 14.0, 1e-14);
    near(q.fifo_mean_s().unwrap(), 3.25, 1e-14);
    near(q.ps_mean_s(), 4.0, 1e-14);
    near(q.ps_s(3.0).unwrap(), 6.0, 1e-14);
    // Bytes and bits give the same: 3 kB at 800 kbit/s, 100 kB a second.
    let link = SharedQueue::new(Rate::from_kbps(800), 0.5, Sizes::List(vec![1000.0, 3000.0])).unwrap();
    near(link.srpt_s(3000.0).unwrap(), 33.0 / 700.0, 1e-14);
    near(link.mean_bytes(), 2000.0, 1e-14);
}

/// Nothing overtakes where all sizes are one: SRPT is the FIFO of M/D/1, D (1 + rho/(2(1-rho))).
#[test]
fn one_size() {
    for load in [0.0, 0.3, 0.9, 0.99] {
        let q = unit(load, Sizes::Fixed { bytes: 7.0 });
        let md1 = 7.0 * (1.0 + load / (2.0 * (1.0 - load)));
        for got in [q.fifo_mean_s().unwrap(), q.srpt_mean_s(), q.srpt_s(7.0).unwrap()] {
            near(got, md1, 1e-13);
        }
    }
}

/// M/M/1: FIFO and PS have one mean, m/(1-rho). SRPT by its double integral, a Riemann sum over x in closed inner form:
/// rho(t) = rho (1 - (1+t) e^-t), int_0^x t^2 e^-t dt = 2 - (x^2+2x+2) e^-x.
#[test]
fn exponential_sizes() {
    for load in [0.1, 0.5, 0.8, 0.95] {
        let q = unit(load, Sizes::Exponential { mean_bytes: 1.0 });
        near(q.fifo_mean_s().unwrap(), 1.0 / (1.0 - load), 1e-13);
        near(q.ps_mean_s(), 1.0 / (1.0 - load), 1e-13);
        let step = 1e-4;
        let (mut mean, mut service) = (0.0, 0.0);
        for i in 0..400_000 {
            let x = (f64::from(i) + 0.5) * step;
            let tail = (-x).exp();
            let free = 1.0 - load * (1.0 - (1.0 + x) * tail);
            // To the middle of this step.
            service += step / free / 2.0;
            let wait = load * (2.0 - (x * x + 2.0 * x + 2.0) * tail + x * x * tail) / (2.0 * free * free);
            mean += step * tail * (wait + service);
            service += step / free / 2.0;
            if i == 29_999 {
                near(
                    q.srpt_s(3.0).unwrap(),
                    load * (2.0 - 8.0 * (-3.0_f64).exp())
                        / 2.0
                        / (1.0 - load * (1.0 - 4.0 * (-3.0_f64).exp())).powi(2)
                        + service,
                    1e-6,
                );
            }
        }
        near(q.srpt_mean_s(), mean, 1e-6);
    }
}

/// Pareto with shape 2 and scale 1, in u = 1/x: rho(x) = rho (1-u), service to x is x/(1-rho) - rho/(1-rho)^2
/// ln((1-rho)x + rho) and its mean 1 + ln(1/(1-rho))/rho; the mean wait rho/2 int_0^1 u (1 - 2 ln u) / (1-rho+rho u)^2
/// du.
#[test]
fn pareto_sizes() {
    for load in [0.2_f64, 0.7, 0.97] {
        let q = unit(load, Sizes::Pareto { scale_bytes: 1.0, shape: 2.0 });
        let free = 1.0 - load;
        let to = |x: f64| x / free - load / free.powi(2) * (free * x + load).ln();
        for x in [1.5, 20.0, 1e4] {
            near(q.srpt_service(x), 1.0 + to(x) - to(1.0), 1e-8);
        }
        let n = 1_000_000;
        let wait: f64 = (0..n)
            .map(|i| (f64::from(i) + 0.5) / f64::from(n))
            .map(|u| u * (1.0 - 2.0 * u.ln()) / (free + load * u).powi(2))
            .sum::<f64>()
            / f64::from(n);
        near(q.srpt_mean_s(), load / 2.0 * wait + 1.0 - free.ln() / load, 1e-7);
        assert!(q.fifo_mean_s().unwrap_err().to_string().contains("a shape above 2"));
    }
    // Shape 3: E[S] = 3/2, E[S^2] = 3: FIFO 1.5 + (.5/1.5) 3 / (2 * .5).
    near(unit(0.5, Sizes::Pareto { scale_bytes: 1.0, shape: 3.0 }).fifo_mean_s().unwrap(), 2.5, 1e-13);
}

/// The bounded law with shape 1 on 2 to 31: E[S] = ln(31/2) 62/29, E[S^2] = 62; the law with no end in the limit.
#[test]
fn bounded_pareto_sizes() {
    let one = Sizes::BoundedPareto { low_bytes: 2.0, high_bytes: 31.0, shape: 1.0 };
    let mean = (31.0_f64 / 2.0).ln() * 62.0 / 29.0;
    near(unit(0.5, one.clone()).mean_bytes(), mean, 1e-13);
    near(unit(0.5, one).fifo_wait_s().unwrap(), 0.5 / mean * 62.0, 1e-13);
    let ends = Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 1e12, shape: 2.5 };
    let endless = Sizes::Pareto { scale_bytes: 1.0, shape: 2.5 };
    near(unit(0.8, ends).srpt_mean_s(), unit(0.8, endless).srpt_mean_s(), 1e-6);
}

/// Many quantiles are the law: the sums for lists and the integrals for laws are two ways to one number.
#[test]
fn a_list_of_quantiles_is_the_law() {
    let n = 20_000;
    let u = |i: i32| (f64::from(i) + 0.5) / f64::from(n);
    let exponential = (0..n).map(|i| -1e3 * (-u(i)).ln_1p()).collect();
    let cut = 1.0 - 1e-2_f64.powf(1.1);
    let bounded = (0..n).map(|i| 1e3 * (1.0 - u(i) * cut).powf(-1.0 / 1.1)).collect();
    for (list, law) in [
        (exponential, Sizes::Exponential { mean_bytes: 1e3 }),
        (bounded, Sizes::BoundedPareto { low_bytes: 1e3, high_bytes: 1e5, shape: 1.1 }),
    ] {
        let (list, law) = (unit(0.7, Sizes::List(list)), unit(0.7, law));
        near(list.srpt_mean_s(), law.srpt_mean_s(), 1e-3);
        near(list.srpt_s(3e3).unwrap(), law.srpt_s(3e3).unwrap(), 1e-3);
        near(list.fifo_mean_s().unwrap(), law.fifo_mean_s().unwrap(), 1e-3);
    }
}

#[test]
fn srpt_is_the_least_and_an_empty_link_costs_nothing() {
    for law in laws() {
        let mut before = 0.0;
        for load in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.9999] {
            let q = unit(load, law.clone());
            let (srpt, ps) = (q.srpt_mean_s(), q.ps_mean_s());
            assert!(
                srpt <= ps * (1.0 + 1e-9) && srpt >= q.mean_bytes() * (1.0 - 1e-9),
                "{law:?} at {load}: {srpt}, {ps}"
            );
            assert!(q.fifo_mean_s().map_or(true, |t| t >= srpt * (1.0 - 1e-9)), "{law:?} at {load}");
            assert!(srpt >= before, "{law:?} at {load}");
            before = srpt;
            let mut shorter = 0.0;
            for x in [0.01, 1.0, 2.0, 2.5, 7.0, 30.0, 1e3, 1e6] {
                let t = q.srpt_s(x).unwrap();
                assert!(
                    t > shorter && t >= x * (1.0 - 1e-9) && t.is_finite(),
                    "{law:?} at {load}: {x} takes {t}"
                );
                shorter = t;
            }
        }
        let idle = unit(0.0, law.clone());
        near(idle.srpt_mean_s(), idle.mean_bytes(), 1e-9);
        near(idle.srpt_s(5.0).unwrap(), 5.0, 1e-9);
    }
}

/// The mean of a law's conditional times is its mean time.
#[test]
fn the_mean_is_the_mean_of_all_sizes() {
    let q = unit(0.7, Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 100.0, shape: 1.1 });
    let n = 2_000;
    let cut = 1.0 - 1e-2_f64.powf(1.1);
    let sum: f64 = (0..n)
        .map(|i| (1.0 - (f64::from(i) + 0.5) / f64::from(n) * cut).powf(-1.0 / 1.1))
        .map(|x| q.srpt_s(x).unwrap())
        .sum();
    near(sum / f64::from(n), q.srpt_mean_s(), 1e-3);
    let list = unit(0.7, Sizes::List(vec![1.0, 2.0, 2.0, 9.0]));
    let of = |x| list.srpt_s(x).unwrap();
    near((of(1.0) + 2.0 * of(2.0) + of(9.0)) / 4.0, list.srpt_mean_s(), 1e-13);
}

#[test]
fn domains_are_stated() {
    let link = Rate::from_kbps(600);
    let fixed = |bytes| Sizes::Fixed { bytes };
    for load in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(SharedQueue::new(link, load, fixed(1.0)).is_err());
    }
    for x in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e16] {
        for law in [
            fixed(x),
            Sizes::List(vec![1.0, x]),
            Sizes::Exponential { mean_bytes: x },
            Sizes::Pareto { scale_bytes: x, shape: 2.0 },
            Sizes::Pareto { scale_bytes: 1.0, shape: x },
            Sizes::BoundedPareto { low_bytes: x, high_bytes: 1e15, shape: 2.0 },
            Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: x, shape: 2.0 },
            Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 2.0, shape: x },
        ] {
            assert!(SharedQueue::new(link, 0.5, law.clone()).is_err(), "{law:?}");
        }
        let q = unit(0.5, fixed(1.0));
        assert!(q.ps_s(x).is_err() && q.srpt_s(x).is_err());
    }
    assert!(SharedQueue::new(link, 0.5, Sizes::List(vec![])).is_err());
    let equal = Sizes::BoundedPareto { low_bytes: 2.0, high_bytes: 2.0, shape: 1.0 };
    assert!(SharedQueue::new(link, 0.5, equal).is_err());
    // The corners of the domain.
    for law in [
        Sizes::Pareto { scale_bytes: 1e15, shape: 1.1 },
        Sizes::Pareto { scale_bytes: 1e-3, shape: 100.0 },
        Sizes::BoundedPareto { low_bytes: 1e-3, high_bytes: 1e15, shape: 100.0 },
        Sizes::BoundedPareto { low_bytes: 1e-3, high_bytes: 1e15, shape: 0.01 },
        Sizes::BoundedPareto { low_bytes: 1e-3, high_bytes: 1e15, shape: 1.0 },
    ] {
        let q = SharedQueue::new(Rate::from_bps(1), 0.9999, law.clone()).unwrap();
        for t in [q.srpt_mean_s(), q.ps_mean_s(), q.srpt_s(1e15).unwrap(), q.srpt_s(1e-3).unwrap()] {
            assert!(t.is_finite() && t > 0.0, "{law:?}: {t}");
        }
    }
}

/// How transfers share the server of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Sharing,
    ShortestFirst,
    Fifo,
}

/// Sizes and times of `count` transfers in the order of their coming, on a link of a byte a second: from event to
/// event, an arrival or the end of one that is served.
fn serve(order: Order, load: f64, count: usize, draw: impl Fn(f64) -> f64, mean: f64) -> Vec<(f64, f64)> {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let gap = |rng: &mut fastrand::Rng| -(1.0 - rng.f64()).ln() * mean / load;
    let mut done = vec![(0.0, f64::NAN); count];
    // Left to send, number, since when.
    let mut here: Vec<(f64, usize, f64)> = Vec::new();
    let (mut now, mut next, mut come) = (0.0, gap(&mut rng), 0);
    while come < count || !here.is_empty() {
        let shortest = |a: &(f64, usize, f64), b: &(f64, usize, f64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let served = match order {
            Order::Fifo => (0..here.len()).min_by_key(|i| here[*i].1),
            _ => (0..here.len()).min_by(|a, b| shortest(&here[*a], &here[*b])),
        };
        let sharers = if order == Order::Sharing { here.len() as f64 } else { 1.0 };
        let end = served.map_or(f64::INFINITY, |i| now + here[i].0 * sharers);
        let arrival = if come < count { next } else { f64::INFINITY };
        let passed = (end.min(arrival) - now) / sharers;
        for (i, one) in here.iter_mut().enumerate() {
            if order == Order::Sharing || Some(i) == served {
                one.0 -= passed;
            }
        }
        now = end.min(arrival);
        if let (true, Some(i)) = (end <= arrival, served) {
            let (_, number, since) = here.swap_remove(i);
            done[number].1 = now - since;
        } else {
            let size = draw(rng.f64());
            done[come].0 = size;
            here.push((size, come, now));
            (come, next) = (come + 1, next + gap(&mut rng));
        }
    }
    done
}

/// The mean of `of` over all transfers but the first twentieth, and its standard error from twenty parts.
fn batches(done: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let done = &done[done.len() / 20..];
    let means: Vec<f64> =
        done.chunks_exact(done.len() / 20).map(|c| c.iter().map(&of).sum::<f64>() / c.len() as f64).collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    (mean, (means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
}

/// Every closed form within three standard errors of a queue run from event to event.
#[test]
fn the_closed_forms_match_the_process() {
    let list = [1.0, 2.0, 2.0, 9.0];
    let cut = 1.0 - 1e-2_f64.powf(1.1);
    type Draw = Box<dyn Fn(f64) -> f64>;
    let laws: [(Sizes, Draw); 4] = [
        (Sizes::Exponential { mean_bytes: 1.0 }, Box::new(|u| -(1.0 - u).ln())),
        (
            Sizes::BoundedPareto { low_bytes: 1.0, high_bytes: 100.0, shape: 1.1 },
            Box::new(move |u| (1.0 - u * cut).powf(-1.0 / 1.1)),
        ),
        (Sizes::List(list.to_vec()), Box::new(move |u| list[(u * 4.0) as usize])),
        (Sizes::Fixed { bytes: 1.0 }, Box::new(|_| 1.0)),
    ];
    for (law, draw) in laws {
        for load in [0.4, 0.7] {
            let q = unit(load, law.clone());
            for order in [Order::Sharing, Order::ShortestFirst, Order::Fifo] {
                let done = serve(order, load, 60_000, &draw, q.mean_bytes());
                let expected = match order {
                    Order::Sharing => q.ps_mean_s(),
                    Order::ShortestFirst => q.srpt_mean_s(),
                    Order::Fifo => q.fifo_mean_s().unwrap(),
                };
                let (got, error) = batches(&done, |d| d.1);
                let said =
                    format!("seed {SEED}, {law:?}, load {load}, {order:?}: {got} +- {error}, {expected}");
                assert!((got - expected).abs() < 3.0 * error && error < 0.05 * got, "{said}");
                // By size: the time less the expected one of that size has mean zero for small ones and large ones. Of
                // sizes within two percent, one is computed.
                let mut known = std::collections::BTreeMap::new();
                let mut of_size = |x: f64| {
                    *known.entry((x.ln() * 50.0).round() as i64).or_insert_with(|| match order {
                        Order::Sharing => q.ps_s(x).unwrap() / x,
                        Order::ShortestFirst => q.srpt_s(x).unwrap() / x,
                        Order::Fifo => 1.0,
                    }) * x
                };
                let wait = if order == Order::Fifo { q.fifo_wait_s().unwrap() } else { 0.0 };
                let off: Vec<(f64, f64)> =
                    done.iter().map(|(x, t)| (*x, t - wait - of_size(x.max(1e-3)))).collect();
                for small in [true, false] {
                    let chosen = |d: &(f64, f64)| if (d.0 <= q.mean_bytes()) == small { d.1 } else { 0.0 };
                    let (off, error) = batches(&off, chosen);
                    assert!(off.abs() <= 3.0 * error, "{said}; small {small}: {off} +- {error}");
                }
            }
        }
    }
}
