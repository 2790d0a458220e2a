#!/usr/bin/env bash
# Measures layouts, pages_per_range and false_positive_rate on a random unique column and on a clustered column of few
# values of twenty_million.sql, and puts what it finds into docs/options.md, between its two marks.
#
#   sweep.sh PG_CONFIG          some ten minutes and 4 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=10000000               fewer rows for a trial; page, results and plots then go to target/bench
#   OUT=directory               where they go instead
#   FILTERS='4 16 64 256'       pages of a range with filters
#   MAPS='1 4 16 64'            and with maps
#   RATES='0.01 0.001 0.0001 0.00001'
#   RUNS=5                      rounds, in which all indexes are built and asked in turn; the median counts
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=out.sh
. "$here/out.sh"
[ $# = 1 ] || die "usage: sweep.sh PG_CONFIG"
rows=${ROWS:-10000000}
filters=${FILTERS:-4 16 64 256}
maps=${MAPS:-1 4 16 64}
rates=${RATES:-0.01 0.001 0.0001 0.00001}
runs=${RUNS:-5}
choose_out 10000000 "$rows"

settings=(shared_buffers="$(buffers_mb 4096)MB" maintenance_work_mem=256MB max_wal_size=4GB min_wal_size=1GB
          checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0
          max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
sql -c 'CREATE EXTENSION pg_skip'
load_events "$rows"
sql -f "$here/lib.sql" -f "$here/sweep.sql"
common_context rows "$rows" runs "$runs" settings "${settings[*]}" \
    table_bytes "$(sql -c "SELECT pg_relation_size('events')")" \
    table_pages "$(sql -c "SELECT relpages FROM pg_class WHERE oid = 'events'::regclass")"
sql -c "SELECT pg_prewarm('events')" >/dev/null

# A variant is layout/pages/rate, as the options have it; "default" where an option is not set.
variants=(map/default/default)
for rate in $rates; do
    for range in $filters; do variants+=("filters/$range/$rate"); done
    for range in $maps; do variants+=("map/$range/$rate"); done
done
columns=(trace_id device_id)
for variant in "${variants[@]}"; do
    sql -c "CALL bench.add_variant('$variant')"
done
for column in "${columns[@]}"; do sql -c "CALL bench.choose_keys('events.$column', 400, 200)"; done
for run in $(seq "$runs"); do
    for column in "${columns[@]}"; do
        step "$column: round $run of $runs, ${#variants[@]} indexes"
        for variant in "${variants[@]}"; do
            echo "CALL bench.sweep('$column', '$variant');"
        done | sql
        done_step
    done
done
write_results options
draw_plots options

tables() {
    image options 'Size of the index and time of a lookup by false-positive rate'
    sql -f "$here/sweep_report.sql"
}
tables >"$out/options.tables"
if [ "$rows" = 10000000 ] && [ -z "${OUT:-}" ]; then
    between "$here/../docs/options.md" 'make sweep' "$out/options.tables"
    rm "$out/options.tables"
    echo 'docs/options.md is written' >&2
else
    cat "$out/options.tables"
fi
