#!/usr/bin/env bash
# Measures bloom_agg against count, count(DISTINCT) and hll on the table of twenty_million.sql, in one run on one
# throw-away server, and writes docs/bloom-benchmarks.md.
#
#   bloom.sh PG_CONFIG          some ten minutes and 5 GB of disk under ${TMPDIR:-/tmp}
#
#   ROWS=20000000               fewer rows for a trial; the page then goes to the standard output
#   ROUNDS=5                    rounds, in which all kinds take turns; the median counts
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: bloom.sh PG_CONFIG"
rows=${ROWS:-20000000}
rounds=${ROUNDS:-5}

settings=(shared_buffers="$(buffers_mb 6144)MB" max_wal_size=16GB checkpoint_timeout=1h autovacuum=off jit=off
          max_parallel_workers_per_gather=0)
start_server "$1" "${settings[@]}"
sql -c 'CREATE EXTENSION pg_skip'
hll=$(sql -c "SELECT 1 FROM pg_available_extensions WHERE name = 'hll'")
[ -z "$hll" ] || sql -c 'CREATE EXTENSION hll'
sql -f "$here/bloom.sql"
load_events "$rows"
sql -c 'CREATE EXTENSION IF NOT EXISTS pg_prewarm' -c "SELECT pg_prewarm('events')" >/dev/null

for round in $(seq "$rounds"); do
    step "aggregates: round $round of $rounds"
    sql -v rows="$rows" -v hll="${hll:-0}" <<'END'
CALL bloom_bench.keep('count', 'SELECT count(trace_id) IS NULL FROM events');
CALL bloom_bench.keep('agg', 'SELECT bloom_agg(trace_id) IS NULL FROM events');
SELECT :hll = 1 AS has_hll \gset
\if :has_hll
CALL bloom_bench.keep('hll', 'SELECT hll_add_agg(hll_hash_bytea(uuid_send(trace_id))) IS NULL FROM events');
\endif
CALL bloom_bench.keep('expected', format('SELECT bloom_agg(trace_id, 0.01, %s) IS NULL FROM events', :rows));
CALL bloom_bench.keep('rocksdb', 'SELECT bloom_agg(trace_id, 0.01, NULL, ''rocksdb'') IS NULL FROM events');
SET max_parallel_workers_per_gather = 1;
CALL bloom_bench.keep('count_2', 'SELECT count(trace_id) IS NULL FROM events');
CALL bloom_bench.keep('agg_2', 'SELECT bloom_agg(trace_id) IS NULL FROM events');
RESET max_parallel_workers_per_gather;
END
    done_step
done
step 'count(DISTINCT), with 1 GB of work_mem'
sql -c "SET work_mem = '1GB'" \
    -c "CALL bloom_bench.keep('distinct', 'SELECT count(DISTINCT trace_id) IS NULL FROM events')"
done_step
step 'a million groups'
sql <<'END'
SET work_mem = '64MB';
CALL bloom_bench.keep('groups_count', 'SELECT id % 1000000, count(trace_id) FROM events GROUP BY 1');
CALL bloom_bench.keep('groups_agg', 'SELECT id % 1000000, bloom_agg(trace_id) FROM events GROUP BY 1');
SET work_mem = '1GB';
CREATE TABLE groups AS SELECT id % 1000000 AS g, bloom_agg(trace_id) AS b FROM events GROUP BY 1;
END
done_step
step 'lookups in memory, against other crates'
asking=$(cd "$here/.." && ROUNDS='' cargo bench -q -p skip_value --bench asking)
done_step
step 'asking, and rates'
sql -v rows="$rows" <<'END'
SET work_mem = '256MB';
CREATE TABLE filters AS SELECT policy, bloom_agg(trace_id, 0.01, NULL, policy) AS b
FROM (SELECT trace_id FROM events LIMIT 5000000) e, unnest(ARRAY['skip', 'rocksdb']) policy GROUP BY policy;
DO $$BEGIN
    FOR round IN 1 .. 5 LOOP
        CALL bloom_bench.keep('scan', 'SELECT count(*) FROM events WHERE device_id >= 0');
        CALL bloom_bench.keep('ask_skip', 'SELECT count(*) FROM events
            WHERE (SELECT b FROM filters WHERE policy = ''skip'') @> trace_id');
        CALL bloom_bench.keep('ask_rocksdb', 'SELECT count(*) FROM events
            WHERE (SELECT b FROM filters WHERE policy = ''rocksdb'') @> trace_id');
    END LOOP;
END$$;
CREATE TABLE parts AS SELECT part, min(trace_id::text)::uuid AS one, bloom_agg(trace_id) AS b
FROM (SELECT trace_id, row_number() OVER () * 20 / (:rows + 1) AS part FROM events) e GROUP BY part;
DO $$BEGIN
    FOR round IN 1 .. 21 LOOP
        CALL bloom_bench.keep('parts_whole', 'SELECT sum(get_byte(b::bytea, 0)) FROM parts');
        CALL bloom_bench.keep('parts_asked', 'SELECT count(*) FROM parts
            WHERE b @> (SELECT one FROM parts WHERE part = 7)');
    END LOOP;
END$$;
INSERT INTO bloom_bench.rate
SELECT policy, 0.01, 5000000, bloom_bench.absent(b, 0, 2000000), bloom_false_positive_rate(b) FROM filters;
INSERT INTO bloom_bench.rate
SELECT policy, built_at, n, avg(bloom_bench.absent(b, f, asked)), avg(bloom_false_positive_rate(b))
FROM (SELECT policy, built_at, n, asked, f, bloom_agg(md5(f || ' ' || i)::uuid, built_at, NULL, policy) AS b
      FROM (VALUES ('skip', 0.01, 10, 20000, 100), ('skip', 0.01, 1000, 1000, 2000),
                   ('skip', 0.01, 100000, 10, 200000),
                   ('rocksdb', 0.3, 10, 20000, 100), ('rocksdb', 0.01, 1000, 1000, 2000),
                   ('rocksdb', 0.01, 100000, 10, 200000))
               v (policy, built_at, n, count, asked),
          generate_series(1, count) f, generate_series(1, n) i
      GROUP BY policy, built_at, n, asked, f) s
GROUP BY policy, built_at, n;
END
done_step

page() {
    cat <<END
<!-- Made by \`make bench-bloom\` (benches/bloom.sh). Do not edit: run it again. -->
# Benchmarks of the type bloom

Measured in one run of \`make bench-bloom\`, $(date -u +%F), on the table of
[benches/twenty_million.sql](../benches/twenty_million.sql):
$(sql -c "SELECT to_char($rows, 'FM999,999,999')") rows with distinct \`trace_id\`s, all in shared buffers.

- Machine: $(machine).
- $(versions pg_skip hll). Settings: \`${settings[*]}\`;
  everything else is PostgreSQL's default, work_mem 4 MB, where nothing else is said.
- Medians of $rounds rounds, in which the aggregates took turns; what is marked with a star was run once.
  The time of a query without copying its result: what is asked is whether it is NULL.

END
    sql -v rows="$rows" -v asking="$asking" -f "$here/bloom_report.sql"
}
if [ "$rows" = 20000000 ]; then
    page >"$here/../docs/bloom-benchmarks.md.new"
    mv "$here/../docs/bloom-benchmarks.md.new" "$here/../docs/bloom-benchmarks.md"
    echo 'docs/bloom-benchmarks.md is written' >&2
else
    page
fi
