#!/usr/bin/env bash
# Fuzzes the pure crates: RUNS inputs (default: a million) for each target in fuzz/, or for those named.
# What is worth keeping stays in its corpus/, for the next run; inputs that fail are put into its artifacts/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" cargo-fuzz
PATH=$("$here/setup.sh" cache)/bin:$PATH
cd "$here/../fuzz"
[ $# -gt 0 ] || set -- value policy state map jsonb

cargo run --quiet --example seeds -- corpus
# cargo-fuzz wants a nightly compiler for the address sanitizer only. The one that is shipped with has it, too.
export RUSTC_BOOTSTRAP=1
# The sanitizer keeps freed memory for a while, and it counts against the limit. So at most 32 MB of it are kept.
export ASAN_OPTIONS=quarantine_size_mb=32${ASAN_OPTIONS:+:$ASAN_OPTIONS}
failed=()
for target; do
    printf '\n== fuzz target %s\n' "$target"
    cargo fuzz run --fuzz-dir . "$target" -- \
        -runs="${RUNS:-1000000}" -max_len=4096 -rss_limit_mb=512 -timeout=60 -print_final_stats=1 || failed+=("$target")
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[*]}" >&2; exit 1; }
