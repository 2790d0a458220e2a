#!/usr/bin/env bash
# Runs clippy, with the code built for the server that a pg_config belongs to. Warnings are errors.
#
#   clippy.sh PG_CONFIG [PACKAGE]      PACKAGE is one package of the workspace; default all
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pg_config=$1
scope=(--workspace)
[ -z "${2:-}" ] || scope=(--package "$2")
version=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
"$here/setup.sh" packages
PGRX_HOME=$("$here/setup.sh" pgrx-home "$pg_config")
cd "$here/.."
export PGRX_HOME PGRX_PG_CONFIG_PATH="$pg_config" CARGO_TARGET_DIR="$PWD/target/pg$version"
set -x
cargo clippy "${scope[@]}" --all-targets --no-default-features --features "pg_skip/pg$version" -- -D warnings
