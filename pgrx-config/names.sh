#!/usr/bin/env bash
# Fails when two files define a type of the same name: one name, one meaning.
#
# Not counted: compat.rs and its folder, where a type has a form for each server version.
set -euo pipefail
cd "$(dirname "$0")/.."

# What still has a namesake. Value: of the server (src/pg/datum.rs), and a stored filter. Options: of an index, and of a
# filter being collected. Names that are to become different.
known='Value Options'

twice=$(find src crates/*/src -name '*.rs' ! -path '*/compat*' -print0 | xargs -0 awk '
    match($0, /^ *(pub(\([a-z]*\))? )?(struct|enum|trait|type) [A-Z][A-Za-z0-9]*/) &&
        !/^ *type [A-Za-z]+(<[^>]*>)?( =|;|:)/ {
        n = split(substr($0, RSTART, RLENGTH), words, " ")
        if (!seen[words[n], FILENAME]++) files[words[n]] = files[words[n]] " " FILENAME
    }
    END { for (name in files) if (split(files[name], list, " ") > 1) print name ":" files[name] }' | sort)
for name in $known; do twice=$(grep -v "^$name:" <<<"$twice" || true); done
[ -z "$twice" ] || { printf 'types of the same name: %s\n' "$twice" >&2; exit 1; }
