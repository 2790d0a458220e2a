#!/usr/bin/env bash
# Fails when two files define a type of the same name: one name, one meaning.
#
# Not counted: compat.rs and its folder, where a type has a form for each server version.
set -euo pipefail
cd "$(dirname "$0")/.."

twice=$(find src crates/*/src -name '*.rs' ! -path '*/compat*' -print0 | xargs -0 awk '
    match($0, /^ *(pub(\([a-z]*\))? )?(struct|enum|trait|type) [A-Z][A-Za-z0-9]*/) &&
        !/^ *type [A-Za-z]+(<[^>]*>)?( =|;|:)/ {
        n = split(substr($0, RSTART, RLENGTH), words, " ")
        if (!seen[words[n], FILENAME]++) files[words[n]] = files[words[n]] " " FILENAME
    }
    END { for (name in files) if (split(files[name], list, " ") > 1) print name ":" files[name] }' | sort)
[ -z "$twice" ] || { printf 'types of the same name: %s\n' "$twice" >&2; exit 1; }
