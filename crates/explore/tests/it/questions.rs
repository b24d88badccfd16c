//! Questions of the page, and what is refused.

use core::ops::ControlFlow;

use narrows_explore::{PRESETS, Settings, Which, answer, fragment, python, side, toml};
use narrows_scenario::Experiment;
use serde_json::{Value, json};

fn asked(question: &Value) -> Value {
    serde_json::from_str(&answer(&question.to_string(), &mut |_| ControlFlow::Continue(()))).unwrap()
}

/// Fields of the problems of an answer.
fn refused(settings: &Value) -> Vec<String> {
    let answer = asked(&json!({ "ask": "side", "settings": settings, "side": "a", "user": null }));
    let problems = answer["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().map(|p| p["field"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_cannot_be_is_told_at_its_field() {
    for (settings, field) in [
        (json!({ "rate_kbps": 0 }), "rate_kbps"),
        (json!({ "rate_kbps": "fast" }), "rate_kbps"),
        (json!({ "users": null }), "users"),
        (json!({ "users": 0 }), "users"),
        (json!({ "load": "films" }), "load"),
        (json!({ "a": "fifi" }), "a"),
        (json!({ "b": "kernel:cake" }), "b"),
        (json!({ "a": "taq:target=5ms" }), "a"),
        (json!({ "load": "pages", "tls": true }), "tls"),
        (json!({ "senders": "ns2", "tls": true }), "tls"),
        (json!({ "mtu": 500, "quic_percent": 50 }), "mtu"),
        (json!({ "rates_kbps": [0, 0] }), "rates_kbps"),
        (json!({ "rate_kbps": 20000, "seconds": 1200 }), "seconds"),
        (json!({ "color": "red" }), "color"),
    ] {
        assert_eq!(refused(&settings), [field], "{settings}");
    }
}

#[test]
fn a_run_stops_with_a_word() {
    let question = json!({ "ask": "side", "settings": { "seconds": 1200 }, "side": "a", "user": null });
    let text = answer(&question.to_string(), &mut |done| {
        if done > 0.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(text, r#"{"problems":[{"field":"","says":"stopped"}]}"#);
}

#[test]
fn the_page_is_told_all_it_shows() {
    let about = asked(&json!({ "ask": "about" }));
    let defaults = about["defaults"].as_object().unwrap();
    let fields = about["fields"].as_array().unwrap();
    assert_eq!(fields.len(), defaults.len(), "each setting has a field");
    for field in fields {
        assert!(defaults.contains_key(field["key"].as_str().unwrap()), "{field}");
        assert!(field["about"].as_str().unwrap().ends_with('.'), "{field}");
        let label = field["label"].as_str().unwrap();
        let joined =
            label.as_bytes().windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase());
        assert!(!joined, "words for people, no name from the code: {label}");
    }
    assert_eq!(about["presets"].as_array().unwrap().len(), PRESETS.len());
}

/// Words of the page's lists are those of scenario files, so that none of them ends in an error.
#[test]
fn every_choice_of_the_page_makes_a_scenario() {
    let about = asked(&json!({ "ask": "about" }));
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let choices = list(&about["fields"]).into_iter().flat_map(|field| {
        let key = field["key"].as_str().unwrap().to_owned();
        list(&field["words"]).into_iter().map(move |word| (key.clone(), word[0].clone()))
    });
    let queues = list(&about["queues"]).into_iter().map(|queue| ("a".to_owned(), queue["spec"].clone()));
    let all: Vec<(String, Value)> = choices.chain(queues).collect();
    assert!(all.len() > 15, "{all:?}");
    for (key, word) in all {
        let settings = Settings::read(&json!({ "calls": 1, &key: word })).unwrap();
        assert_eq!(settings.problems(), [], "{key} {word}");
        let runs = Experiment::parse(&toml(&settings), &[]).and_then(|experiment| experiment.expand());
        let queues = if word == settings.b.as_str() { 1 } else { 2 };
        assert_eq!(runs.unwrap().len(), queues, "{key} {word}: a run for each queue");
    }
}

/// Rates beyond the end of the run are of no run: a fair share and the models' mean leave them out.
#[test]
fn a_recorded_rate_counts_for_the_seconds_simulated() {
    let rates_kbps = [vec![100.0, 300.0, 100.0, 300.0, 100.0], vec![9000.0; 100]].concat();
    let settings = Settings { rates_kbps, users: 2, seconds: 5, ..Settings::default() };
    // 900 kbit in five seconds.
    assert_eq!(settings.mean_kbps(), 180.0);
    let found = side(&settings, Which::A, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(found.bits.capacity, 112_500);
    // A list that is shorter than the run begins again: 100, 300, 100, 300, 100.
    let again = Settings { rates_kbps: vec![100.0, 300.0], ..settings };
    assert_eq!(again.mean_kbps(), 180.0);
}

#[test]
fn the_mathematics_stands_beside() {
    let words = asked(&json!({ "ask": "words", "settings": {} }));
    assert!(words["verdict"].as_str().unwrap().starts_with("Past the tipping point"), "{words}");
    assert_eq!(words["rows"][1]["figure"], "user_stall_over_5s");
    assert!(words["toml"].as_str().unwrap().contains("disciplines = [\"fifo:30\",\"taq\"]"), "{words}");
    let deep = asked(&json!({ "ask": "words", "settings": { "buffer": 500 } }));
    assert!(deep["verdict"].as_str().unwrap().contains("long waits"), "10 s of buffer are not fine: {deep}");
    let calls = asked(&json!({ "ask": "words", "settings": { "users": 0, "calls": 2 } }));
    assert_eq!(calls["rows"], json!([]), "no model is about calls");
}

#[test]
fn presets_have_names_and_addresses_of_their_own() {
    let all: Vec<String> = PRESETS.iter().map(|p| fragment(&Settings::read(&p.values()).unwrap())).collect();
    let once: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(once.len(), PRESETS.len(), "{all:?}");
    assert_eq!(all[0], "", "the page begins with the first");
}

#[test]
fn python_names_each_part_as_the_package_does() {
    let settings =
        Settings { downloads: 2, calls: 1, senders: "rfc".into(), quic_percent: 50.0, ..Settings::default() };
    let text = python(&settings);
    for part in [
        "narrows.Objects(name=\"quic\", users=50, connections=1, transport=\"quic\")",
        "narrows.Long(name=\"downloads\", flows=2)",
        "narrows.Calls(name=\"calls\", flows=1, shape=\"opus24\")",
        "tcp=narrows.Tcp(preset=\"rfc\")",
        "seeds=[1]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    the_package_has_the_keys_of(&text);
    let changing = python(&Settings { rates_kbps: vec![100.0, 0.0], seconds: 5, ..Settings::default() });
    the_package_has_the_keys_of(&changing);
    assert!(changing.contains("from_=\"left\"") && changing.contains("[\"1s\",\"0\"]"), "{changing}");
}

/// Each argument of each class in `text` is a field of that class in the Python package, or of the class it extends.
fn the_package_has_the_keys_of(text: &str) {
    let Some(root) = narrows_testing::repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let read = |name: &str| std::fs::read_to_string(root.join("python/narrows").join(name)).unwrap();
    let package = ["scenario.py", "parts.py", "traffic.py"].map(read).join("\n");
    let fields = |class: &str| {
        let head = format!("\nclass {class}");
        let body = package.split(&head).nth(1).unwrap_or_else(|| panic!("no class {class}"));
        body.split("\nclass ").next().unwrap().to_owned()
    };
    for call in text.split("narrows.").skip(1).filter(|call| !call.starts_with("sweep")) {
        let (class, arguments) = call.split_once('(').unwrap();
        let body = fields(class) + &fields("Traffic");
        for key in
            arguments.split(['(', ',', '\n', ' ']).filter_map(|word| word.split_once('=')).map(|(key, _)| key)
        {
            // A scenario's own keys follow those of its parts.
            let known = |body: &str| body.contains(&format!("\n    {key}:"));
            assert!(key.is_empty() || known(&body) || known(&fields("Scenario")), "{class} has no {key}");
        }
    }
}
