# What can be made here. The work is done by cargo and by the scripts in pgrx-config/ and benches/.
#
#   PG_CONFIG    the server to install into, or to use for demo and bench (default there: a private copy of Debian's)
#   PG_CONFIGS   the servers to test on (default: a private copy of Debian's, and an assert-enabled build)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-bloom sweep install lint unit server-tests fuzz

export PATH := $(PATH):$(HOME)/.cargo/bin
SETUP := pgrx-config/setup.sh
INSTALL := pgrx-config/install.sh
BENCH_SERVER = pg_config="$(PG_CONFIG)"; pg_config=$${pg_config:-$$($(SETUP) server debian)}
BOTH_SERVERS = servers="$(PG_CONFIGS)"; \
	[ -n "$$servers" ] || { debian=$$($(SETUP) server debian); assert=$$($(SETUP) server assert); servers="$$debian $$assert"; }

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## Show skip beside btree and BRIN bloom on a throw-away server; DATA=file.tsv.xz for real data
	@$(BENCH_SERVER); $(INSTALL) "$$pg_config"; DATA="$(DATA)" ROWS="$(ROWS)" benches/demo.sh "$$pg_config"

test: lint unit server-tests ## Everything: lints, unit tests, server tests

bench: ## Measure against btree and BRIN bloom on 20 million rows, write docs/benchmarks.md and the table of README.md (some twenty minutes)
	@$(BENCH_SERVER); $(INSTALL) "$$pg_config"; benches/bench.sh "$$pg_config"

bench-bloom: ## Measure bloom_agg against count and hll on 20 million rows, write docs/bloom-benchmarks.md (some ten minutes)
	@[ -n "$(PG_CONFIG)" ] || $(SETUP) hll
	@$(BENCH_SERVER); $(INSTALL) "$$pg_config"; benches/bloom.sh "$$pg_config"

sweep: ## Measure pages_per_range times false_positive_rate, write docs/options.md (some quarter of an hour)
	@$(BENCH_SERVER); $(INSTALL) "$$pg_config"; benches/sweep.sh "$$pg_config"

install: ## Install into the server of PG_CONFIG=…
	@[ -n "$(PG_CONFIG)" ] || { echo 'name the server: make install PG_CONFIG=/path/to/pg_config' >&2; exit 2; }
	@$(INSTALL) "$(PG_CONFIG)"

lint: ## rustfmt, errors at the boundary, circles of imports, clippy for the oldest and the newest server tested, cargo-deny
	@cargo fmt --version >/dev/null && cargo clippy --version >/dev/null || \
		{ echo 'please install rustfmt and clippy: rustup component add rustfmt clippy' >&2; exit 1; }
	cargo fmt --all --check
	pgrx-config/boundary.sh
	perl pgrx-config/imports.pl src crates/skip_core/src
	pgrx-config/prose.sh
	@$(BOTH_SERVERS); for pg_config in $$servers; do pgrx-config/clippy.sh "$$pg_config"; done
	@pgrx-config/deny.sh

unit: ## Tests of the pure crate: no server
	cargo test --no-fail-fast --package skip_core

server-tests: ## Install into both servers and test there; FILTER=… for some of the tests
	@$(BOTH_SERVERS); failed=; for pg_config in $$servers; do \
		$(INSTALL) "$$pg_config"; \
		echo "== server tests on $$("$$pg_config" --version)"; \
		PG_SKIP_PG_CONFIG="$$pg_config" cargo test --no-fail-fast --package pg_skip_tests -- $(FILTER) || failed=1; \
	done; [ -z "$$failed" ]

fuzz: ## Fuzz the pure crate with RUNS=1000000 inputs for each target (some half an hour)
	@RUNS="$(RUNS)" pgrx-config/fuzz.sh
