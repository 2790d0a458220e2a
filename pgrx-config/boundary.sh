#!/usr/bin/env bash
# Checks that errors pass the boundary as src/pg/boundary.rs wants it:
#
# - the body of every SQL function is a call of boundary::callback;
# - no callback has pgrx's guard but _PG_init, which pgrx exports by it;
# - what src/pg/server.rs declares is not called through pg_sys, where pgrx's guard drops most of an error.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=$(
    find src -name '*.rs' -print0 | xargs -0 awk '
        FNR == 1                       { waits = 0 }
        /^#\[pg_extern/                { waits = 1; next }
        waits == 1 && /\{$/            { waits = 2; next }
        waits == 2                     { waits = 0
                                         if ($0 !~ /boundary::callback\(/)
                                             print FILENAME ":" FNR ": an SQL function without boundary::callback" }'
    grep -rn '#\[\(pgrx::\)\?pg_guard\]' src --include='*.rs' | grep -v '^src/lib.rs:' || true
    sed -n 's/^    fn \([A-Za-z0-9_]*\)(.*/\1/p' src/pg/server.rs | while read -r name; do
        grep -rnw "pg_sys::$name" src --include='*.rs' || true
    done
)
[ -z "$wrong" ] || { printf '%s\n' "$wrong" >&2; exit 1; }
