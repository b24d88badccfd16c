# What there is to do with Narrows; `make help` lists it. Each target says what it does before it does it.
# ARGS reaches the program behind a target: make demo ARGS=--help

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# rustup's cargo, also where a login shell has not put it on the path; what setup unpacks for tests.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(TARGET)/tools/usr/bin
FUZZ_SECONDS ?= 60
SECONDS ?= 3600
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup setup-build build box deb rpm static container release demo quick test tutorials fresh python-test wheel lint lints bench performance bounds claims gallery league peers scoreboard kernel-senders docs fuzz soak floods stolen clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing, saying what and why (NO_INSTALL=1: only say)
	@scripts/setup

setup-build:
	@scripts/setup build

build: setup-build ## target/release/narrows
	cargo build --release -p narrows-cli

box: setup-build ## target/release/narrows for a router: the box alone
	cargo build --release -p narrows-cli --no-default-features --features diagnose,http,terminal

deb: setup-build ## the box as a Debian package, installed in a root of its own and tried: target/debian
	@scripts/deb

rpm: setup-build ## the box as an RPM package: target/generate-rpm
	@scripts/rpm

static: setup-build ## the box as one program that needs no library: target/static
	@scripts/static

container: setup-build ## the box as a container image, where podman, buildah or docker is
	@scripts/container

release: setup-build ## packages, the static program, the source and SHA256SUMS, each tried: target/dist
	@scripts/release

# Built with what it needs and no more, in a profile that is quick to build.
demo: setup-build ## a thin link getting better, with real kernel TCP: at most 5 minutes
	cargo build --profile quick -p narrows-cli --no-default-features --features http,lab
	$(TARGET)/quick/narrows demo $(ARGS)

quick: setup-build ## target/quick/narrows, for daily work
	cargo build --profile quick -p narrows-cli

# The program is built first, with the same choice of packages, so that tests that start it find it: NARROWS_BIN.
test: setup ## every test, live ones in namespaces included, then the lints; counted at the end
	cargo build --workspace --bins --tests
	@NARROWS_BIN=$(TARGET)/debug/narrows $(TARGET)/debug/narrows-xtask test $(ARGS)

tutorials: build ## as root: every command of the four tutorials, their outputs compared: some twenty minutes
	@for page in docs/tutorials/*.md; do scripts/tutorial --check --slow --netns $$page || exit 1; done

fresh: ## as root: make demo and make test in a minimal Debian of its own: half an hour; ARGS=test for one of them
	@scripts/fresh $(ARGS)

python-test: ## the Python package in a virtual environment of its own
	@CARGO_TARGET_DIR=$(TARGET) scripts/python-test -rsfE

wheel: setup ## the Python package as a wheel: target/wheels
	@CARGO_TARGET_DIR=$(TARGET) scripts/wheel

lint: setup lints ## formatting and lints, no warning allowed

lints:
	@if cargo fmt --version >/dev/null 2>&1; then set -x; cargo fmt --all --check; \
	else echo 'lint: formatting not checked: rustfmt is missing (rustup component add rustfmt)'; fi
	@if command -v tsc >/dev/null; then set -x; tsc --checkJs --noEmit --strict --target es2022 crates/box/src/page/dashboard.js; \
	else echo 'lint: types of the dashboard not checked: tsc is missing (npm install --global typescript)'; fi
	@if cargo clippy --version >/dev/null 2>&1; then set -x; cargo clippy --workspace --all-targets -- -D warnings; \
	else echo 'lint: lints not checked: clippy is missing (rustup component add clippy)'; fi
	cargo run -q -p narrows-xtask -- limits

bench: build ## cost per packet, and the live box against plain kernel forwarding: 4 minutes
	cargo bench -p narrows-qdisc $(ARGS)
	NARROWS_BIN=$(TARGET)/release/narrows cargo run --release -p narrows-box --example live_bench

performance: build ## what things cost against the bounds, beside peers where they are: one table, a quarter of an hour
	cargo run -q -p narrows-xtask --release -- performance $(ARGS)

# `cargo test` beside the program that is tested, which is built in the profile for daily work.
LIVE = NARROWS_BIN=$(TARGET)/quick/narrows cargo test -p narrows-box --test it -- --ignored --nocapture --exact

soak: quick ## a box killed, upgraded, stopped and flooded for SECONDS (3600); goes on where it was interrupted
	SOAK_SECONDS=$(SECONDS) SOAK_FILE=$(abspath out/soak.jsonl) $(LIVE) live_box::soak::soak

stolen: quick ## how much of its rate a box carries while 30 % of its processor is taken away: a table, 3 minutes
	$(LIVE) live_box::stolen::stolen

floods: quick ## what floods of 64-byte packets cost the users of 10 Mbit/s: a table, 3 minutes
	$(LIVE) live_box::floods::floods

# Each run has namespaces of its own; with more at a time than the machine bears, runs are marked as spoiled.
bounds: build ## every workload of experiments/taq/lab under every queue, 3 seeds: an hour with 4 runs at a time
	for file in experiments/taq/lab/*.toml; do $(TARGET)/release/narrows lab $$file --jobs 4 --out out/bounds $(ARGS) || exit 1; done

# Traces of others are no part of this repository: the files say which and where from.
TRACED = $(filter-out %-steps.toml,$(wildcard experiments/real/changing-rates*.toml))
REAL = $(filter-out $(if $(wildcard experiments/real/traces/*),,$(TRACED)),$(wildcard experiments/real/*.toml))

claims: build ## the papers' figures and today's traffic in simulation, and the models against it; fails if one comes out worse than its file expects: half an hour of one core
	@$(foreach file,$(filter-out $(REAL),$(TRACED)),echo 'claims: $(file) not run: its traces are missing';)
	$(TARGET)/release/narrows sim experiments/taq/*.toml experiments/burst-tcp/*.toml experiments/adaptive-aimd/*.toml experiments/initial-spreading/*.toml experiments/plan/*.toml experiments/class-isolation/*.toml $(REAL) --strict --out out/claims $(ARGS)
	cargo test --release -p narrows-tests --test it -- claims:: --include-ignored --nocapture

gallery: build ## every figure of the papers as pages in out/reproduce, and pictures of some in docs/gallery: eleven minutes on two cores; ARGS=--fresh makes all runs again
	$(TARGET)/release/narrows reproduce all --gallery docs/gallery $(ARGS)

league: build ## every discipline over one set of thin links in simulation, and who does best: three minutes on two cores; ARGS=--quick for less
	$(TARGET)/release/narrows league $(ARGS)

peers: build ## install ns-2 and ns-3 from the distribution and print one table: agreement and speed
	@peers/setup
	cargo run -q --release -p narrows-xtask -- peers $(ARGS)

scoreboard: ## what narrows diagnose says against what happened, in simulation, with tshark and tcptrace where they are installed: docs/explanation/scoreboard.svg; six minutes
	NARROWS_SCOREBOARD=$(abspath docs/explanation) cargo test -p narrows-diagnose --test it -- --ignored --nocapture scoreboard::held_out $(ARGS)

kernel-senders: ## as root: what narrows diagnose says of real kernel senders against the kernel's own trace: out/kernel-senders; a quarter of an hour
	cargo build -p narrows-cli
	NARROWS_BIN=$(TARGET)/debug/narrows cargo run -q -p narrows-xtask -- kernel-senders $(ARGS)

docs: ## the documentation as a site that works offline, with search: target/book/index.html
	@CARGO_TARGET_DIR=$(TARGET) scripts/docs

fuzz: setup ## each fuzz target for FUZZ_SECONDS (60)
	@if ! cargo +nightly fuzz --version >/dev/null 2>&1; then \
	  echo 'fuzz: not run: needs "rustup toolchain install nightly" and "cargo install cargo-fuzz"'; exit 0; fi; \
	for target in $$(cargo +nightly fuzz list); do \
	  echo "fuzz: $$target for $(FUZZ_SECONDS) s"; \
	  mkdir -p fuzz/corpus/$$target; seeds=; [ -d fuzz/seeds/$$target ] && seeds=fuzz/seeds/$$target; \
	  cargo +nightly fuzz run $$target fuzz/corpus/$$target $$seeds -- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

clean: ## remove what was built and what runs wrote to out/
	cargo clean
	rm -rf out
