use super::*;

/// Two rates, two disciplines, three seeds; one baseline without a discipline.
fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for (rate, discipline, jain) in [
        ("200kbit", "fifo:10", [0.3, 0.5, 0.4]),
        ("200kbit", "taq", [0.97, 0.99, 0.98]),
        ("600kbit", "fifo:30", [0.6, 0.6, 0.9]),
        ("600kbit", "taq", [0.99, 0.99, 1.0]),
    ] {
        for (seed, x) in (1..).zip(jain) {
            let coords = [("rate", rate), ("discipline", discipline)];
            all.push(Sample {
                coords: coords.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
                seed,
                metrics: [("jain_20s".to_owned(), x), ("loss".to_owned(), 0.1)].into(),
            });
        }
    }
    all
}

fn claim(expr: &str, bound: &str, more: &str) -> Result<Claim, Error> {
    let text = format!("[[claim]]\ntext = \"t\"\nwhy = \"w\"\nexpr = '{expr}'\nbound = \"{bound}\"\n{more}");
    let table: toml::Table = toml::from_str(&text).unwrap();
    Ok(Claim::read(Reader::new(&table, "").tables("claim")?)?.remove(0))
}

fn judge(expr: &str, bound: &str) -> Result<Judgment, Error> {
    claim(expr, bound, "")?.judge(&samples())
}

fn number(expr: &str) -> f64 {
    let v = judge(expr, ">= 0").unwrap();
    assert_eq!(v.elements.len(), 1, "{expr}: {:?}", v.elements);
    v.elements[0].1
}

#[test]
fn values_by_hand() {
    // Medians over seeds: 0.4, 0.98, 0.6, 0.99.
    assert_eq!(number("min(jain_20s)"), 0.4);
    assert_eq!(number("max(jain_20s)"), 0.99);
    assert_eq!(number("count(jain_20s)"), 4.0);
    assert_eq!(number("mean(jain_20s > 0.8)"), 0.5);
    assert_eq!(number("median(jain_20s)"), 0.79);
    assert_eq!(number("min(jain_20s@min)"), 0.3);
    assert_eq!(number("max(jain_20s@max)"), 1.0);
    assert_eq!(number("count(jain_20s@each)"), 12.0);
    assert!((number("sum(jain_20s@mean{discipline=fifo*})") - (0.4 + 0.7)).abs() < 1e-12);
    assert_eq!(number("min(jain_20s{rate>=600kbit})"), 0.6);
    assert_eq!(number("min(jain_20s{discipline!=taq,rate=0.6mbit})"), 0.6);
    assert_eq!(number("max(3, 1)"), 3.0);
    assert_eq!(number("abs(-2) + 200ms"), 2.2);
}

#[test]
fn vectors_match_on_the_labels_left() {
    let v = judge("jain_20s{discipline=taq} - jain_20s{discipline=fifo*}", ">= 0.4").unwrap();
    assert_eq!(v.elements.len(), 2);
    // 0.99 - 0.6 at 600 kbit/s breaks the bound, 0.98 - 0.4 at 200 kbit/s does not.
    assert_eq!(v.worst.0, Labels::from([("rate".to_owned(), "600kbit".to_owned())]));
    assert!((v.worst.1 - 0.39).abs() < 1e-12);
    assert_eq!((v.outcome, v.as_expected), (ClaimOutcome::Fails, false));
    // A side with fewer labels serves all points of the other, on either side of the sign.
    let both = judge("jain_20s / jain_20s{discipline=taq}", "<= 1").unwrap();
    assert_eq!((both.elements.len(), both.outcome), (4, ClaimOutcome::Holds));
    assert_eq!(judge("jain_20s{discipline=taq} / jain_20s", ">= 1").unwrap().outcome, ClaimOutcome::Holds);
    assert_eq!(
        judge("max(jain_20s, jain_20s{discipline=taq})", ">= 0.98").unwrap().outcome,
        ClaimOutcome::Holds
    );
}

/// Two losses by two sizes, with a figure of each: the recursion's own value, T(B_10^1) = 1.4911 s at p = 0.1, and a
/// hundredth less.
#[test]
fn a_model_at_every_point_of_a_sweep() {
    let sample = |p: &str, segments: &str, mean_s: f64| Sample {
        coords: [("p", p), ("segments", segments)].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        seed: 1,
        metrics: [("mean_s".to_owned(), mean_s)].into(),
    };
    let samples = [
        sample("0.1", "10", 1.4911 * 0.99),
        sample("0.1", "4", 0.7666),
        sample("0.02", "10", 0.6142),
        sample("0.02", "4", 0.3822),
    ];
    let worst = |expr: &str| claim(expr, "<= 0.005", "").unwrap().judge(&samples).unwrap().worst;
    let (labels, off) = worst("abs(mean_s / spreading_b(segments, 1, p, 0.1) - 1)");
    assert_eq!((labels["p"].as_str(), labels["segments"].as_str()), ("0.1", "10"));
    assert!((off - 0.01).abs() < 1e-4, "{off}");
    // A filter that takes a label away leaves the other to match by; numbers alone make a number.
    let (labels, off) = worst("abs(mean_s{p=0.1} / spreading_b(segments{p=0.1}, 1, 0.1, 0.1) - 1)");
    assert_eq!(labels, Labels::from([("segments".to_owned(), "10".to_owned())]));
    assert!((off - 0.01).abs() < 1e-4, "{off}");
    assert!((worst("spreading_b(10, 1, 0.1, 0.1)").1 - 1.4911).abs() < 6e-5);
    let e = claim("spreading_b(segments, 1, mean_s{segments=4}, 0.1) * mean_s{p=0.1}", "> 0", "").unwrap();
    let e = e.judge(&[&samples[..3], &[]].concat()).unwrap_err().to_string();
    assert!(e.contains("an argument of spreading_b has no point p=0.02"), "{e}");
}

#[test]
fn outcomes_and_what_was_expected() {
    let of = |more: &str| {
        let c = claim("jain_20s{discipline=taq} - jain_20s{discipline=fifo*}", ">= 0.9", more).unwrap();
        let v = c.judge(&samples()).unwrap();
        (v.outcome, v.as_expected)
    };
    assert_eq!(of(""), (ClaimOutcome::Fails, false));
    assert_eq!(of("expect = \"fails\"\nreason = \"r\""), (ClaimOutcome::Fails, true));
    let direction = "expect = \"direction\"\ndirection = \"> 0\"\nreason = \"r\"";
    assert_eq!(of(direction), (ClaimOutcome::Direction, true));
    assert_eq!(judge("min(jain_20s)", "0.39..0.41").unwrap().outcome, ClaimOutcome::Holds);
    assert_eq!(judge("min(jain_20s)", "== 0.4").unwrap().outcome, ClaimOutcome::Holds);
    assert_eq!(judge("0 - 3", "<= -3").unwrap().outcome, ClaimOutcome::Holds);
    assert_eq!(judge("0/0", ">= 0").unwrap().outcome, ClaimOutcome::Fails, "NaN fulfils nothing");
}

/// One seed in which nothing came to its end must not vanish behind those in which something did.
#[test]
fn a_seed_without_a_value_is_not_passed_over() {
    let mut samples = samples();
    samples[1].metrics.insert("jain_20s".to_owned(), f64::NAN);
    for expr in ["max(jain_20s@min)", "min(jain_20s@max)", "mean(jain_20s@mean)", "min(jain_20s)"] {
        let v = claim(expr, ">= 0", "").unwrap().judge(&samples).unwrap();
        assert_eq!(v.outcome, ClaimOutcome::Fails, "{expr}");
    }
}

#[test]
fn mistakes_name_claim_place_and_remedy() {
    for (expr, bound, says) in [
        ("jain_20", ">= 0", "did you mean 'jain_20s'?"),
        ("min(jain)", ">= 0", "character 5: no run has the metric 'jain'; did you mean 'jain_20s'?"),
        ("zzz", ">= 0", "expected one of jain_20s, loss"),
        ("jain_20s{disc=taq}", ">= 0", "nothing is swept by 'disc': expected one of discipline, rate"),
        ("jain_20s{discipline=red}", ">= 0", "there are fifo:10, fifo:30, taq"),
        ("jain_20s{discipline=*}", ">= 0", "more than one value for rate=200kbit"),
        (
            "jain_20s{discipline=taq} - jain_20s{discipline=fifo:10}",
            ">= 0",
            "the right side of '-' has no point",
        ),
        ("jain_20s{discipline=fifo:10} - jain_20s{discipline=taq}", ">= 0", "no point rate=600kbit"),
        ("mn(jain_20s)", ">= 0", "did you mean 'min'?"),
        ("mean(1, 2)", ">= 0", "one argument"),
        ("taq_chan(1, 0, 0.1)", ">= 0", "did you mean 'taq_chain'?"),
        ("taq_chain(1, 0)", ">= 0", "character 1: expected taq_chain(memory, packets, loss)"),
        ("1 +", ">= 0", "character 4: expected a number"),
        ("1", "about 3", "bound = 'about 3': expected a bound"),
        ("1", "3..2", "expected a bound"),
    ] {
        let e = judge(expr, bound).unwrap_err().to_string();
        assert!(e.starts_with("claim.0.") && e.contains(says), "{expr}: {e}");
    }
    for (more, says) in [
        ("expect = \"direction\"\nreason = \"r\"", "bound of the direction"),
        ("expect = \"fails\"", "why less"),
        ("expect = \"maybe\"", "holds, direction, fails"),
        ("tolerance = 3", "no such key"),
    ] {
        let e = claim("1", "> 0", more).unwrap_err().to_string();
        assert!(e.contains(says), "{more}: {e}");
    }
}

#[test]
fn a_formula_knows_what_it_names() {
    let formula = Formula::parse("max(abs(loss{rate=600kbit} - 2*jain_20s@min), -loss) > 1").unwrap();
    assert_eq!(formula.metrics().into_iter().collect::<Vec<_>>(), ["jain_20s", "loss"]);
}

#[test]
fn what_a_claim_counts_as() {
    let reading = |more: &str| claim("min(loss)", "> 0", more).unwrap().reading;
    assert_eq!(reading("source = \"TAQ, figure 8\""), Reading::Paper);
    // Without a source, or with one that says so, it is our own.
    assert_eq!([reading(""), reading("source = \"own; Little 1961\"")], [Reading::Ours; 2]);
    assert_eq!(reading("source = \"TAQ, figure 8\"\nreading = \"ours\""), Reading::Ours);
    let other = "source = \"TAQ\"\nreading = \"variant\"\nsentence = \"5.1: index\"";
    assert_eq!((reading(other), Reading::Variant.word()), (Reading::Variant, "variant"));
    // Another reading of nothing tells nobody what it varies.
    let refused = claim("min(loss)", "> 0", "source = \"TAQ\"\nreading = \"variant\"").unwrap_err();
    assert!(refused.to_string().contains("sentence"), "{refused}");
}
