#!/usr/bin/env bash
# Fails when a file of tests is not in the program of its folder: cargo would leave it out in silence.
set -euo pipefail
cd "$(dirname "$0")/.."

forgotten=$(
    find crates/*/tests tests/tests -name main.rs | while read -r main; do
        folder=$(dirname "$main")
        find "$folder" -name '*.rs' ! -path "$main" | while read -r file; do
            name=$(basename "$file" .rs) parent=$(dirname "$file")
            if [ "$name" = mod ]; then
                name=$(basename "$parent") parent=$(dirname "$parent")
            fi
            # A program of its own in a folder inside.
            [ "$file" != "$parent/main.rs" ] || continue
            declared_in=$main
            if [ "$parent" != "$folder" ]; then
                declared_in=$parent/mod.rs
                [ -f "$declared_in" ] || declared_in=$parent.rs
            fi
            grep -qsE "^(pub )?mod $name;" "$declared_in" || echo "$file"
        done
    done
)
[ -z "$forgotten" ] || { printf 'tests that no program has: %s\n' "$forgotten" >&2; exit 1; }
