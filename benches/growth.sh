#!/usr/bin/env bash
# Measures how skip's indexes do while a table grows by inserts alone, then after random updates and VACUUM, and for a
# queue, whose rows come and go; beside a btree. Writes docs/growth.md.
#
#   growth.sh PG_CONFIG         20 minutes to two hours, and 40 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=100000000              rows in the end; if they are fewer, page, results and plot go to target/bench
#   OUT=directory               where they go instead
#   BTREE_ROWS=20000000         the btree, and the table without an index, grow only up to so many
#   UPDATES=10000000            random rows updated in the end
#   ROUNDS=1000                 rounds of the queue
#   QUEUE=100000                rows in the queue, of which a tenth goes and comes in each round
#   RUNS=5                      runs of the lookups; the median counts
#   VARIANTS='none btree skip filters'
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=out.sh
. "$here/out.sh"
[ $# = 1 ] || die "usage: growth.sh PG_CONFIG"
rows=${ROWS:-100000000}
btree_rows=${BTREE_ROWS:-20000000}
updates=${UPDATES:-$((rows / 10))}
rounds=${ROUNDS:-1000}
queue=${QUEUE:-100000}
runs=${RUNS:-5}
variants=${VARIANTS:-none btree skip filters}
choose_out 100000000 "$rows"

start_growing_server "$1"
sql -f "$here/growth_results.sql"
common_context rows "$rows" btree_rows "$btree_rows" updates "$updates" rounds "$rounds" queue "$queue" runs "$runs" \
    settings "${settings[*]}"

# growing_index VARIANT: the statement that creates the index.
growing_index() { create_index "$1" events trace_id 0; }

# fresh_index VARIANT: builds the same index once more, as fresh_index.
fresh_index() { sql -c "$(growing_index "$1" | sed 's/bench_index/fresh_index/')"; }

# measure VARIANT MOMENT ROWS: everything about the index, beside a fresh one.
measure() {
    sql -c "CALL bench.choose_growing_keys($3, 200)"
    [ "$1" = btree ] || fresh_index "$1"
    sql -c 'ANALYZE events' -c "CALL bench.measure_growth('$1', '$2', $runs)" \
        -c 'DROP INDEX IF EXISTS fresh_index' 2>/dev/null
}

for variant in $variants; do
    case $variant in none | btree) last=$((rows < btree_rows ? rows : btree_rows)) ;; *) last=$rows ;; esac
    sql -c 'TRUNCATE events' -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    sql -c "$(growing_index "$variant")" >/dev/null
    have=0
    for size in 1000000 5000000 10000000 20000000 50000000 100000000 "$last"; do
        if [ "$size" -gt "$last" ] || [ "$size" -le "$have" ]; then continue; fi
        step "$(title "$variant"): growing to $(millions "$size") rows"
        sql -c "CALL bench.grow('$variant', $((have + 1)), $size)"
        have=$size
        done_step
        [ "$variant" != none ] || continue
        step "$(title "$variant"): lookups"
        measure "$variant" "$(millions "$size")" "$size"
        done_step
    done
    [ "$variant" != none ] || continue
    step "$(title "$variant"): $updates random updates, VACUUM"
    part=$(awk "BEGIN { print $updates / $rows }")
    sql -c "UPDATE events SET trace_id = md5('trace ' || id + $rows)::uuid WHERE random() < $part"
    [ "$variant" = btree ] || measure "$variant" "$(millions "$updates") random updates later" "$have"
    sql -c 'VACUUM events'
    measure "$variant" "after VACUUM" "$have"
    done_step
done

# The queue: a tenth of the rows goes, as many come, VACUUM; again and again.
for variant in $variants; do
    [ "$variant" != none ] || continue
    step "$(title "$variant"): a queue, $rounds rounds"
    sql -c 'TRUNCATE events' -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    sql -c "INSERT INTO events SELECT * FROM event_rows(1, $queue)" -c "$(growing_index "$variant")"
    part=$((queue / 10))
    for round in $(seq "$rounds"); do
        echo "DELETE FROM events WHERE id <= $((round * part));"
        first=$((queue + (round - 1) * part + 1))
        echo "INSERT INTO events SELECT * FROM event_rows($first, $((queue + round * part)));"
        echo 'VACUUM events;'
    done | sql
    measure "$variant" "a queue of $queue rows, $rounds rounds" $((queue + rounds * part))
    done_step
done

bytes_per_row=$(sql -c "SELECT bench.bytes_per_row()")
(cd "$here/.." && cargo run -q --release -p skip_segment --example growth_curve -- "$bytes_per_row") |
    sql -c 'COPY bench.curve FROM STDIN (FORMAT csv)' || echo 'the curve of larger tables is left out' >&2
write_results growth 'bench.growth_as_json()'
draw_plots growth

page() {
    cat <<END
<!-- Made by \`make bench-growth\` (benches/growth.sh). Do not edit: run it again. -->
# Growth

A table of the shape of [benches/twenty_million.sql](../benches/twenty_million.sql) grows by inserts alone. Each 100,000
rows come by 1,000 statements of one row, 49 of 1,000 rows and one of 50,000; each statement is a transaction. Nothing
else maintains the index. Measured in one run of \`make bench-growth\`, $(date -u +%F),
revision $(sql -c "SELECT bench.context('revision')"):
\`ROWS=$rows BTREE_ROWS=$btree_rows UPDATES=$updates ROUNDS=$rounds QUEUE=$queue RUNS=$runs\`.
[results/growth.json](results/growth.json) has the same figures.

- Machine: $(machine).
- $(versions pg_skip).
- Settings:
  $(settings_in_lines).
- "fresh" is a second index of the same kind and options that was built when the other was measured, on the same table.
  Both take turns. Times are those of whole queries, parsing and planning included: medians of $runs runs of up to 200
  keys each, the least and the greatest median in brackets. Index pages are those that one lookup reads, as EXPLAIN
  (ANALYZE) counts them. The rate is the false-positive rate that the index expects of itself.
- "Segments of a key" is the largest number of segments that a lookup of any key meets. While maps are being merged, one
  part of the keys after the other, lookups of most keys meet fewer: so there may be more segments than index pages.
- The bound of the number of segments is in \`crates/skip_segment/src/growth.rs\`.
- How long inserts take includes everything that the machine did meanwhile; compare with the line without an index.

$(image growth 'Time of a lookup and index pages that it reads, by rows of the table')

END
    sql -f "$here/growth_report.sql"
}
page >"$out/growth.md.new"
mv "$out/growth.md.new" "$out/growth.md"
echo "$out/growth.md is written" >&2
[ "$out" = "$(cd "$here/../docs" && pwd)" ] || cat "$out/growth.md"
