#!/usr/bin/env bash
# Measures skip against a btree and BRIN bloom on the table of twenty_million.sql, in one run on one throw-away server,
# and writes docs/benchmarks.md.
#
#   bench.sh PG_CONFIG          some quarter of an hour and 15 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=20000000               fewer rows for a trial; the page then goes to the standard output
#   APPEND=2000000              rows appended
#   RUNS=3                      builds and appends of each kind; the median counts
#   VARIANTS='btree brin skip'
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: bench.sh PG_CONFIG"
rows=${ROWS:-20000000}
append=${APPEND:-$((rows / 10))}
runs=${RUNS:-3}
variants=${VARIANTS:-btree brin skip}
subject=events.trace_id

buffers=$(buffers_mb 6144)
settings=(shared_buffers="${buffers}MB" maintenance_work_mem=256MB max_wal_size=16GB min_wal_size=4GB checkpoint_timeout=1h autovacuum=off
          jit=off max_parallel_workers_per_gather=0 max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
[ "$variants" = "${variants/skip/}" ] || sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql"

load_events "$rows"
sql -c "SELECT pg_prewarm('events')" -c "CALL bench.choose_keys('$subject', 2000, 200)" >/dev/null
distinct=$(sql -c "SELECT ceil(32 * reltuples / relpages)::integer FROM pg_class WHERE oid = 'events'::regclass")
keep() { sql -c "INSERT INTO bench.result VALUES ('$subject', '$1', '$2', $3)"; }

step 'no index: absent key'
keep none absent_ms "(SELECT bench.query_ms(bench.queries('$subject', 'absent')))"
done_step

for variant in $variants; do
    ddl=$(create_index "$variant" events trace_id "$distinct")
    for run in $(seq "$runs"); do
        step "$(title "$variant"): build $run of $runs"
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
        keep "$variant" build_s "$(sql -c "CALL bench.timed(\$\$$ddl\$\$)")"
        done_step
    done
    keep "$variant" bytes "pg_relation_size('bench_index')"
    step "$(title "$variant"): queries"
    sql -c "SELECT pg_prewarm('bench_index')" -c "CALL bench.measure('$subject', '$variant', 100)" >/dev/null
    sql -c 'DROP INDEX bench_index'
    done_step
done

# Appends. The same rows are added to the same table under each kind of index and taken away again: the index is dropped,
# the rows are deleted, and VACUUM cuts the table back to where it ended. The kinds take turns, so that a slow minute of
# the machine meets them all. The time to summarize what an append left unsummarized is measured beside it.
appended=none
for variant in $variants; do
    case $variant in
        brin) appended+=' brin brin_on' ;;
        skip) appended+=' skip_off skip' ;;
        *)    appended+=" $variant" ;;
    esac
done
step "$append rows to append"
sql -c "CREATE UNLOGGED TABLE staging AS SELECT * FROM event_rows($rows + 1, $rows + $append)" \
    -c 'VACUUM (FREEZE, ANALYZE) staging' -c "SELECT pg_prewarm('staging')" >/dev/null
done_step
for run in $(seq "$runs"); do
    for variant in $appended; do
        step "append under $(title "$variant"), $run of $runs"
        sql -c "$(create_index "$variant" events trace_id "$distinct")" >/dev/null
        keep "$variant" append_s "$(sql -c "CALL bench.timed('INSERT INTO events SELECT * FROM staging')")"
        case $variant in
            brin*) keep "$variant" summarize_s "$(sql -c "CALL bench.timed(\$\$SELECT brin_summarize_new_values('bench_index')\$\$)")" ;;
            skip*) keep "$variant" summarize_s "$(sql -c "CALL bench.timed(\$\$SELECT skip_summarize('bench_index')\$\$)")" ;;
        esac
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
        sql -c "DELETE FROM events WHERE id > $rows" -c 'VACUUM (FREEZE) events'
        done_step
    done
done

page() {
    cat <<END
<!-- Made by \`make bench\` (benches/bench.sh). Do not edit: run it again. -->
# Benchmarks

The table of [benches/twenty_million.sql](../benches/twenty_million.sql) and its random \`uuid\` column \`trace_id\`:
$(sql -c "SELECT format('%s rows, %s pages, %s MB.', to_char($rows, 'FM999,999,999'), to_char(relpages, 'FM999,999,999'),
                        to_char(relpages / 128.0, 'FM999,990')) FROM pg_class WHERE oid = 'events'::regclass")
Everything here was measured in one run of \`make bench\`, $(date -u +%F).

- Machine: $(machine).
- $(sql -c "SELECT split_part(version(), ' on ', 1)")$(sql -c "SELECT ', pg_skip ' || extversion FROM pg_extension WHERE extname = 'pg_skip'"). Settings: \`${settings[*]}\`; everything else is PostgreSQL's default.
- One client; table and index were read into shared buffers before the queries.
- BRIN: \`uuid_bloom_ops (n_distinct_per_range = $distinct, false_positive_rate = 0.01)\`, \`pages_per_range = 32\`. skip: default options.
- Queries: medians over up to 200 single keys and up to 20 lists, each key in a query of its own, parsing and planning included.
  Sequential scans were switched off for them; "chosen" says whether the planner takes the index when nothing is switched off.
- Builds and appends: medians of $runs, commit included.
- Consult: the node of the plan that reads the index, by EXPLAIN (ANALYZE, BUFFERS). Pages are of 8 kB.

END
    sql -v subject="$subject" -v append="$append" -v runs="$runs" -f "$here/report.sql"
}
if [ "$rows" = 20000000 ]; then
    page >"$here/../docs/benchmarks.md.new"
    mv "$here/../docs/benchmarks.md.new" "$here/../docs/benchmarks.md"
    echo 'docs/benchmarks.md is written' >&2
else
    page
fi
