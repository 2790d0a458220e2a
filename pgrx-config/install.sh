#!/usr/bin/env bash
# Builds pg_skip and installs it into the server that a pg_config belongs to.
#
#   install.sh PG_CONFIG [PROFILE]      PROFILE is a cargo profile; default checked for a server with
#                                       assertions, release for others
#
# Each major version of PostgreSQL has a build directory of its own, target/pgNN.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
die() { printf '%s\n' "install.sh: $*" >&2; exit 1; }

{ [ $# = 1 ] || [ $# = 2 ]; } || die "usage: install.sh PG_CONFIG [PROFILE]"
pg_config=$(command -v "$1") || die "there is no program $1"
pg_config=$(cd "$(dirname "$pg_config")" && pwd)/$(basename "$pg_config")
profile=${2:-$("$here/setup.sh" profile "$pg_config")}
version=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
case "$version" in
    15|16|17|18) ;;
    *) die "pg_skip supports PostgreSQL 15 to 18; $pg_config says: $("$pg_config" --version)" ;;
esac

"$here/setup.sh" headers "$pg_config"
"$here/setup.sh" cargo-pgrx
PGRX_HOME=$("$here/setup.sh" pgrx-home "$pg_config")
PATH=$("$here/setup.sh" cache)/bin:$PATH
export PGRX_HOME PATH CARGO_TARGET_DIR="$here/../target/pg$version"
CARGO_TARGET_DIR=$(mkdir -p "$CARGO_TARGET_DIR" && cd "$CARGO_TARGET_DIR" && pwd)

# A system's own server usually belongs to root: build as the caller, copy the three files with sudo.
sudo=()
if ! { [ -w "$("$pg_config" --pkglibdir)" ] && [ -w "$("$pg_config" --sharedir)/extension" ]; }; then
    command -v sudo >/dev/null || die "cannot write to $("$pg_config" --pkglibdir) and there is no sudo; run as root"
    sudo=(--sudo)
fi
cd "$here/.."
cargo pgrx install --package pg_skip --pg-config "$pg_config" --profile "$profile" \
    --no-default-features --features "pg$version" "${sudo[@]}"
