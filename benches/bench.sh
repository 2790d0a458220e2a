#!/usr/bin/env bash
# Measures skip against a btree and BRIN bloom on the table of twenty_million.sql, in one run on one throw-away server,
# and writes docs/benchmarks.md and the comparison in README.md.
#
#   bench.sh PG_CONFIG          some forty minutes and 15 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=20000000               fewer rows for a trial; the page then goes to the standard output
#   APPEND=2000000              rows appended
#   UPDATED=1000000             rows updated
#   RUNS=5                      builds of each kind; the median counts
#   ROUNDS=5                    rounds of queries, plannings, prepared lookups, scans with parallel workers and without,
#                               writes, and cold queries
#   SECONDS_EACH=10             of prepared lookups, in each round by each way
#   VARIANTS='btree brin skip filters'
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=writes.sh
. "$here/writes.sh"
# shellcheck source=cold.sh
. "$here/cold.sh"
[ $# = 1 ] || die "usage: bench.sh PG_CONFIG"
rows=${ROWS:-20000000}
append=${APPEND:-$((rows / 10))}
updated=${UPDATED:-$((rows / 20))}
runs=${RUNS:-5}
rounds=${ROUNDS:-5}
seconds_each=${SECONDS_EACH:-10}
variants=${VARIANTS:-btree brin skip filters}
subject=events.trace_id
clustered=events.device_id

buffers=$(buffers_mb 6144)
settings=(shared_buffers="${buffers}MB" maintenance_work_mem=256MB max_wal_size=16GB min_wal_size=4GB
          checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0
          max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
[ "$variants" = "${variants/skip/}" ] || sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql"

load_events "$rows"
sql -c "SELECT pg_prewarm('events')" -c "CALL bench.choose_keys('$subject', 2000, 5000)" \
    -c "CALL bench.choose_keys('$clustered', 200, 200)" >/dev/null
distinct=$(sql -c "SELECT bench.distinct_in_range('$subject')")
clustered_distinct=$(sql -c "SELECT bench.distinct_in_range('$clustered')")
# keep VARIANT METRIC VALUE [SUBJECT]
keep() { sql -c "INSERT INTO bench.result VALUES ('${4:-$subject}', '$1', '$2', $3)"; }

step 'no index: absent key'
keep none absent_ms "(SELECT bench.query_ms(bench.queries('$subject', 'absent')))"
done_step

# measure SUBJECT VARIANT DISTINCT LIST_SIZE: builds the index, asks all queries.
measure() {
    local subject=$1 variant=$2 run ddl kind
    ddl=$(create_index "$variant" events "${subject#*.}" "$3")
    for run in $(seq "$runs"); do
        step "${subject#*.}, $(title "$variant"): build $run of $runs"
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
        keep "$variant" build_s "$(sql -c "CALL bench.timed(\$\$$ddl\$\$)")" "$subject"
        done_step
        [ "$variant" = skip ] || continue
        step "${subject#*.}, $(title "$variant"): build $run of $runs, with a parallel worker"
        sql -c 'DROP INDEX bench_index'
        seconds=$(PGOPTIONS='-c max_parallel_maintenance_workers=1' sql -c "CALL bench.timed(\$\$$ddl\$\$)")
        keep "$variant" build_parallel_s "$seconds" "$subject"
        done_step
    done
    keep "$variant" bytes "pg_relation_size('bench_index')" "$subject"
    sql -c "SELECT pg_prewarm('bench_index')" >/dev/null
    for kind in "$variant" $([ "$variant" = skip ] && echo skip_bitmap); do
        step "${subject#*.}, $(title "$kind"): queries"
        for run in $(seq "$rounds"); do sql -c "CALL bench.measure('$subject', '$kind', $4, 2)"; done
        done_step
    done
}
for variant in $variants; do measure "$subject" "$variant" "$distinct" 100; done
for variant in $variants; do
    measure "$clustered" "$variant" "$clustered_distinct" 0
    # Half of the table: half of the devices, which have about 2000 rows in turn.
    if [ "$variant" = skip ]; then
        step 'half of the table, with parallel workers and without'
        devices=$((rows / 2000 < 1000 ? rows / 2000 : 1000))
        half="SELECT count(*) FROM events WHERE device_id = ANY ('{$(seq -s , 0 $((devices / 2 - 1)))}')"
        sql -c "CALL bench.measure_parallel('$clustered', \$\$$half\$\$, $rounds)"
        done_step
    fi
done
sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null

# Prepared lookups of random keys that are there, by eight clients: btree, skip and skip with filters in turn, with the
# plans that the server chooses by itself and with generic ones. All indexes are there; the planner is kept from the
# others by what it may do.
# only_index VARIANT: options of a session that keep the planner from the other kinds' indexes.
only_index() {
    case $1 in
        btree) echo '-c pg_skip.enable_scan=off' ;;
        skip)  echo '-c enable_indexscan=off -c enable_bitmapscan=off -c pg_skip.ignore_indexes=bench_filters' ;;
        filters) echo '-c enable_indexscan=off -c enable_bitmapscan=off -c pg_skip.ignore_indexes=bench_skip' ;;
    esac
}

# look_ups VARIANT MODE: transactions a second.
look_ups() {
    PGOPTIONS="$(only_index "$1") -c plan_cache_mode=$2" "$bin/pgbench" -n -M prepared -c 8 -j 2 -T "$seconds_each" \
        -D rows="$rows" -f "$here/look_up.pgbench" | sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
if [[ " $variants " == *' btree '* && " $variants " == *' skip '* && " $variants " == *' filters '* ]]; then
    step 'prepared lookups: indexes'
    for variant in btree skip filters; do
        sql -c "$(create_index "$variant" events trace_id "$distinct" | sed "s/bench_index/bench_$variant/")" >/dev/null
        sql -c "SELECT pg_prewarm('bench_$variant')" >/dev/null
    done
    sql -c 'VACUUM events'
    done_step
    for round in $(seq "$rounds"); do
        step "prepared lookups: round $round of $rounds"
        for mode in auto force_generic_plan; do
            for variant in btree skip filters; do keep "$variant" "tps_$mode" "$(look_ups "$variant" "$mode")"; done
        done
        done_step
    done
    measure_cold
    sql -c 'DROP INDEX bench_btree, bench_skip, bench_filters'
fi

# Planning a query that the index is no use for, with each kind of index in the same place, in turn.
for round in $(seq "$rounds"); do
    step "planning without use of the index: round $round of $rounds"
    for variant in none $variants; do
        [ "$variant" != btree ] || continue # dear to build, and nobody's rival here
        sql -c "$(create_index "$variant" events trace_id "$distinct")" >/dev/null
        query="SELECT * FROM events WHERE ts = '2026-01-01 00:00Z'"
        sql -c "CALL bench.measure_planning('$subject', '$variant', \$\$$query\$\$)"
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    done
    done_step
done

# Planning over many partitions, with each kind of index on all of them, in turn.
step 'partitions'
sql -f "$here/partitions.sql" >/dev/null
done_step
for variant in none $variants; do
    step "planning over partitions: $(title "$variant")"
    sql -c "$(create_index "$variant" partitions trace_id "$distinct")" -c 'VACUUM ANALYZE partitions' >/dev/null
    for round in $(seq "$rounds"); do
        sql -c "CALL bench.measure_planning('partitions', '$variant',
                     \$\$SELECT * FROM partitions WHERE trace_id = md5('trace 77')::uuid\$\$, 5, 3)"
    done
    sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    done_step
done
sql -c 'DROP TABLE partitions'

measure_writes

page() {
    cat <<END
<!-- Made by \`make bench\` (benches/bench.sh). Do not edit: run it again. -->
# Benchmarks

The table of [benches/twenty_million.sql](../benches/twenty_million.sql):
$(sql -c "SELECT format('%s rows, %s pages, %s MB.', to_char($rows, 'FM999,999,999'),
                        to_char(relpages, 'FM999,999,999'),
                        to_char(relpages / 128.0, 'FM999,990')) FROM pg_class WHERE oid = 'events'::regclass")
Everything here was measured in one run of \`make bench\`, $(date -u +%F).

- Machine: $(machine).
- $(versions pg_skip). Settings: \`${settings[*]}\`;
  everything else is PostgreSQL's default, but for the parallel scans.
- One client; table and index were read into shared buffers before the queries.
- skip: default options (on \`trace_id\` that is a map by single pages); "filters": \`layout = filters\`.
  The planner takes Skip Index Scans by itself. "Through bitmap scans": the same index with
  \`pg_skip.enable_scan = off\`.
- BRIN: \`*_bloom_ops (n_distinct_per_range = n, false_positive_rate = 0.01)\`, \`pages_per_range = 32\`,
  where n is what the ranges hold: $distinct of \`trace_id\`, $clustered_distinct of \`device_id\` (BRIN's least is 16).
- Queries: \`SELECT *\`; in each round the median over up to 200 single keys, up to 20 lists of 100 absent keys and
  up to 5 of 1,000 present ones, parsing and planning included. Sequential scans were switched off for them; "chosen"
  says how the planner reads the table when nothing is switched off.
- Builds: medians of $runs, commit included. All other figures: medians of $rounds rounds. Least and greatest stand in
  brackets.
- Consult: the node of the plan that reads the index, by EXPLAIN (ANALYZE, BUFFERS). A Skip Index Scan reads the table
  as well: its pages are those of the index, its time is that of the whole node. Pages are of 8 kB.

END
    sql -v subject="$subject" -v clustered="$clustered" -v rounds="$rounds" -v append="$append" \
        -v updated="$updated" -f "$here/report.sql"
}
readme_table() { sql -v rows="$rows" -v subject="$subject" -f "$here/readme.sql"; }

# Replaces what README.md has between the two lines that say who writes it.
write_readme() {
    local table=$1 readme=$here/../README.md
    awk -v table="$table" '
        /^<!-- End of what `make bench` writes/ { while ((getline line < table) > 0) print line; inside = 0 }
        !inside                                 { print }
        /^<!-- Written by `make bench`/         { inside = 1 }' "$readme" >"$readme.new"
    mv "$readme.new" "$readme"
}

if [ "$rows" = 20000000 ]; then
    page >"$here/../docs/benchmarks.md.new"
    mv "$here/../docs/benchmarks.md.new" "$here/../docs/benchmarks.md"
    readme_table >"$server_dir/readme"
    write_readme "$server_dir/readme"
    echo 'docs/benchmarks.md and the table of README.md are written' >&2
else
    page
    readme_table
fi
