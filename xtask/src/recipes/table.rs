//! Recipes beside the Makefile's targets, in the words of their commands.

use super::Recipe;
use super::Who::{Contributors, Operators, Researchers};

/// Recipes in the order of the list; one without commands is a task of xtask itself.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "box",
        who: Operators,
        says: "target/release/narrows for a router: the box alone",
        commands: "cargo build --release -p narrows-cli --no-default-features --features router",
    },
    Recipe {
        name: "rpm",
        who: Operators,
        says: "the box as an RPM package: target/generate-rpm",
        commands: r#"scripts/rpm "$@""#,
    },
    Recipe {
        name: "static",
        who: Operators,
        says: "the box as one program that needs no library: target/static; cargo xtask static arm64 for another \
               processor",
        commands: r#"scripts/static "$@""#,
    },
    Recipe {
        name: "arm64",
        who: Operators,
        says: "the Debian package for arm64, tried in a virtual machine with an arm64 kernel: target/debian/arm64",
        commands: r#"
scripts/setup release
scripts/deb arm64
scripts/try-arm64 target/debian/arm64/*.deb"#,
    },
    Recipe {
        name: "container",
        who: Operators,
        says: "the box as a container image, where podman, buildah or docker is",
        commands: r#"scripts/container "$@""#,
    },
    Recipe {
        name: "wheel",
        who: Researchers,
        says: "the Python package as a wheel: target/wheels",
        commands: r#"
scripts/setup
scripts/wheel"#,
    },
    Recipe {
        name: "league",
        who: Researchers,
        says: "every discipline over one set of thin links, and who does best: three minutes; --quick for less",
        commands: r#"
cargo build --release -p narrows-cli
"$RELEASE" league "$@""#,
    },
    // Traces of others are no part of this repository: the files that want some say which and where from.
    Recipe {
        name: "claims",
        who: Researchers,
        says: "the papers' figures, today's traffic and the models in simulation; fails if one is worse than its file \
               expects: half an hour of one core",
        commands: r#"
cargo build --release -p narrows-cli
files=
for file in experiments/real/*.toml; do
    case $file in
        *-steps.toml) ;;
        */changing-rates* | */behind-the-dish*) ls experiments/real/traces/* >/dev/null 2>&1 ||
            { echo "claims: $file not run: its traces are missing"; continue; } ;;
    esac
    files="$files $file"
done
"$RELEASE" sim experiments/taq/*.toml experiments/burst-tcp/*.toml experiments/adaptive-aimd/*.toml \
    experiments/initial-spreading/*.toml experiments/plan/*.toml experiments/class-isolation/*.toml $files \
    --strict --out out/claims "$@"
cargo test --release -p narrows-tests --test it -- claims:: --include-ignored --nocapture"#,
    },
    // Each run has namespaces of its own; with more at a time than the machine bears, runs are marked as spoiled.
    Recipe {
        name: "bounds",
        who: Researchers,
        says: "every workload of experiments/taq/lab under every queue, 3 seeds: an hour with 4 runs at a time",
        commands: r#"
cargo build --release -p narrows-cli
for file in experiments/taq/lab/*.toml; do "$RELEASE" lab "$file" --jobs 4 --out out/bounds "$@"; done"#,
    },
    Recipe {
        name: "gallery",
        who: Researchers,
        says: "every figure of the papers as pages in out/reproduce, and pictures of some in docs/gallery: eleven \
               minutes; --fresh makes all runs again",
        commands: r#"
cargo build --release -p narrows-cli
"$RELEASE" reproduce all --gallery docs/gallery "$@""#,
    },
    Recipe {
        name: "peers",
        who: Researchers,
        says: "install ns-2 and ns-3 from the distribution and print one table: agreement and speed",
        commands: r#"
cargo build --release -p narrows-cli
peers/setup
cargo run -q --release -p narrows-xtask -- --as-is peers "$@""#,
    },
    Recipe {
        name: "queues",
        who: Researchers,
        says: "the same arrivals through the CoDel family of ns-3 and ours: one table",
        commands: r#"cargo run -q --release -p narrows-xtask -- --as-is queues "$@""#,
    },
    Recipe {
        name: "scoreboard",
        who: Researchers,
        says: "what narrows diagnose says against what happened, in simulation, with tshark and tcptrace where they \
               are installed: docs/explanation/scoreboard.svg; six minutes",
        commands: r#"
NARROWS_SCOREBOARD=$PWD/docs/explanation \
    cargo test -p narrows-diagnose --test it -- --ignored --nocapture scoreboard::held_out "$@""#,
    },
    Recipe {
        name: "kernel-senders",
        who: Researchers,
        says: "as root: what narrows diagnose says of real kernel senders against the kernel's own trace: \
               out/kernel-senders; a quarter of an hour",
        commands: r#"
cargo build -p narrows-cli
NARROWS_BIN=$DEBUG cargo run -q -p narrows-xtask -- --as-is kernel-senders "$@""#,
    },
    Recipe {
        name: "vantage",
        who: Researchers,
        says: "what narrows diagnose says of requests and answers at four points of the path against what happened, \
               with tshark and tcptrace where they are: out/vantage; --machine 7.3 records in virtual machines; a \
               quarter of an hour",
        commands: r#"
cargo build --release -p narrows-cli
NARROWS_BIN=$PWD/target/release/narrows cargo run -q -p narrows-xtask -- --as-is vantage "$@""#,
    },
    Recipe {
        name: "check",
        who: Contributors,
        says: "formatting, lints, types and words, and unit tests of what changed since main: a minute",
        commands: "",
    },
    Recipe {
        name: "test",
        who: Contributors,
        says: "every test, live ones in namespaces included, after the lints; counted at the end",
        commands: "",
    },
    Recipe {
        name: "lint",
        who: Contributors,
        says: "formatting, types and lints, no warning allowed, and what is too long",
        commands: "",
    },
    Recipe {
        name: "quick",
        who: Contributors,
        says: "target/quick/narrows, for daily work",
        commands: "cargo build --profile quick -p narrows-cli",
    },
    Recipe {
        name: "tutorials",
        who: Contributors,
        says: "as root: every command of tutorials and recipes, their outputs compared: half an hour",
        commands: r#"
cargo build --release -p narrows-cli
for page in docs/tutorials/*.md $(grep -l '^```console' docs/how-to/*.md); do
    scripts/tutorial --check --slow --netns "$page"
done"#,
    },
    Recipe {
        name: "fresh",
        who: Contributors,
        says: "as root: make demo and make test in a minimal Debian of its own: half an hour; `fresh test` for one",
        commands: r#"scripts/fresh "$@""#,
    },
    Recipe {
        name: "python-test",
        who: Contributors,
        says: "the Python package, installed as a user would, in a virtual environment of its own",
        commands: r#"scripts/python-test -rsfE "$@""#,
    },
    Recipe {
        name: "bench",
        who: Contributors,
        says: "cost per packet, and the live box against plain kernel forwarding: 4 minutes",
        commands: r#"
cargo build --release -p narrows-cli
cargo bench -p narrows-qdisc "$@"
NARROWS_BIN=$RELEASE cargo run --release -p narrows-box --example live_bench"#,
    },
    Recipe {
        name: "performance",
        who: Contributors,
        says: "what things cost against the bounds, beside peers where they are: one table, a quarter of an hour",
        commands: r#"
cargo build --release -p narrows-cli
cargo run -q --release -p narrows-xtask -- --as-is performance "$@""#,
    },
    Recipe {
        name: "soak",
        who: Contributors,
        says: "a box killed, upgraded, stopped and flooded for SOAK_SECONDS (3600); goes on where it was interrupted",
        commands: r#"
cargo build --profile quick -p narrows-cli
NARROWS_BIN=$QUICK SOAK_SECONDS=${SOAK_SECONDS:-3600} SOAK_FILE=$PWD/out/soak.jsonl \
    cargo test -p narrows-box --test it -- --ignored --nocapture --exact live_box::soak::soak"#,
    },
    Recipe {
        name: "stolen",
        who: Contributors,
        says: "how much of its rate a box carries while 30 % of its processor is taken away: a table, 3 minutes",
        commands: r#"
cargo build --profile quick -p narrows-cli
NARROWS_BIN=$QUICK cargo test -p narrows-box --test it -- --ignored --nocapture --exact live_box::stolen::stolen"#,
    },
    Recipe {
        name: "floods",
        who: Contributors,
        says: "what floods of 64-byte packets cost the users of 10 Mbit/s: a table, 3 minutes",
        commands: r#"
cargo build --profile quick -p narrows-cli
NARROWS_BIN=$QUICK cargo test -p narrows-box --test it -- --ignored --nocapture --exact live_box::floods::floods"#,
    },
    Recipe {
        name: "fuzz",
        who: Contributors,
        says: "each fuzz target for FUZZ_SECONDS (60); needs nightly Rust and cargo-fuzz",
        commands: r#"
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo 'fuzz: not run: needs "rustup toolchain install nightly" and "cargo install cargo-fuzz"'; exit 0; }
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    mkdir -p "fuzz/corpus/$target"
    seeds=
    [ ! -d "fuzz/seeds/$target" ] || seeds=fuzz/seeds/$target
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" $seeds -- -max_total_time="${FUZZ_SECONDS:-60}"
done"#,
    },
    Recipe {
        name: "digest",
        who: Contributors,
        says: "the outputs of a fixed set of runs as a digest, or two digests compared: do two versions behave alike",
        commands: r#"cargo run -q --release -p narrows-xtask -- --as-is digest "$@""#,
    },
    Recipe {
        name: "crates",
        who: Contributors,
        says: "the crates that others can take: packaged, and their tests run outside the workspace; --publish asks \
               cargo publish --dry-run too",
        commands: "",
    },
    Recipe {
        name: "vm",
        who: Contributors,
        says: "a command under another kernel, in a virtual machine whose clock counts instructions",
        commands: "",
    },
    Recipe {
        name: "memory",
        who: Contributors,
        says: "as root: what a box holds in memory with 1 000 and 10 000 connections: cargo xtask memory PROGRAM",
        commands: "",
    },
    Recipe {
        name: "costs",
        who: Contributors,
        says: "instructions a packet takes through each queue and back end; fails where ours became dearer; 4 minutes",
        commands: "",
    },
    Recipe {
        name: "systemd",
        who: Contributors,
        says: "as root: the package on a Debian with systemd in a virtual machine: install, reboot, late interfaces",
        commands: "",
    },
    Recipe {
        name: "tidy",
        who: Contributors,
        says: "links that lead nowhere, names that mean two things, dependencies without a reason, long lines",
        commands: "",
    },
];
