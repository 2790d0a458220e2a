#!/usr/bin/env bash
# Measures lookups in tables into which other sessions insert rows at the same time; beside a btree. Writes
# docs/busy-tables.md.
#
#   busy.sh PG_CONFIG           a quarter of an hour, and 10 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=5000000                rows of each table at first; if they are others, page and results go to target/bench
#   OUT=directory               where they go instead
#   RUNS=5                      rounds in which the kinds take turns; the median counts
#   RATES='0 1000 5000'         rows that are inserted a second, each by a transaction
#   SECONDS_EACH=4              seconds of lookups each time
#   VARIANTS='btree skip filters'
#
# What needs an empty page cache is left out if this does not run as root.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=out.sh
. "$here/out.sh"
# shellcheck source=cold.sh
. "$here/cold.sh"
[ $# = 1 ] || die "usage: busy.sh PG_CONFIG"
rows=${ROWS:-5000000}
runs=${RUNS:-5}
rates=${RATES:-0 1000 5000}
seconds_each=${SECONDS_EACH:-4}
variants=${VARIANTS:-btree skip filters}
choose_out 5000000 "$rows"

start_growing_server "$1"
common_context rows "$rows" runs "$runs" rates "$rates" seconds_each "$seconds_each" settings "${settings[*]}"

# in_schema VARIANT COMMAND…: runs a command with the schema of this kind of index first in the search path.
in_schema() { PGOPTIONS="-c search_path=$1,public" "${@:2}"; }

# A table for each kind of index, which has grown in the same way as that of growth.sh. The second indexed column is
# behind another one of variable length.
make_table() {
    step "$(title "$1"): growing to $rows rows"
    sql -c "CREATE SCHEMA $1" \
        -c "CREATE TABLE $1.events (LIKE events, request text GENERATED ALWAYS AS ('r ' || trace_id::text) STORED)"
    in_schema "$1" sql -c "$(create_index "$1" events trace_id 0)" \
        -c "$(create_index "$1" events request 0 | sed 's/bench_index/request_index/')"
    in_schema "$1" sql -c "CALL bench.grow('grown', 1, $rows)" -c 'ANALYZE events'
    done_step
}

# look_up SCRIPT ARGUMENT…: lookups by pgbench, and what it says of them.
look_up() { "$bin/pgbench" -n -M prepared -D rows="$rows" -f "$here/$1.pgbench" "${@:2}"; }

inserted=$server_dir/inserted
# beside_inserts VARIANT RATE COMMAND…: runs a command while two sessions insert so many rows a second. Their pgbench
# ends with the command, and says of each second how many rows came.
beside_inserts() {
    local inserting=
    : >"$inserted"
    if [ "$2" != 0 ]; then
        # Not by in_schema: a function in the background is a shell, and the signal would end that only.
        PGOPTIONS="-c search_path=$1,public" "$bin/pgbench" -n -M prepared -c 2 -j 1 -T 3600 -P 1 -R "$2" \
            -D rows="$rows" -f "$here/insert.pgbench" >"$inserted" 2>&1 &
        inserting=$!
        sleep 1
    fi
    in_schema "$1" "${@:3}"
    [ -z "$inserting" ] || { kill "$inserting"; wait "$inserting" || true; }
}

# keep VARIANT RATE METRIC VALUE
keep() { sql -c "INSERT INTO bench.result VALUES ('$2', '$1', '$3', $4)"; }

# busy VARIANT RATE SCRIPT
busy() {
    keep "$1" "$2" "$3_tps" "$(beside_inserts "$1" "$2" look_up "$3" -c 4 -j 2 -T "$seconds_each" |
        sed -n 's/^tps = \([0-9.]*\).*/\1/p')"
    [ "$2" = 0 ] || keep "$1" "$2" insert_tps \
        "$(sed -n 's/^progress: .* s, \([0-9.]*\) tps.*/\1/p' "$inserted" | awk '{ n += $1 } END { print n / NR }')"
}

# The pages that a lookup reads right after rows were inserted.
pages() {
    sql -c "CALL bench.choose_growing_keys($rows, 100)"
    keep "$1" "$2" pages "$(in_schema "$1" sql \
        -c "SELECT (bench.explain(bench.queries('events.trace_id', 'present'), 3)).pages")"
}

# The first lookups of a server that has nothing in memory, beside inserts.
cold() {
    restart_server
    drop_caches
    keep "$1" "$2" cold_ms "$(beside_inserts "$1" "$2" look_up look_up -c 1 -t 200 |
        sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p')"
}

for variant in $variants; do make_table "$variant"; done
for run in $(seq "$runs"); do
    step "lookups beside inserts, round $run of $runs"
    for rate in $rates; do
        for variant in $(shuf -e $variants); do
            busy "$variant" "$rate" look_up
            pages "$variant" "$rate"
            busy "$variant" "$rate" look_up_text
        done
    done
    done_step
done
if drop_caches; then
    for run in $(seq "$runs"); do
        step "nothing in memory, round $run of $runs"
        for variant in $(shuf -e $variants); do cold "$variant" 1000; done
        done_step
    done
fi
write_results busy

page() {
    cat <<END
<!-- Made by \`make bench-busy\` (benches/busy.sh). Do not edit: run it again. -->
# Lookups in a table that gets rows at the same time

New rows are not in a skip index at once: they are summarized block range by block range, and until then a lookup reads
their pages. Here sessions look up keys while others insert rows. Measured in one run of \`make bench-busy\`,
$(date -u +%F), revision $(sql -c "SELECT bench.context('revision')"):
\`ROWS=$rows RUNS=$runs RATES='$rates' SECONDS_EACH=$seconds_each\`. [results/busy.json](results/busy.json) has the
same figures.

- Machine: $(machine).
- $(versions pg_skip).
- Settings:
  $(settings_in_lines).
- Each kind of index has a table of its own, of the shape of
  [benches/twenty_million.sql](../benches/twenty_million.sql), with a second indexed column \`request\`, a text behind
  another text. It has grown to $(millions "$rows") rows by inserts of one row, of 1,000 and of 50,000 rows. Nothing but
  these and the inserts below maintains the indexes.
- Lookups: \`pgbench -M prepared\`, four clients, each time another key of the first $(millions "$rows") rows
  (benches/look_up.pgbench, look_up_text.pgbench), for $seconds_each seconds.
- Inserts at the same time: two clients, each transaction an INSERT of one row (benches/insert.pgbench), as many rows a
  second as asked for (\`pgbench -R\`). All of them share the processors with the lookups.
  These rows stay: each round begins with more of them. The pages of a lookup are counted right after that, as the
  median of 100 keys.
- Medians of $runs rounds in which the kinds took turns, the least and the greatest in brackets.

END
    sql -f "$here/busy_report.sql"
}
page >"$out/busy-tables.md.new"
mv "$out/busy-tables.md.new" "$out/busy-tables.md"
echo "$out/busy-tables.md is written" >&2
[ "$out" = "$(cd "$here/../docs" && pwd)" ] || cat "$out/busy-tables.md"
