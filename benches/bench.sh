#!/usr/bin/env bash
# Measures skip against a btree, hash, BRIN bloom, contrib/bloom and ClickHouse on the table of twenty_million.sql, in
# one run on one throw-away server, and writes docs/benchmarks.md and the figures in README.md.
#
#   bench.sh PG_CONFIG          an hour or more, and 24 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=20000000               fewer rows for a trial; the pages then go to target/bench
#   OUT=directory               where pages, results and plots go instead
#   APPEND=2000000              rows appended
#   UPDATED=1000000             rows updated
#   RUNS=5                      rounds in which the indexes are built, and queries asked of each, in turn
#   ROUNDS=5                    rounds of plannings, prepared lookups, scans with parallel workers and without, updates,
#                               and cold queries
#   APPEND_ROUNDS=7             rounds of appends and inserts, which vary most: by default two more than ROUNDS
#   QUERY_SECONDS=2             of queries of one kind, in each round with each index
#   TURNS=50                    in each round, of btree, skip and filters, which are asked in turn
#   SECONDS_EACH=10             of prepared lookups, in each round by each way
#   VARIANTS='btree hash brin_default brin brin_tuned bloom skip filters'
#                               (writes and plans are measured of btree, brin, skip, filters; of hash, bloom: appends)
#   PARTITIONS=1000             of the table whose planning is measured
#   CLICKHOUSE=no COLD=no PLOTS=no   leave these parts out
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=writes.sh
. "$here/writes.sh"
# shellcheck source=cold.sh
. "$here/cold.sh"
# shellcheck source=out.sh
. "$here/out.sh"
# shellcheck source=clickhouse.sh
. "$here/clickhouse.sh"
[ $# = 1 ] || die "usage: bench.sh PG_CONFIG"
rows=${ROWS:-20000000}
append=${APPEND:-$((rows / 10))}
updated=${UPDATED:-$((rows / 20))}
runs=${RUNS:-5}
rounds=${ROUNDS:-5}
append_rounds=${APPEND_ROUNDS:-$((rounds + 2))}
query_seconds=${QUERY_SECONDS:-2}
turns=${TURNS:-50}
seconds_each=${SECONDS_EACH:-10}
variants=${VARIANTS:-btree hash brin_default brin brin_tuned bloom skip filters}
partitions=${PARTITIONS:-1000}
plannings=5 # in each batch of plannings over partitions
choose_out 20000000 "$rows"
left_out=()
# Those of which writes and plans are measured.
core=
for variant in btree brin skip filters; do [[ " $variants " != *" $variant "* ]] || core+=" $variant"; done
subject=events.trace_id
clustered=events.device_id
# shellcheck source=turns.sh
. "$here/turns.sh"

# Room for four tables of 2.1 GB and their indexes.
buffers=$(buffers_mb 9216)
# A table of 1,000 partitions with an index has 2,000 files. A server that may not keep them open (the default is 1,000)
# spends a third of the planning time on opening and closing them, whatever the kind of index.
settings=(shared_buffers="${buffers}MB" maintenance_work_mem=256MB max_wal_size=16GB min_wal_size=4GB
          checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0
          max_parallel_maintenance_workers=0 max_files_per_process=$((partitions * 4 + 1000)))
start_server "$1" "${settings[@]}"
[ "$variants" = "${variants/skip/}" ] || sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql"
if [[ " $variants " == *' bloom '* ]] && ! sql -c 'CREATE EXTENSION bloom' 2>/dev/null; then
    variants=${variants/bloom/}
    left_out+=('contrib/bloom, which this server does not have')
fi

load_events "$rows"
common_context rows "$rows" append "$append" updated "$updated" runs "$runs" rounds "$rounds" \
    append_rounds "$append_rounds" order turns turns "$turns" partitions "$partitions" plannings "$plannings" \
    settings "${settings[*]}"
sql -c "INSERT INTO bench.context SELECT v.* FROM pg_class,
        LATERAL (VALUES ('table_pages', relpages::text), ('table_bytes', pg_relation_size(oid)::text)) AS v
        WHERE oid = 'events'::regclass"
sql -c "SELECT pg_prewarm('events')" -c "CALL bench.choose_keys('$subject', 2000, 5000)" \
    -c "CALL bench.choose_keys('$clustered', 200, 200)" >/dev/null
distinct=$(sql -c "SELECT bench.distinct_in_range('$subject')")
clustered_distinct=$(sql -c "SELECT bench.distinct_in_range('$clustered')")
# keep VARIANT METRIC VALUE [SUBJECT]
keep() { sql -c "INSERT INTO bench.result VALUES ('${4:-$subject}', '$1', '$2', $3)"; }

context distinct "$distinct" clustered_distinct "$clustered_distinct"
sql -c "INSERT INTO bench.context
        SELECT 'rows_of_device', (CASE WHEN n_distinct > 0 THEN $rows / n_distinct ELSE -1 / n_distinct END)::bigint
        FROM pg_stats
        WHERE tablename = 'events' AND attname = 'device_id'"

step 'no index: absent key'
for run in $(seq "$rounds"); do
    keep none absent_ms "(SELECT bench.query_ms(bench.queries('$subject', 'absent'), $query_seconds))"
done
done_step

# measure SUBJECT VARIANT DISTINCT LIST_SIZE: builds the index, asks all queries once.
measure() {
    local subject=$1 variant=$2 ddl kind seconds timed
    ddl=$(create_index "$variant" events "${subject#*.}" "$3")
    step "${subject#*.}, round $run of $runs: $(title "$variant")"
    sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    keep "$variant" build_s "$(sql -c "CALL bench.timed(\$\$$ddl\$\$)")" "$subject"
    if [ "$variant" = skip ]; then
        sql -c 'DROP INDEX bench_index'
        seconds=$(PGOPTIONS='-c max_parallel_maintenance_workers=1' sql -c "CALL bench.timed(\$\$$ddl\$\$)")
        keep "$variant" build_parallel_s "$seconds" "$subject"
    fi
    [ "$run" != 1 ] || keep "$variant" bytes "pg_relation_size('bench_index')" "$subject"
    sql -c "SELECT pg_prewarm('bench_index')" >/dev/null
    for kind in "$variant" $([ "$variant" = skip ] && echo skip_bitmap); do
        timed=true
        if [ "$subject" = events.trace_id ] && is_in_turns "$kind"; then timed=false; fi
        sql -c "CALL bench.measure('$subject', '$kind', $4, $query_seconds, $timed)"
    done
    done_step
}
# All kinds take turns, so that other work of the machine slows down all of them. In five rounds of one kind, a lookup
# in the same btree took from 28 to 42 microseconds.
make_tables_of_turns
for run in $(seq "$runs"); do
    for variant in $(shuf -e $variants); do measure "$subject" "$variant" "$distinct" 100; done
    take_turns
done
drop_tables_of_turns
if [ "${CLICKHOUSE:-yes}" = yes ]; then measure_clickhouse; else left_out+=('ClickHouse: CLICKHOUSE=no'); fi
for run in $(seq "$runs"); do
    # A hash index has a chain of pages for each device, and walks along it for each row that it gets.
    for variant in $(shuf -e ${variants/hash/}); do measure "$clustered" "$variant" "$clustered_distinct" 0; done
done
if [[ " $variants " == *' skip '* ]]; then
    # Half of the table: half of the devices, which have about 2000 rows in turn.
    step 'half of the table, with parallel workers and without'
    sql -c 'DROP INDEX bench_index' -c "$(create_index skip events "${clustered#*.}" "$clustered_distinct")"
    devices=$((rows / 2000 < 1000 ? rows / 2000 : 1000))
    half="SELECT count(*) FROM events WHERE device_id = ANY ('{$(seq -s , 0 $((devices / 2 - 1)))}')"
    sql -c "CALL bench.measure_parallel('$clustered', \$\$$half\$\$, $rounds)"
    done_step
fi
sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null

# Prepared lookups of random keys that are there, and of lists of them, by eight clients: btree, skip and skip with
# filters in turn; of single keys with the plans that the server chooses by itself, and with generic ones. All indexes
# are there; the planner is kept from the others by what it may do.
# only_index VARIANT: options of a session that keep the planner from the other kinds' indexes.
only_index() {
    case $1 in
        btree) echo '-c pg_skip.ignore_indexes=bench_skip,bench_filters' ;;
        skip)  echo '-c enable_indexscan=off -c enable_bitmapscan=off -c pg_skip.ignore_indexes=bench_filters' ;;
        filters) echo '-c enable_indexscan=off -c enable_bitmapscan=off -c pg_skip.ignore_indexes=bench_skip' ;;
    esac
}

# look_ups VARIANT MODE SCRIPT: transactions a second.
look_ups() {
    PGOPTIONS="$(only_index "$1") -c plan_cache_mode=$2" "$bin/pgbench" -n -M prepared -c 8 -j 2 -T "$seconds_each" \
        -D rows="$rows" -f "$here/$3.pgbench" | sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
if [[ " $variants " == *' btree '* && " $variants " == *' skip '* && " $variants " == *' filters '* ]]; then
    step 'prepared lookups: indexes'
    for variant in btree skip filters; do
        sql -c "$(create_index "$variant" events trace_id "$distinct" | sed "s/bench_index/bench_$variant/")" >/dev/null
        sql -c "SELECT pg_prewarm('bench_$variant')" >/dev/null
    done
    sql -c 'VACUUM events' -c "CREATE TABLE bench.list AS
            SELECT number, array_agg(md5('trace ' || 1 + floor(random() * $rows)::bigint)::uuid) AS keys
            FROM generate_series(1, 1000) AS number, generate_series(1, 1000) GROUP BY number" \
        -c 'ALTER TABLE bench.list ADD PRIMARY KEY (number)' -c 'VACUUM ANALYZE bench.list'
    done_step
    for round in $(seq "$rounds"); do
        step "prepared lookups: round $round of $rounds"
        for mode in auto force_generic_plan; do
            for variant in btree skip filters; do
                keep "$variant" "tps_$mode" "$(look_ups "$variant" "$mode" look_up)"
            done
        done
        for variant in btree skip filters; do
            keep "$variant" tps_lists "$(look_ups "$variant" auto look_up_list)"
        done
        done_step
    done
    [ "${COLD:-yes}" != yes ] || measure_cold
    sql -c 'DROP TABLE bench.list' -c 'DROP INDEX bench_btree, bench_skip, bench_filters'
fi

# Planning a query that the index is no use for, with each kind of index in the same place, in turn.
for round in $(seq "$rounds"); do
    step "planning without use of the index: round $round of $rounds"
    for variant in none $core; do
        [ "$variant" != btree ] || continue # dear to build, and nobody's rival here
        sql -c "$(create_index "$variant" events trace_id "$distinct")" >/dev/null
        query="SELECT * FROM events WHERE ts = '2026-01-01 00:00Z'"
        sql -c "CALL bench.measure_planning('$subject', '$variant', \$\$$query\$\$)"
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    done
    done_step
done

# Planning over many partitions, with each kind of index on all of them, in turn: in small partitions nothing is
# summarized, in large ones it is.
for planned in partitions:1000 'summarized partitions:3000'; do
    step "planning over ${planned%:*}"
    sql -v partitions="$partitions" -v rows="${planned#*:}" -f "$here/partitions.sql" >/dev/null
    query="SELECT * FROM partitions WHERE trace_id = md5('trace 77')::uuid"
    for round in $(seq "$rounds"); do
        for variant in none $core; do
            sql -c "$(create_index "$variant" partitions trace_id "$distinct")" \
                -c 'VACUUM ANALYZE partitions' >/dev/null
            sql -c "CALL bench.measure_planning('${planned%:*}', '$variant', \$\$$query\$\$, 5, $plannings)"
            sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
        done
    done
    sql -c 'DROP TABLE partitions'
    done_step
done

measure_writes

for line in ${left_out[@]+"${left_out[@]}"}; do context "left_out ${line%%[:,]*}" "$line"; done
write_results benchmarks
draw_plots peers
page() {
    printf '%s\n' '<!-- Made by `make bench` (benches/bench.sh). Do not edit: run it again. -->' '# Benchmarks'
    sql -f "$here/report_head.sql"
    echo
    image peers 'Size, build time and lookups of the indexes on a random unique column'
    echo
    sql -f "$here/report.sql"
}
page >"$out/benchmarks.md.new"
mv "$out/benchmarks.md.new" "$out/benchmarks.md"
for part in readme_head readme; do sql -f "$here/$part.sql" >"$out/$part.md"; done
echo "$out/benchmarks.md is written" >&2
if [ "$rows" = 20000000 ] && [ -z "${OUT:-}" ]; then
    for part in readme_head readme; do
        between "$here/../README.md" "benches/$part.sql" "$out/$part.md"
        rm "$out/$part.md"
    done
    echo 'the figures in README.md are written' >&2
else
    cat "$out/benchmarks.md" "$out/readme_head.md" "$out/readme.md"
fi
