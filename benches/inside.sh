#!/usr/bin/env bash
# Measures the operator classes that search inside values beside GIN (pg_trgm, jsonb_path_ops, arrays, tsvector), BRIN,
# btrees and no index, in one run on one throw-away server, and writes docs/inside-benchmarks.md and its JSON.
#
#   inside.sh PG_CONFIG         some hours, most of them for GIN of lexemes and fragments, and 15 GB of disk under
#                               ${TMPDIR:-/tmp}
#
#   ROWS=5000000                log lines; if they are fewer, the page goes to the standard output, unless PAGE=1
#   APPEND=1000000              lines appended
#   ROUNDS=5                    rounds in which all kinds take turns: build, searches, append
#   SLOW_ROUNDS=5               the first of these rounds, in which GIN of lexemes and fragments takes part too
#   SEARCHES=20                 searches of each kind in a round, for at most SECONDS_EACH=4
#   KINDS='lines.tags …'        only these tables and classes, or: lines documents changes
#   JSON=file                   where the figures go as JSON, besides
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: inside.sh PG_CONFIG"
rows=${ROWS:-5000000}
append=${APPEND:-$((rows / 5))}
rounds=${ROUNDS:-5}
slow_rounds=${SLOW_ROUNDS:-$rounds}
searches=${SEARCHES:-20}
seconds_each=${SECONDS_EACH:-4}
kinds=${KINDS:-lines documents changes}
changes=$here/../../shared/data/git_changes.tsv.xz

settings=(shared_buffers="$(buffers_mb 6144)MB" maintenance_work_mem=1GB max_wal_size=3GB min_wal_size=1GB
          checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0
          max_parallel_maintenance_workers=0)
start_server "$1" "${settings[@]}"
sql -c 'CREATE EXTENSION pg_skip'
sql -f "$here/lib.sql" -f "$here/inside.sql"
sql -c "CALL bench.choose_searches($rows, $searches)"
# That of the source tree, with a + if files in it have changed.
revision=$(git -C "$here/.." describe --always --dirty=+ --abbrev=12 2>/dev/null || echo unknown)

# keep SUBJECT VARIANT METRIC VALUE
keep() { sql -c "INSERT INTO bench.result VALUES ('$1', '$2', '$3', $4)"; }

# wanted TABLE [CLASS]: whether they are among the kinds.
wanted() {
    local kind
    for kind in $kinds; do
        case $kind in "$1" | "$1.${2:-}") return 0 ;; "$1".*) [ $# = 2 ] || return 0 ;; esac
    done
    return 1
}

# Fills a table, and staging with the rows that are appended to it.
load() {
    local tab=$1 part
    step "$tab: loading"
    if [ "$tab" = changes ]; then
        xz -dc "$changes" | sql -c 'CREATE TEMP TABLE raw (at bigint, of text, path text, blob text, letter text)' \
            -c "COPY raw FROM STDIN (FORMAT text, DELIMITER E'\t')" \
            -c 'INSERT INTO changes SELECT row_number() OVER (), to_timestamp(at), path FROM raw'
    else
        for part in $(seq 0 19); do
            sql -c "INSERT INTO $tab
                    SELECT * FROM ${tab%s}_rows($((part * rows / 20 + 1)), $(((part + 1) * rows / 20)))"
        done
        sql -c "CREATE UNLOGGED TABLE staging AS SELECT * FROM ${tab%s}_rows($rows + 1, $rows + $append)" \
            -c 'VACUUM (FREEZE, ANALYZE) staging' -c "SELECT pg_prewarm('staging')" >/dev/null
    fi
    sql -c "VACUUM (FREEZE, ANALYZE) $tab" -c "SELECT pg_prewarm('$tab')" >/dev/null
    [ "$tab" != changes ] || sql -c "CALL bench.choose_searches_of_changes($searches)"
    done_step
    size=$(sql -c "SELECT format('%s rows on %s pages, %s MB', to_char(reltuples, 'FM999,999,999'),
                          to_char(relpages, 'FM999,999,999'), to_char(relpages / 128.0, 'FM999,990'))
                   FROM pg_class WHERE oid = '$tab'::regclass")
    sizes+="- \`$tab\`: $size."$'\n'
    keep "$tab" none table_bytes "pg_relation_size('$tab')"
}

# Appends what staging has and takes it away again, when the index is gone: VACUUM cuts the table back.
append() {
    local tab=$1 subject=$2 variant=$3
    if [ "$tab" != changes ]; then
        keep "$subject" "$variant" append_s "$(sql -c "CALL bench.timed('INSERT INTO $tab SELECT * FROM staging')")"
        [ "$variant" != skip ] ||
            keep "$subject" "$variant" caught_up_s "$(sql -c "CALL bench.wait_for_worker('bench_index')")"
    fi
    sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
    [ "$tab" = changes ] || sql -c "DELETE FROM $tab WHERE id > $rows" -c "VACUUM (FREEZE) $tab"
}

# The same with an index that summarizes nothing meanwhile, and what it takes to do that afterwards.
summarize_later() {
    local tab=$1 subject=$2 variant=$3 definition=$4
    [ "$tab" != changes ] || return 0
    sql -c "CREATE INDEX bench_index ON $tab USING $definition WITH (autosummarize = off)"
    keep "$subject" "$variant" append_off_s "$(sql -c "CALL bench.timed('INSERT INTO $tab SELECT * FROM staging')")"
    keep "$subject" "$variant" summarize_s "$(sql -c "CALL bench.timed(\$\$SELECT skip_summarize('bench_index')\$\$)")"
    sql -c 'DROP INDEX bench_index' -c "DELETE FROM $tab WHERE id > $rows" -c "VACUUM (FREEZE) $tab"
}

# The same with inserts that summarize: what a worker does by default for values with several keys.
append_in_foreground() {
    local tab=$1 subject=$2 variant=$3 definition=$4
    [ "$tab" != changes ] || return 0
    sql -c "CREATE INDEX bench_index ON $tab USING $definition WITH (autosummarize = on)"
    keep "$subject" "$variant" append_on_s "$(sql -c "CALL bench.timed('INSERT INTO $tab SELECT * FROM staging')")"
    sql -c 'DROP INDEX bench_index' -c "DELETE FROM $tab WHERE id > $rows" -c "VACUUM (FREEZE) $tab"
}

# One round of a table: without an index, then each kind: build, searches, append.
round() {
    local tab=$1 class variant definition
    step "$tab, round $2 of $rounds: no index"
    for class in $(sql -c "SELECT DISTINCT class FROM bench.search WHERE tab = '$tab'"); do
        ! wanted "$tab" "$class" || sql -c "CALL bench.measure_searches('$tab', '$class', 'none', 1, 0)"
    done
    append "$tab" "$tab" none
    done_step
    sql -F '|' -c "SELECT class, variant, definition FROM bench.kind
                   WHERE tab = '$tab' AND (NOT is_slow OR $2 <= $slow_rounds) ORDER BY place" |
        while IFS='|' read -r class variant definition; do
            wanted "$tab" "$class" || continue
            step "$tab, round $2 of $rounds: $definition"
            keep "$tab.$class" "$variant" build_s \
                "$(sql -c "CALL bench.timed('CREATE INDEX bench_index ON $tab USING $definition')" </dev/null)"
            keep "$tab.$class" "$variant" bytes "pg_relation_size('bench_index')" </dev/null
            sql -c "SELECT pg_prewarm('bench_index')" </dev/null >/dev/null
            sql -c "CALL bench.measure_searches('$tab', '$class', '$variant', $searches, $seconds_each)" </dev/null
            append "$tab" "$tab.$class" "$variant" </dev/null
            if [ "$variant" = skip ]; then
                summarize_later "$tab" "$tab.$class" "$variant" "$definition" </dev/null
                case $class in
                    times | prefixes) ;; # their inserts summarize by default
                    *) append_in_foreground "$tab" "$tab.$class" "$variant" "$definition" </dev/null ;;
                esac
            fi
            done_step
        done
}

sizes=
for tab in lines documents changes; do
    wanted "$tab" || continue
    [ "$tab" != changes ] || [ -f "$changes" ] || { sizes+="- \`changes\`: the file is not there."$'\n'; continue; }
    load "$tab"
    for number in $(seq "$rounds"); do round "$tab" "$number"; done
    sql -c "DROP TABLE IF EXISTS staging" -c "TRUNCATE $tab" -c CHECKPOINT 2>/dev/null
done

json() {
    sql -c "SELECT jsonb_pretty(jsonb_build_object('bench', 'inside', 'date', current_date, 'revision', '$revision',
                'rows', $rows, 'append', $append, 'rounds', $rounds, 'server', split_part(version(), ' on ', 1),
                'machine', '$(machine | sed "s/'/''/g")', 'settings', '${settings[*]}',
                'results', (SELECT jsonb_agg(to_jsonb(r)) FROM
                    (SELECT subject, variant, metric, bench.median(array_agg(value)) AS median, min(value) AS least,
                            max(value) AS greatest, count(*) AS runs
                     FROM bench.result GROUP BY subject, variant, metric ORDER BY subject, variant, metric) AS r)))"
}

# What the page says of peers that were not in all rounds.
slow_peers() {
    [ "$slow_rounds" -ge "$rounds" ] ||
        printf '\n  GIN of lexemes and of fragments of lines takes long to build. It took part in %s only.' \
            "$([ "$slow_rounds" = 1 ] && echo 'one round' || echo "$slow_rounds rounds")"
}

page() {
    cat <<END
<!-- Made by \`make bench-inside\` (benches/inside.sh). Do not edit: run it again. -->
# Search inside values, measured

The operator classes of [search-inside-values.md](search-inside-values.md) beside the indexes that PostgreSQL has for
the same searches, on the tables of [benches/inside.sql](../benches/inside.sql): generated log lines of some 250
characters, each with a jsonb of eight attributes and an array of four tags; the tsvectors of the same lines; and the
paths of all changes of a real project's history. Everything was measured in one run of \`make bench-inside\`,
$(date -u +%F), revision $revision: \`ROWS=$rows APPEND=$append ROUNDS=$rounds SEARCHES=$searches\`.

$sizes- Machine: $(machine).
- $(versions pg_skip pg_trgm). Settings: \`${settings[*]}\`.
- One client; the table and the index were read into shared buffers before the searches, as far as they fit.
- In each of $rounds rounds all kinds of index took turns: CREATE INDEX, searches, an \`INSERT … SELECT\`, DROP INDEX.
  Each figure is the median of the rounds, the least and the greatest stand in brackets.$(slow_peers)
- Then each skip index was made once more, with \`autosummarize = off\`, for an INSERT and \`skip_summarize\`; and once
  with \`autosummarize = on\`, for an INSERT, if a background worker summarizes by default.
- Searches: \`SELECT *\`, parsing and planning included; in each round the median over up to $searches values.
  "Frequent" counts the rows. Nothing is switched off: where an index is of no use, the time is that of a sequential
  scan. skip has default options, but for the length of prefixes.
- Without an index, one value is searched in each round.

END
    sql -v append="$append" -f "$here/inside_report.sql"
}

if [ "$rows" -ge 5000000 ] || [ -n "${PAGE:-}" ]; then
    page >"$here/../docs/inside-benchmarks.md.new"
    mv "$here/../docs/inside-benchmarks.md.new" "$here/../docs/inside-benchmarks.md"
    mkdir -p "$here/../docs/results"
    json >"${JSON:-$here/../docs/results/inside.json}"
    echo 'docs/inside-benchmarks.md is written' >&2
else
    page
    [ -z "${JSON:-}" ] || json >"$JSON"
fi
