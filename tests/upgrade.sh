#!/usr/bin/env bash
# Tests pg_upgrade: indexes and filters of one major version of PostgreSQL are used, and go on, in another one.
#
#   upgrade.sh OLD_PG_CONFIG NEW_PG_CONFIG    both have pg_skip
#
# Prints a line for each failure, and at its end, like cargo: "test result: … N passed; M failed".
set -euo pipefail
# shellcheck source=../benches/lib.sh
. "$(dirname "$0")/../benches/lib.sh"
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || die "usage: upgrade.sh OLD_PG_CONFIG NEW_PG_CONFIG"
new_bin=$("$2" --bindir)
passed=0 failed=0

# check WHAT SQL: no row comes, and no warning.
check() {
    local printed
    printed=$(sql -c "$2" 2>&1) || true
    if [ -z "$printed" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'failed: %s\n%s\n' "$1" "$(head -n 20 <<<"$printed")"
    fi
}
check_all() {
    check "$1: the indexes give the rows of a sequential scan, and are sound" 'SELECT problem FROM problem'
    # The rows of 1,500 numbers that are new, and that nobody has deleted.
    check "$1: rows come, and are found" "
        INSERT INTO t SELECT * FROM rows_of($2, $2 + 1499);
        SELECT problem FROM problem"
    check "$1: VACUUM" 'VACUUM t'
    check "$1: the indexes are sound after VACUUM" 'SELECT problem FROM problem'
}

# Stops the server, upgrades its database, and starts the new server.
upgrade() {
    as_server_user "$bin/pg_ctl" -D "$server_dir/data" -w -m fast stop >/dev/null
    mv "$server_dir/data" "$server_dir/old"
    local options=(-U postgres -A trust -E UTF8 --locale=C --no-sync) help
    # From version 18 on, initdb makes checksums by itself; pg_upgrade wants the clusters alike.
    help=$("$new_bin/initdb" --help)
    [[ $help != *--no-data-checksums* ]] || options+=(--no-data-checksums)
    as_server_user "$new_bin/initdb" -D "$server_dir/data" "${options[@]}" >/dev/null
    (cd "$server_dir" && as_server_user bash -c "cd '$server_dir' && $(printf '%q ' "$new_bin/pg_upgrade" -U postgres \
        -b "$bin" -B "$new_bin" -d "$server_dir/old" -D "$server_dir/data" -s "$server_dir")") \
        >"$server_dir/upgrade.log" 2>&1
}

# A minor version of the old server may be too new for the new one.
start_server "$1" autovacuum=off
printf 'from %s to %s\n' "$("$bin/postgres" --version)" "$("$new_bin/postgres" --version)"
sql -c 'CREATE TABLE without_index (n integer)'
if ! upgrade; then
    grep -h 'ERROR: \|error: ' "$server_dir"/data/pg_upgrade_output.d/*/log/*.log ||
        { cat "$server_dir/upgrade.log" >&2; die 'pg_upgrade does not begin'; }
    echo 'ignored: pg_upgrade fails between these servers without pg_skip as well'
    echo 'test result: ok. 0 passed; 0 failed; 1 ignored'
    exit 0
fi
stop_server

start_server "$1" autovacuum=off
sql -f "$tests/data/upgrade.sql" >/dev/null
check 'before: the indexes give the rows of a sequential scan, and are sound' 'SELECT problem FROM problem'
upgrade || { tail -n 20 "$server_dir"/upgrade.log "$server_dir"/data/pg_upgrade_output.d/*/log/*.log >&2
             die 'pg_upgrade failed'; }
bin=$new_bin
run_server
check 'after pg_upgrade: no option waits for a REINDEX, and all layouts are there' "
    SELECT i FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam, skip_index_info(c.oid) AS i
    WHERE a.amname = 'skip' AND c.relkind = 'i' AND (i.pending_options IS NOT NULL OR i.layout = 'auto')"
check_all 'after pg_upgrade' 30000
sql -c 'REINDEX TABLE t'
check_all 'after REINDEX' 40000

[ "$failed" = 0 ] && result=ok || result=FAILED
printf 'test result: %s. %d passed; %d failed\n' "$result" "$passed" "$failed"
[ "$failed" = 0 ]
