#!/usr/bin/env bash
# Measures rates, ranges and layouts of the operator classes whose values have several keys, and writes
# docs/inside-sweep.md, from which the defaults of each kind of keys come.
#
#   inside_sweep.sh PG_CONFIG   some half an hour and 5 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=1000000                lines of inside.sql; if they are fewer, the page goes to the standard output,
#                               unless PAGE=1
#   RATES='0.0001 0.001 0.005 0.01 0.02 0.05 0.1'
#   PAGES='1 4 16 32'           pages of the ranges of maps and bounds; filters have 16
#   CLASSES='lines.tags …'
#   LENGTHS='2 3 4 5'           characters of a fragment
#   STARTS='8 16 24'            characters of the start of a text
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: inside_sweep.sh PG_CONFIG"
rows=${ROWS:-1000000}
rates=${RATES:-0.0001 0.001 0.005 0.01 0.02 0.05 0.1}
pages=${PAGES:-1 4 16 32}
classes=${CLASSES:-lines.tags lines.attributes lines.words lines.fragments lines.prefixes lines.times
         documents.lexemes flags.tags}
lengths=${LENGTHS:-2 3 4 5} starts=${STARTS:-8 16 24}

settings=(shared_buffers="$(buffers_mb 4096)MB" maintenance_work_mem=1GB max_wal_size=3GB checkpoint_timeout=1h
          autovacuum=off jit=off max_parallel_workers_per_gather=0 max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql" -f "$here/inside.sql" -f "$here/inside_sweep.sql"
sql -c "CALL bench.choose_searches($rows, 20)" -c "CALL bench.choose_sweep_searches(20)"

place=0
# definition CLASS EXPRESSION: what an SQL expression makes of the definition of its index.
definition() {
    sql -c "SELECT $2 FROM bench.kind WHERE tab || '.' || class = '$1' AND variant = 'skip'"
}
# measure CLASS OPTIONS LAYOUT PAGES RATE: one index, by the options of its operator class.
measure() {
    measure_as "$1" "$(definition "$1" "bench.with_options(definition, '$2')")" "${@:3}"
}
# measure_as CLASS DEFINITION LAYOUT PAGES RATE: one index.
measure_as() {
    local class=$1 definition=$2
    place=$((place + 1))
    step "$class: $definition"
    seconds=$(sql -c "CALL bench.timed('CREATE INDEX bench_index ON ${class%.*} USING $definition')")
    sql -c "SELECT pg_prewarm('bench_index')" \
        -c "CALL bench.measure_sweep($place, '$class', '$3', '$4', '$5', $seconds)" \
        -c 'DROP INDEX bench_index' >/dev/null
    done_step
}

loaded=
for class in $classes; do
    tab=${class%.*}
    if [ "$tab" != "$loaded" ]; then
        [ -z "$loaded" ] || sql -c "TRUNCATE $loaded"
        step "$tab: loading"
        for part in $(seq 0 19); do
            sql -c "INSERT INTO $tab
                    SELECT * FROM ${tab%s}_rows($((part * rows / 20 + 1)), $(((part + 1) * rows / 20)))"
        done
        sql -c "VACUUM (FREEZE, ANALYZE) $tab" -c "SELECT pg_prewarm('$tab')" >/dev/null
        done_step
        loaded=$tab
    fi
    measure "$class" '' default '' ''
    case $class in
        *.times)
            for range in $pages; do
                measure_as "$class" "$(definition "$class" definition) WITH (pages_per_range = $range)" \
                    bounds "$range" ''
            done
            continue ;;
        *.fragments)
            for length in $lengths; do measure "$class" "n = $length" "n = $length" '' ''; done ;;
        *.prefixes)
            for length in $starts; do
                measure_as "$class" "$(definition "$class" "bench.with_length(definition, $length)")" \
                    "length = $length" '' ''
            done ;;
    esac
    for rate in $rates; do
        for range in $pages; do
            measure "$class" "layout = map, pages_per_range = $range, false_positive_rate = $rate" map "$range" "$rate"
        done
        measure "$class" "layout = filters, false_positive_rate = $rate" filters 16 "$rate"
    done
done

page() {
    cat <<END
<!-- Made by \`make sweep-inside\` (benches/inside_sweep.sh). Do not edit: run it again. -->
# Rates and ranges for searches inside values: a sweep

What \`layout\`, \`pages_per_range\` and \`false_positive_rate\` do to the operator classes whose values have several
keys, on $(printf "%'d" "$rows") rows of the tables of [benches/inside.sql](../benches/inside.sql). The defaults of each
kind of keys, in [search-inside-values.md](search-inside-values.md#size-and-rate), come from these tables. Measured in
one run of \`make sweep-inside\`, $(date -u +%F).

- Machine: $(machine).
- $(versions pg_skip). Settings: \`${settings[*]}\`.
- "Absent" is searched for what is nowhere: "pages in vain" are the pages of the ranges that are read nevertheless, of
  each million pages of the table. That is the mean of 20 values. The time is that of the whole query,
  parsing and planning included: the median of 20 values, or of as many as take 0.3 seconds.
- "Absent, 4 letters" and so on are fragments of as many letters, which are looked up by 1, 3 and 9 keys.
- The first line of each table has default options. \`flags\` has only keys that are in nearly every block range.
- A search for the start of a text asks for 24 characters. If a path is shorter, the search asks for the whole path, and
  rules nothing out. If keys have fewer than 24 characters, paths with the same beginning have the same key.
END
    sql -f "$here/inside_sweep_report.sql"
}
if [ "$rows" -ge 1000000 ] || [ -n "${PAGE:-}" ]; then
    page >"$here/../docs/inside-sweep.md.new"
    mv "$here/../docs/inside-sweep.md.new" "$here/../docs/inside-sweep.md"
    echo 'docs/inside-sweep.md is written' >&2
else
    page
fi
