#!/usr/bin/env bash
# Runs cargo-deny by deny.toml: licences, bans and sources always; advisories where their database can be reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" cargo-deny
PATH=$("$here/setup.sh" cache)/bin:$PATH
cd "$here/.."
cargo deny --log-level warn check licenses bans sources
if timeout 120 cargo deny --log-level error fetch db >/dev/null 2>&1; then
    cargo deny --log-level warn check --disable-fetch advisories
else
    echo 'advisories: skipped, their database cannot be reached from here'
fi
