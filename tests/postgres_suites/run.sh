#!/usr/bin/env bash
# Runs PostgreSQL's own regression and isolation tests with skip indexes on every column (indexes.sql says which), and
# fails if a row depends on whether the indexes are used, or a server process crashes.
#
#   run.sh PG_CONFIG [SUITE…]      a server of `setup.sh server assert`, which brings the suites: regress isolation
#
# Each suite runs three times, on servers that are gone afterwards: the indexes are not used, are read by Skip Index
# Scans, and by bitmap scans. The server's other ways to find rows are switched off, so that plans are alike elsewhere.
# Meanwhile a session summarizes, because most tables are created empty and stay small. In the end the indexes that are
# still there are verified. All runs have the same indexes, so what goes wrong without use of these, in a command that
# changes them, is seen only if it is a crash, or an error that an index or data are damaged.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../../benches/lib.sh
. "$tests/../../benches/lib.sh"
[ $# -ge 1 ] || die "usage: run.sh PG_CONFIG [SUITE…]"
pg_config=$1; shift
suites=$("$pg_config" --bindir)/../suites
[ -d "$suites" ] || die "$suites is missing: have the server built by pgrx-config/setup.sh server assert"
names=("$@")
[ $# != 0 ] || names=(regress isolation)

common=(shared_preload_libraries=pg_skip log_line_prefix=%e_ max_prepared_transactions=10 fsync=off shared_buffers=256MB
        enable_indexscan=off enable_indexonlyscan=off)
# What a session that summarizes may meet: its table is gone or locked.
usual='there is no relation with OID|could not open relation|canceling statement due to|deadlock detected'
settings_of() {
    case $1 in
        unused) echo enable_bitmapscan=off pg_skip.enable_scan=off pg_skip.enable_distinct=off ;;
        scans) echo enable_bitmapscan=off enable_seqscan=off ;;
        bitmaps) echo enable_seqscan=off pg_skip.enable_scan=off ;;
    esac
}

# Summarizes what the tests have inserted, again and again. Most failures are those of tables that are gone meanwhile.
summarize() {
    while [ -d "$server_dir" ] && [ ! -e "$server_dir/finished" ]; do
        "$bin/psql" -X -qAt -d "$database" >/dev/null 2>>"$server_dir/summarize.log" <<'SQL' || true
SET statement_timeout = '3s'; SET lock_timeout = '50ms'; SET deadlock_timeout = '10s';
SELECT format('SELECT skip_suite.skip_summarize(%s::regclass)', oid) FROM skip_suite.indexes ORDER BY oid DESC LIMIT 600
\gexec
SQL
        sleep 0.2
    done
}

# Waits until the sessions of the tests have ended: they drop their temporary tables last.
await_sessions() {
    local others="SELECT count(*) FROM pg_stat_activity WHERE datname = '$database' AND pid <> pg_backend_pid()
                  AND backend_type = 'client backend'"
    while [ "$(sql -d "$database" -c "$others")" != 0 ]; do sleep 0.2; done
}

# One line for each problem that skip_index_verify() finds in the indexes that the tests have left.
problems() {
    sql -d "$database" <<'SQL'
SELECT format('SELECT * FROM skip_suite.skip_index_verify(%s::regclass)', oid) FROM skip_suite.indexes
\gexec
SQL
}

# run_suite NAME HOW: leaves the outputs in $results/NAME-HOW, and the number of scans in $index_scans.
run_suite() {
    local name=$1 how=$2 program=pg_regress schedule=parallel_schedule setting status=0
    # Some tests expect the names that these databases have elsewhere.
    database=regression
    if [ "$name" = isolation ]; then
        program=pg_isolation_regress schedule=isolation_schedule database=isolation_regression
    fi
    step "$name, $how"
    # shellcheck disable=SC2046 # words
    start_server "$pg_config" "${common[@]}" $(settings_of "$how")
    mkdir "$server_dir/out"
    [ "$(id -u)" != 0 ] || chown postgres "$server_dir/out"
    "$bin/createdb" -T template0 "$database"
    # As pg_regress does with a database that it creates.
    for setting in lc_{messages,monetary,numeric,time}=C bytea_output=hex timezone_abbreviations=Default; do
        sql -d "$database" -c "ALTER DATABASE $database SET ${setting%=*} TO '${setting#*=}'"
    done
    sql -d "$database" -f "$tests/indexes.sql"
    summarize & local summarizing=$!
    as_server_user "$suites/$name/$program" --inputdir="$suites/$name" --outputdir="$server_dir/out" \
        --bindir="$bin" --dlpath="$suites/$name" --max-concurrent-tests=20 --use-existing --dbname="$database" \
        --schedule="$suites/$name/$schedule" >"$server_dir/out/log" 2>&1 || status=$?
    touch "$server_dir/finished"; wait "$summarizing"
    # 1: some tests differ from what the server's authors expect, as their plans do.
    [ "$status" -le 1 ] || { cat "$server_dir/out/log" >&2; die "$program failed"; }
    if grep -nE 'TRAP:|terminated by signal|PANIC' "$server_dir/data/server.log" >&2; then die "a process crashed"; fi
    if grep -nE '^XX00[12]_ERROR' "$server_dir/data/server.log" >&2; then die "something is damaged"; fi
    if grep ERROR: "$server_dir/summarize.log" | grep -vE "$usual" >&2; then die "ranges could not be summarized"; fi
    await_sessions
    problems >"$server_dir/problems"
    if grep . "$server_dir/problems" >&2; then die "indexes are damaged"; fi
    index_scans=$(sql -d "$database" -c 'SELECT coalesce(sum(scans), 0) FROM skip_suite.indexes')
    rm -rf "${results:?}/$name-$how"
    cp -r "$server_dir/out/results" "$results/$name-$how"
    stop_server
    done_step
}

results=$(mktemp -d "${TMPDIR:-/tmp}/pg_skip.suites.XXXXXX")
failed=
for name in "${names[@]}"; do
    run_suite "$name" unused
    [ "$index_scans" = 0 ] || die "the indexes were used in the run that should not use them"
    for how in scans bitmaps; do
        run_suite "$name" "$how"
        echo "== $name, $how: $index_scans scans of indexes that are still there"
        [ "$name" != regress ] || [ "$index_scans" != 0 ] || die "the indexes were not used"
        perl "$tests/compare.pl" "$results/$name-unused" "$results/$name-$how" || failed=1
    done
done
[ -z "$failed" ] || die "the outputs are in $results"
rm -rf "$results"
