# What most people do with Narrows; `make help` lists it, `cargo xtask` lists everything else.
# ARGS reaches the program behind a target: make demo ARGS=--help

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# rustup's cargo, also where a login shell has not put it on the path.
export PATH := $(PATH):$(HOME)/.cargo/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup setup-build build box demo deb release explore claims gallery check test bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^# for / { print "\n" substr($$0, 3) } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@printf '\n%s\n' 'cargo xtask lists more: packages, peers, measurements, single steps of the tests.'

# for operators: a box, and what it looks like

setup: ## install what is missing, saying what and why (NO_INSTALL=1: only say)
	@scripts/setup

setup-build:
	@scripts/setup build

build: setup-build ## target/release/narrows
	cargo build --release -p narrows-cli

box: setup-build ## target/release/narrows for a router: the box alone
	@cargo xtask box

# Built with what it needs and no more, in a profile that is quick to build.
demo: setup-build ## who stalls on a thin link, with real TLS and QUIC behind three queues: at most 5 minutes
	cargo build --profile quick -p narrows-cli --no-default-features --features http,lab
	$(TARGET)/quick/narrows demo $(ARGS)

deb: setup-build ## the box as a Debian package, installed in a root of its own and tried: target/debian
	@scripts/deb

release: ## packages, the static program, the source and SHA256SUMS, each tried: target/dist
	@scripts/setup release
	@scripts/release

# for researchers: figures

explore: setup-build ## the page of `narrows explore` for any web server, simulating in the browser: out/explore
	@scripts/explore $(ARGS)

claims: setup-build ## the papers' figures and today's traffic in simulation; fails if one is worse than its file expects
	@cargo xtask claims $(ARGS)

gallery: setup-build ## every figure of the papers as pages in out/reproduce: eleven minutes; ARGS=--fresh runs all again
	@cargo xtask gallery $(ARGS)

# for contributors: a change

check: ## formatting, lints, types, words, and unit tests of what changed since main: a minute; no root
	@cargo xtask check $(ARGS)

test: setup ## lints, then every test, live ones in namespaces included; counted at the end
	@cargo xtask test $(ARGS)

bench: setup-build ## cost per packet, and the live box against plain kernel forwarding: 4 minutes
	@cargo xtask bench $(ARGS)

docs: ## the documentation as a site that works offline, with search: target/book/index.html
	@CARGO_TARGET_DIR=$(TARGET) scripts/docs

clean: ## remove what was built and what runs wrote to out/
	cargo clean
	rm -rf out
