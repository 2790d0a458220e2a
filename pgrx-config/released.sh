#!/usr/bin/env bash
# Checks the rule for SQL scripts of released versions:
#
# - a script that sql/released.sha256 lists is there, and has not changed since;
# - every script pg_skip--… in sql/ is listed, but the upgrade script to the version that is being worked on;
# - a chain of upgrade scripts leads from each released version to that version.
#
#   released.sh [DIRECTORY]      DIRECTORY is the source tree, default: this one
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
cd sql
wrong=()
listed=$(sed '/^#/d' released.sha256)
if [ -n "$listed" ]; then
    changed=$(sha256sum --check --quiet <<<"$listed" 2>&1) || wrong+=("a released script has changed: $changed")
fi
shopt -s nullglob
for script in pg_skip--*.sql; do
    case $script in *--"$version".sql) continue ;; esac
    grep -qF -- "  $script" <<<"$listed" || wrong+=("sql/$script is not in sql/released.sha256")
done

# The versions that the upgrade scripts lead to, from the one given, until nothing new is found.
reached() {
    local versions=("$1") script from to known more=1
    while [ "$more" = 1 ]; do
        more=0
        for script in pg_skip--*--*.sql; do
            script=${script#pg_skip--} script=${script%.sql}
            from=${script%--*} to=${script#*--} known=" ${versions[*]} "
            if [[ $known == *" $from "* && $known != *" $to "* ]]; then versions+=("$to") more=1; fi
        done
    done
    printf '%s\n' "${versions[@]}"
}
for script in pg_skip--*.sql; do
    case $script in pg_skip--*--*) continue ;; esac
    from=${script#pg_skip--} from=${from%.sql}
    reached "$from" | grep -qxF -- "$version" || wrong+=("no upgrade scripts lead from $from to $version")
done
[ ${#wrong[@]} = 0 ] || { printf '%s\n' "${wrong[@]}" >&2; exit 1; }
