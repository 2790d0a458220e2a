# What can be made here. The work is done by cargo and by the scripts in pgrx-config/ and benches/.
#
#   PG_CONFIG    the server to install into, or to use for test, demo and bench (default there: a private copy of
#                Debian's)
#   PG_CONFIGS   the servers of lint and server-tests (default: that one, and an assert-enabled 18)
#   PG_CONFIG_16, PG_CONFIG_17   those of check-all (default: built from source)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: all help demo test check check-all bench bench-bloom bench-growth bench-busy bench-inside bench-against sweep \
	sweep-inside install lint unit server-tests test-assert test-filters test-16-17 test-postgres test-demo \
	test-clients test-upgrade package docker fuzz

export PATH := $(PATH):$(HOME)/.cargo/bin
SETUP := pgrx-config/setup.sh
INSTALL := pgrx-config/install.sh
# Shell commands. ONE_SERVER and BOTH_SERVERS choose servers, TEST_SERVERS installs into those of $servers and tests
# there, with each of $layouts as the layout of indexes that set none; with another than the default one, only tests for
# which that matters, with half of the random cases.
ONE_SERVER = pg_config="$(PG_CONFIG)"; pg_config=$${pg_config:-$$($(SETUP) server debian)}
BOTH_SERVERS = servers="$(PG_CONFIGS)"; \
	[ -n "$$servers" ] || { $(ONE_SERVER); assert=$$($(SETUP) server assert); servers="$$pg_config $$assert"; }
TEST_SERVERS = failed=; for pg_config in $$servers; do \
		$(INSTALL) "$$pg_config"; \
		for layout in $$layouts; do \
			echo "== server tests on $$("$$pg_config" --version), layout $$layout"; \
			if [ "$$layout" = auto ]; then cases=100; set --; else cases=50; set -- --test server --; fi; \
			PG_SKIP_LAYOUT="$$layout" PG_SKIP_CASES="$${PG_SKIP_CASES:-$$cases}" PG_SKIP_PG_CONFIG="$$pg_config" \
				cargo test --no-fail-fast --package pg_skip_tests $${@:---} $(FILTER) || failed=1; \
		done; \
	done; [ -z "$$failed" ]

# `pgxn install` calls it before `install`, which builds.
all:

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## Show skip beside btree and BRIN bloom on a throw-away server; DATA=file.csv: what it does for your own data
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; \
	if [ -n "$${DATA:-}" ]; then benches/demo_file.sh "$$pg_config" "$$DATA"; \
	else ROWS="$(ROWS)" benches/demo.sh "$$pg_config"; fi

test-demo: ## Test make demo DATA=…
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; tests/demo_file.sh "$$pg_config"

test-clients: ## Run the programs of docs/clients.md, with packages from pip, npm and apt or mvn
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; tests/clients.sh "$$pg_config"

test-upgrade: ## Test pg_upgrade from one server, Debian's or PG_CONFIG=…, to test-assert's 18 (some minutes)
	@$(ONE_SERVER); newer=$$($(SETUP) server assert); $(INSTALL) "$$pg_config"; $(INSTALL) "$$newer"; \
	tests/upgrade.sh "$$pg_config" "$$newer"

test: unit ## Unit tests, and the server tests on one server: Debian's, or PG_CONFIG=… (some minutes)
	@$(ONE_SERVER); servers=$$pg_config; layouts=auto; $(TEST_SERVERS)

check: lint test test-assert ## Before a commit: lint, test, and test-assert

check-all: check test-filters test-16-17 test-postgres ## Before a release: check, and the three others

bench: ## Measure beside btree, hash, BRIN, contrib/bloom, ClickHouse, for docs/benchmarks.md, README.md (an hour)
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; benches/bench.sh "$$pg_config"

bench-bloom: ## Measure bloom_agg against count and hll on 20 million rows, for docs/bloom-benchmarks.md (ten minutes)
	@[ -n "$(PG_CONFIG)" ] || $(SETUP) hll
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; benches/bloom.sh "$$pg_config"

bench-growth: ## Measure growth to ROWS=100000000, updates and a queue, for docs/growth.md (20 minutes or more)
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; ROWS="$(ROWS)" benches/growth.sh "$$pg_config"

bench-busy: ## Measure lookups beside inserts, for docs/busy-tables.md (a quarter of an hour)
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; ROWS="$(ROWS)" benches/busy.sh "$$pg_config"

bench-inside: ## Measure searches inside values beside GIN, pg_trgm, BRIN, for docs/inside-benchmarks.md (hours); ROWS=…
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; ROWS="$(ROWS)" benches/inside.sh "$$pg_config"

bench-against: ## Measure this library beside that of an earlier commit, REVISION=… (some quarter of an hour)
	@[ -n "$(REVISION)" ] || { echo 'name the commit: make bench-against REVISION=…' >&2; exit 2; }
	@$(ONE_SERVER); benches/against.sh "$$pg_config" "$(REVISION)"

sweep: ## Measure layouts, pages_per_range and false_positive_rate, for docs/options.md (some ten minutes)
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; benches/sweep.sh "$$pg_config"

sweep-inside: ## Measure rates and ranges of searches inside values, for docs/inside-sweep.md (some half an hour)
	@$(ONE_SERVER); $(INSTALL) "$$pg_config"; ROWS="$(ROWS)" benches/inside_sweep.sh "$$pg_config"

package: ## Build a Debian package for the server of PG_CONFIG=… (default: Debian's), and try it
	@$(ONE_SERVER); package=$$(pgrx-config/package.sh "$$pg_config"); echo "$$package"; \
	pgrx-config/try-package.sh "$$pg_config" "$$package"

docker: ## Build the Docker images of PostgreSQL 15 and 18 with pg_skip, and try them, where there is Docker
	@pgrx-config/try-docker.sh

install: ## Install into the server of PG_CONFIG=…
	@[ -n "$(PG_CONFIG)" ] || { echo 'name the server: make install PG_CONFIG=/path/to/pg_config' >&2; exit 2; }
	@$(INSTALL) "$(PG_CONFIG)"

lint: ## rustfmt, boundary, imports, names, modules, prose, released, clippy for oldest and newest server, cargo-deny
	@cargo fmt --version >/dev/null && cargo clippy --version >/dev/null || \
		{ echo 'please install rustfmt and clippy: rustup component add rustfmt clippy' >&2; exit 1; }
	cargo fmt --all --check
	pgrx-config/boundary.sh
	perl pgrx-config/imports.pl src crates/*/src
	pgrx-config/names.sh
	pgrx-config/modules.sh
	pgrx-config/prose.sh
	pgrx-config/released.sh
	@# Only pg_skip itself depends on the server.
	@$(BOTH_SERVERS); package=; \
	for pg_config in $$servers; do pgrx-config/clippy.sh "$$pg_config" $$package; package=pg_skip; done
	@pgrx-config/deny.sh

unit: ## Tests of the pure crates: no server
	cargo test --no-fail-fast --package 'skip_*'

server-tests: ## The server tests on Debian's server and test-assert's 18, or on PG_CONFIGS='…'; FILTER=… for some
	@$(BOTH_SERVERS); layouts='auto filters'; $(TEST_SERVERS)

test-assert: ## The server tests on an assert-enabled 18 only, with maps, then filters: built once
	@servers=$$($(SETUP) server assert); layouts='auto filters'; $(TEST_SERVERS)

test-filters: ## The server tests on one server, with filters instead of maps: Debian's, or PG_CONFIG=…
	@$(ONE_SERVER); servers=$$pg_config; layouts=filters; $(TEST_SERVERS)

test-postgres: ## PostgreSQL's own tests with skip indexes on every column, on test-assert's 18 (some ten minutes)
	@pg_config=$$($(SETUP) server assert); $(INSTALL) "$$pg_config"; tests/postgres_suites/run.sh "$$pg_config"

test-16-17: ## The server tests on assert-enabled 16 and 17 only: built once, or PG_CONFIG_16=… PG_CONFIG_17=…
	@pg_16="$(PG_CONFIG_16)"; pg_16=$${pg_16:-$$($(SETUP) server 16)}; \
	pg_17="$(PG_CONFIG_17)"; pg_17=$${pg_17:-$$($(SETUP) server 17)}; servers="$$pg_16 $$pg_17"; \
	layouts='auto filters'; $(TEST_SERVERS)

fuzz: ## Fuzz the pure crates with RUNS=1000000 inputs for each target (some half an hour)
	@RUNS="$(RUNS)" pgrx-config/fuzz.sh
