//! `narrows model isolation` from outside: the fields of its JSON against the notes' tables, and what it refuses.

use super::{json, near, refusal, said_and_drawn};

/// Rows of the table of section 3.3.
#[test]
fn verdicts() {
    for (words, rho, verdict, sufficient) in [
        ("--flows 10 --alpha 0.1 --beta 0.14", 0.8633, "stable", true),
        ("--flows 10 --alpha 0.1 --beta 0.15", 1.0, "marginal", false),
        ("--flows 20 --alpha 0.1 --beta 0.1", 2.4142, "unstable", false),
        ("--flows 20 --alpha 0.1 --beta 0.1 --individual", 0.9487, "stable", true),
    ] {
        let got = json(&format!("isolation {words}"));
        near(&got["rho"], rho, 5e-5);
        assert_eq!(
            (&got["verdict"], &got["sufficient_stable"]),
            (&verdict.into(), &sufficient.into()),
            "{words}"
        );
        let stable = verdict == "stable";
        assert_eq!(
            (got["equilibrium"].is_null(), got["settling_steps"].is_null()),
            (!stable, !stable),
            "{words}"
        );
    }
}

/// The equilibria below the table: shared, with unequal gains, and each at its own queue.
#[test]
fn equilibria() {
    let at = "--flows 4 --capacity 40 --target 50";
    for (words, queue, rates, digit) in [
        (format!("{at} --alpha 0.05 --beta 0.1 --rates 30,5,1,0"), 50.0, [31.0, 6.0, 2.0, 1.0], 1e-9),
        (
            format!("{at} --alpha 0.1,0.05,0.02,0.01 --beta 0.2,0.1,0.05,0.05 --rates 30,5,1,0 --queue 10"),
            50.0,
            [33.111, 6.556, 1.222, -0.889],
            5e-4,
        ),
        (format!("{at} --alpha 0.05 --beta 0.1 --individual"), 50.0, [10.0; 4], 1e-9),
        (
            "--flows 4 --alpha 0.3 --beta 0.5 --individual --capacity 10,20,5,5 --target 12".to_owned(),
            12.0,
            [10.0, 20.0, 5.0, 5.0],
            1e-9,
        ),
    ] {
        let rest = &json(&format!("isolation {words}"))["equilibrium"];
        near(&rest["queue"], queue, 1e-9);
        for (i, rate) in rates.into_iter().enumerate() {
            near(&rest["rates"][i], rate, digit);
        }
    }
}

/// One word too many for the model is rc 2 and one sentence with the domain.
#[test]
fn outside_the_domain() {
    for (words, says) in [
        ("--flows 10 --alpha -0.1 --beta 0.1", "0 <= gain <= 1e6"),
        ("--flows 10 --alpha NaN --beta 0.1", "0 <= gain <= 1e6"),
        ("--flows 10 --alpha 0.1 --beta 0.1 --capacity 0", "capacity = 0: expected a finite number above 0"),
        ("--flows 3 --alpha 0.1,0.2 --beta 0.1", "one, or one for each"),
        ("--flows 2 --alpha 0.1 --beta 0.1 --capacity 1,2", "--individual"),
        ("--flows 0 --alpha 0.1 --beta 0.1", "1..=10000"),
    ] {
        let said = refusal(&format!("isolation {words}"));
        assert!(said.contains(says), "{words}: {said}");
    }
}

/// The table for people, and the picture.
#[test]
fn table_and_picture() {
    let (said, drawn) = said_and_drawn("isolation --flows 10 --alpha 0.1 --beta 0.14");
    assert!(said.contains("stable") && said.contains("0.8633"), "{said}");
    assert!(drawn.contains("queues of their own") && !drawn.contains("NaN"));
}
