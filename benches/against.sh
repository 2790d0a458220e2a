#!/usr/bin/env bash
# Measures the library of this tree beside that of an earlier commit, in one run on one throw-away server, in which they
# take turns. Prints a table in Markdown.
#
#   against.sh PG_CONFIG REVISION    some quarter of an hour, with the build of the earlier library, and 5 GB of disk
#
#   ROWS=5000000                rows of the table
#   ROUNDS=7                    rounds, in which both take turns; the median counts
#   SECONDS_EACH=5              of prepared lookups, in each round
#   LAYOUT=filters              the layout of the index, for libraries that have several
#
# Each library has a database of its own, whose index it has built. The server is started anew for each turn, because
# the server has room for one library.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 2 ] || die "usage: against.sh PG_CONFIG REVISION"
pg_config=$1
rows=${ROWS:-5000000}
rounds=${ROUNDS:-7}
seconds_each=${SECONDS_EACH:-5}
layout=${LAYOUT:-filters}
root=$(cd "$here/.." && pwd)
revision=$(git -C "$root" rev-parse --verify --short "$2^{commit}") || die "there is no commit $2"
kept=$root/target/against
libraries=$("$pg_config" --pkglibdir)
extension=$("$pg_config" --sharedir)/extension

# keep_library NAME: keeps the files that are installed. use_library NAME: installs them again.
keep_library() {
    mkdir -p "$kept/$1"
    cp "$libraries"/pg_skip.so "$extension"/pg_skip.control "$extension"/pg_skip--*.sql "$kept/$1"
}
use_library() {
    cp "$kept/$1"/*.so "$libraries"
    cp "$kept/$1"/pg_skip.control "$kept/$1"/pg_skip--*.sql "$extension"
}

step "building $revision"
[ -d "$kept/tree-$revision" ] || git -C "$root" worktree add --detach "$kept/tree-$revision" "$revision" >/dev/null 2>&1
"$kept/tree-$revision/pgrx-config/install.sh" "$pg_config" >/dev/null 2>&1 || die "$revision does not build"
keep_library old
done_step
step 'building this tree'
"$root/pgrx-config/install.sh" "$pg_config" >/dev/null 2>&1 || die "this tree does not build"
keep_library new
done_step

start_server "$pg_config" shared_buffers="$(buffers_mb 4096)MB" maintenance_work_mem=256MB max_wal_size=8GB \
    checkpoint_timeout=1h autovacuum=off jit=off max_parallel_workers_per_gather=0 max_parallel_maintenance_workers=0
sql -c 'CREATE TABLE result (name text, library text, value float8)'

# turn NAME: from now on it is this library's turn.
turn() {
    PGDATABASE=postgres
    as_server_user "$bin/pg_ctl" -D "$server_dir/data" -w -m fast stop >/dev/null
    use_library "$1"
    run_server
    PGDATABASE=$1
}
# keep LIBRARY NAME VALUE
keep() { PGDATABASE=postgres sql -c "INSERT INTO result VALUES ('$2', '$1', $3)"; }
index="CREATE INDEX bench_index ON events USING skip (trace_id)
       WITH (pages_per_range = 16, false_positive_rate = 0.0001)"
build() { PGOPTIONS="-c pg_skip.default_layout=$layout" sql -c 'DROP INDEX IF EXISTS bench_index' -c "$1" 2>/dev/null; }
timed() { echo "CALL bench.timed(\$timed\$$1\$timed\$)"; }
query_ms() { sql -c 'SET enable_seqscan = off' -c "SELECT bench.query_ms(bench.queries('events.trace_id', $1), 3)"; }
once_ms() {
    keep "$1" "$2" "$(sql -c "$(timed "$3")") * 1000"
}

measure() {
    local library=$1
    keep "$library" 'build, s' "$(build "$(timed "$index")")"
    sql -c "SELECT pg_prewarm('events')" -c "SELECT pg_prewarm('bench_index')" >/dev/null
    keep "$library" 'absent key, ms' "$(query_ms "'absent'")"
    keep "$library" 'present key, ms' "$(query_ms "'present'")"
    keep "$library" '100 absent keys, ms' "$(query_ms "'absent', 100")"
    keep "$library" 'prepared lookups, 8 clients, a second' "$(PGOPTIONS='-c enable_seqscan=off' \
        "$bin/pgbench" -n -M prepared -c 8 -j 2 -T "$seconds_each" -D rows="$rows" -f "$here/look_up.pgbench" |
        sed -n 's/^tps = \([0-9.]*\).*/\1/p')"
    once_ms "$library" 'insert 100,000 rows and roll back, ms' \
        "DO \$do\$BEGIN INSERT INTO events SELECT * FROM event_rows($rows + 1, $rows + 100000);
                        RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END\$do\$"
    sql -c 'VACUUM events'
    once_ms "$library" 'bloom_agg, ms' 'SELECT bloom_agg(trace_id) IS NULL FROM events'
    once_ms "$library" 'bloom_agg, 50,000 groups, ms' \
        'SELECT count(b) FROM (SELECT bloom_agg(trace_id) AS b FROM events GROUP BY id % 50000) AS g'
    once_ms "$library" 'bloom @> key, a filter of 6 MB, ms' \
        'SELECT count(*) FROM events WHERE (SELECT b FROM filter) @> trace_id'
    sql -c "TRUNCATE bench.result" -c "CALL bench.measure_planning('s', 'filters',
        \$\$SELECT * FROM events WHERE ts = '2026-01-01 00:00Z'\$\$, 5, 1000)" >/dev/null
    keep "$library" 'planning a query that has no use for it, us' \
        "$(sql -c 'SELECT bench.median(array_agg(value)) FROM bench.result')"
}

for library in old new; do
    turn "$library"
    PGDATABASE=postgres sql -c "CREATE DATABASE $library"
    sql -c 'CREATE EXTENSION pg_skip'
    sql -f "$here/lib.sql"
    load_events "$rows"
    # Both libraries are asked the same keys, those of which 'trace n' is the source; no row has an absent one.
    sql -c "INSERT INTO bench.key SELECT 'events.trace_id', kind, i, md5(format(source, i * 7))::uuid
            FROM (VALUES ('absent', 'absent %s'), ('present', 'trace %s')) AS k (kind, source),
                 generate_series(1, 1000) AS i" \
        -c "CREATE TABLE filter AS SELECT bloom_agg(trace_id, 0.01, 5000000) AS b FROM events" -c 'VACUUM events'
done
for round in $(seq "$rounds"); do
    step "round $round of $rounds"
    for library in old new; do
        turn "$library"
        measure "$library"
    done
    done_step
done
PGDATABASE=postgres
cat <<END
$rows rows, layout = $layout, $rounds rounds, $(sql -c "SELECT split_part(version(), ' on ', 1)"), $(machine);
commit $revision beside $(git -C "$root" describe --always --dirty). Medians, least and greatest in brackets.

| | $revision | this tree | this tree / $revision |
|---|---|---|---|
END
sql <<'END'
SELECT format('| %s | %s (%s to %s) | %s (%s to %s) | %s |', name, old.m, old.l, old.g, new.m, new.l, new.g,
              round((new.m / nullif(old.m, 0))::numeric, 2))
FROM (SELECT DISTINCT name FROM result) AS n,
     LATERAL (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY value)::numeric(12, 3) AS m,
                     min(value)::numeric(12, 3) AS l, max(value)::numeric(12, 3) AS g
              FROM result AS r WHERE r.name = n.name AND library = 'old') AS old,
     LATERAL (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY value)::numeric(12, 3) AS m,
                     min(value)::numeric(12, 3) AS l, max(value)::numeric(12, 3) AS g
              FROM result AS r WHERE r.name = n.name AND library = 'new') AS new
ORDER BY name;
END
