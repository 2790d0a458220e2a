#!/usr/bin/env bash
# Measures every pair of pages_per_range and false_positive_rate on a random unique column and on a clustered column of
# few values of twenty_million.sql, and puts the tables into docs/options.md, between its two marks.
#
#   sweep.sh PG_CONFIG          some quarter of an hour and 8 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=20000000               fewer rows for a trial; the tables then go to the standard output
#   PAGES='4 8 16 32 64 128 256'
#   RATES='0.01 0.001 0.0001 0.00001'
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: sweep.sh PG_CONFIG"
rows=${ROWS:-20000000}
pages=${PAGES:-4 8 16 32 64 128 256}
rates=${RATES:-0.01 0.001 0.0001 0.00001}

settings=(shared_buffers="$(buffers_mb 6144)MB" maintenance_work_mem=256MB max_wal_size=16GB min_wal_size=4GB
          checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0
          max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql"
load_events "$rows"
sql -c "SELECT pg_prewarm('events')" >/dev/null

place=100
for range in $pages; do
    for rate in $rates; do
        place=$((place + 1))
        sql -c "INSERT INTO bench.variant VALUES ('$range/$rate', $place, '$range | $rate')"
    done
done
for column in trace_id device_id; do
    sql -c "CALL bench.choose_keys('events.$column', 400, 200)"
    for range in $pages; do
        for rate in $rates; do
            variant=$range/$rate
            step "$column: $range pages, rate $rate"
            seconds=$(sql -c "CALL bench.timed('CREATE INDEX bench_index ON events USING skip ($column)
                              WITH (layout = filters, pages_per_range = $range, false_positive_rate = $rate)')")
            sql -c "INSERT INTO bench.result VALUES ('events.$column', '$variant', 'build_s', $seconds),
                    ('events.$column', '$variant', 'bytes', pg_relation_size('bench_index'))" \
                -c "SELECT pg_prewarm('bench_index')" -c "CALL bench.measure('events.$column', '$variant', 0, 2)" \
                -c 'DROP INDEX bench_index' >/dev/null
            done_step
        done
    done
done

tables() {
    echo "Measured by \`make sweep\`, $(date -u +%F), on the table of"
    echo '[benches/twenty_million.sql](../benches/twenty_million.sql) with'
    sql -c "SELECT format('%s rows on %s pages; ', to_char($rows, 'FM999,999,999'), to_char(relpages, 'FM999,999,999'))
            FROM pg_class WHERE oid = 'events'::regclass"
    echo "$(machine); $(sql -c "SELECT split_part(version(), ' on ', 1)"), \`${settings[*]}\`."
    echo 'Queries: Skip Index Scans; medians over up to 400 absent and 200 present keys, parsing and planning included,'
    echo 'table and index in shared buffers.'
    local column
    for column in trace_id device_id; do
        printf '\n### %s\n\n' "$(case $column in
            trace_id) echo 'A random unique column: `trace_id uuid`' ;;
            device_id) echo 'A clustered column of few values: `device_id integer`' ;; esac)"
        printf '| %s ' pages_per_range false_positive_rate size build 'absent key' 'its pages' 'present key' 'its pages'
        echo '|'
        echo '|---|---|---|---|---|---|---|---|'
        sql -c "SELECT format('| %s | %s | %s | %s | %s | %s | %s |', title, bench.in_unit(bytes / 1048576, 'MB'),
                       bench.in_unit(build_s, 's'), bench.in_unit(absent_ms, 'ms'), bench.number(absent_pages),
                       bench.in_unit(present_ms, 'ms'), bench.number(present_pages))
                FROM bench.summary WHERE subject = 'events.$column'"
    done
}
if [ "$rows" = 20000000 ]; then
    page=$here/../docs/options.md
    tables >"$server_dir/tables"
    awk -v tables="$server_dir/tables" '
        /^<!-- end of make sweep/ { inside = 0 }
        !inside { print }
        /^<!-- made by make sweep/ { inside = 1; while ((getline line < tables) > 0) print line }' "$page" >"$page.new"
    mv "$page.new" "$page"
    echo 'docs/options.md is written' >&2
else
    tables
fi
