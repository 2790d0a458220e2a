#!/usr/bin/env bash
# Shows a skip index beside a btree and a BRIN bloom index, then its plans, a picture and its statistics, on a server
# that is gone afterwards.
#
#   demo.sh PG_CONFIG
#
#   ROWS=4000000          rows of the made-up table
#   VARIANTS='none btree brin skip'
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: demo.sh PG_CONFIG"
export PSQL_PAGER=''     # on a terminal, too, nobody has to press a key
rows=${ROWS:-4000000}
variants=${VARIANTS:-none btree brin skip}

start_server "$1" shared_buffers="$(buffers_mb 2048)MB" max_wal_size=8GB checkpoint_timeout=1h autovacuum=off jit=off \
    max_parallel_workers_per_gather=0 max_parallel_maintenance_workers=0
[ "$variants" = "${variants/skip/}" ] || sql -c 'CREATE EXTENSION pg_skip'

load_events "$rows"
table=events columns='trace_id'

sql -f "$here/lib.sql"
distinct=$(sql -c "SELECT least(6700, ceil(32 * reltuples / relpages))::integer FROM pg_class
                   WHERE oid = '$table'::regclass")
for column in $columns; do
    sql -c "CALL bench.choose_keys('$table.$column', 400, 100)"
    for variant in $variants; do
        step "$column: $(title "$variant")"
        ddl=$(create_index "$variant" "$table" "$column" "$distinct")
        seconds=$(sql -c "CALL bench.timed(\$\$$ddl\$\$)")
        if [ "$variant" != none ]; then
            sql -c "INSERT INTO bench.result VALUES ('$table.$column', '$variant', 'build_s', $seconds),
                    ('$table.$column', '$variant', 'bytes', pg_relation_size('bench_index'))"
        fi
        sql -c "CALL bench.measure('$table.$column', '$variant', 20, 4)"
        sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
        done_step
    done
done

for column in $columns; do
    printf '\n'
    sql -c "SELECT format('%s rows, %s, column %s %s; medians, milliseconds for the whole query, '
                          'pages of 8 kB touched by it',
            to_char((SELECT count(*) FROM $table), 'FM999,999,999'), pg_size_pretty(pg_relation_size('$table')),
            '$column', (SELECT format_type(atttypid, NULL) FROM pg_attribute
                        WHERE attrelid = '$table'::regclass AND attname = '$column'))"
    "$bin/psql" -X -q -P footer=off -P border=2 -P linestyle=unicode -P null='' -c "
        SELECT title AS \"index\",
               pg_size_pretty(bytes::bigint) AS \"size\",
               to_char(build_s, 'FM9990.00') || ' s' AS \"build\",
               lpad(bench.number(absent_ms), 8) AS \"absent key\", lpad(bench.number(absent_pages), 8) AS \"pages\",
               lpad(bench.number(present_ms), 8) AS \"present key\", lpad(bench.number(present_pages), 8) AS \"pages\",
               lpad(bench.number(list_ms), 8) AS \"IN (20 absent)\", lpad(bench.number(list_pages), 8) AS \"pages\",
               chosen AS \"planner's choice\"
        FROM bench.summary WHERE subject = '$table.$column'"
done

[ "$variants" != "${variants/skip/}" ] || exit 0
columns='trace_id device_id'
sql -c "CREATE INDEX demo_skip ON $table USING skip (${columns// /, })"
# key KIND COLUMN: a literal; columns without chosen keys give one of their own.
key() {
    sql -c "SELECT quote_literal(coalesce(
                (SELECT literal FROM bench.key WHERE (subject, kind, number) = ('$table.$2', '$1', 1)),
                (SELECT $2::text FROM $table OFFSET (SELECT count(*) / 3 FROM $table) LIMIT 1)))"
}
first=${columns%% *}
script="EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM $table WHERE $first = $(key absent "$first");"
for column in $columns; do
    script+="EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM $table WHERE $column = $(key present "$column");"
done
echo
echo "An index over both columns: the plans for an absent key, and for one present key of each column."
for column in $columns; do
    value=$(key present "$column")
    script+="
        \\qecho
        \\qecho Where the present key of $column lies: . is skipped, o read in vain, '#' has rows, ? is not summarized
        SELECT skip_range_map('demo_skip', '$column', v.$column, 100)
        FROM (SELECT $column FROM $table WHERE $column = $value LIMIT 1) AS v;"
done
script+="
    \\qecho
    \\qecho What these scans skipped
    \\pset tuples_only off
    \\pset border 2
    SELECT indexname, scans, ranges_checked, ranges_skipped, full_positives, true_positives,
           measured_false_positive_rate AS \"measured false-positive rate\", scope
    FROM pg_skip_stats WHERE indexname = 'demo_skip'"
# One session: without preloading, PostgreSQL 15 and 16 count for each session.
printf '%s\n' "$script" |
    "$bin/psql" -X -q -v ON_ERROR_STOP=1 -P footer=off -P border=0 -P linestyle=unicode -P tuples_only=on -P null=''
